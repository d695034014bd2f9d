package seawall.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Reads the golden log, which the native library wrote, and compares it with the text beside it. */
class GoldenLogTest {
    private static String shown(byte[] bytes) {
        return bytes.length == 0 ? "nothing" : (char) bytes[0] + "*" + bytes.length;
    }

    @Test
    void theGoldenLogHoldsWhatItsTextSays() throws IOException {
        List<String> lines = new ArrayList<>();
        try (StoredLog log = StoredLog.open(GoldenTest.GOLDEN.resolve("log"))) {
            lines.add("log " + log.firstLsn() + " " + log.endLsn());
            try (RecordReader records = log.read(log.firstLsn())) {
                for (LogRecord record = records.next(); record != null; record = records.next()) {
                    String place = record.stream() < 0 ? "-" : record.stream() + "/" + record.sequence().getAsLong();
                    lines.add(record.lsn() + " " + place + " " + (record.endsTransaction() ? "ends " : "goes on ") + shown(record.bytes()));
                }
            }
            for (StoredStream stream : log.streams()) {
                lines.add("stream " + stream.id() + " " + stream.first() + " " + stream.next());
                try (RecordReader records = log.readStream(stream.id(), stream.first())) {
                    for (LogRecord record = records.next(); record != null; record = records.next()) {
                        lines.add(record.sequence().getAsLong() + " " + shown(record.bytes()));
                    }
                }
            }
        }
        assertEquals(Files.readAllLines(GoldenTest.GOLDEN.resolve("log.txt")), lines);
        assertTrue(lines.size() > 20);
        Report report = StoredLog.verify(GoldenTest.GOLDEN.resolve("log"));
        assertTrue(report.isSound(), report::toString);
        assertEquals(Tail.Kind.TORN, report.tail().kind());
    }
}
