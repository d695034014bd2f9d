package seawall.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Reads the golden files of the format, which the library is held to as well, and the golden log, whose text lies beside it. */
class GoldenTest {
    static final Path GOLDEN = Path.of(System.getProperty("seawall.root", "../../.."), "crates/log/tests/golden");
    private static final String ID = "30313233343536373839616263646566";

    private static byte[] golden(String name) throws IOException {
        return Files.readAllBytes(GOLDEN.resolve(name));
    }

    @Test
    void theSegmentHeaderReadsAsItWasWritten() throws Exception {
        SegmentHeader expected = new SegmentHeader(
                512, ID, 3, 7, 65_536, 1_000_000, 999_000, 6, 0xDEADBEEF, Durability.SYSTEM_CRASH, 5, 6);
        assertEquals(expected, SegmentHeader.decode(golden("segment-v1.bin"), 0));
    }

    @Test
    void theBatchReadsAsItWasWritten() throws Exception {
        byte[] bytes = golden("batch-v1.bin");
        BatchHeader header = BatchHeader.decode(bytes);
        BatchHeader expected = new BatchHeader(
                BatchHeader.Kind.RECORDS, ID, 3, 7, 512, 1_000_000, 999_500, 999_900, 999_000, header.bodyBytes(), 4, 0xDEADBEEF,
                Layout.crc32c(bytes, 128, bytes.length - 128), true, false, 1_795_000_000_000_000L, Layout.crc32c(bytes, 0, 124));
        assertEquals(expected, header);
        byte[] body = Arrays.copyOfRange(bytes, 128, 128 + header.bodyBytes());
        RawRecords.check(header, body);
        RawRecords records = new RawRecords(body, true, header.lsn());
        assertRecord(records, "debit", true, null);
        assertRecord(records, "credit", false, null);
        assertRecord(records, "", false, null);
        assertRecord(records, "vote", false, new Tag(Tag.Kind.DATA, 0x010203, 0x040506070809L));
        assertFalse(records.next());
    }

    private static void assertRecord(RawRecords records, String text, boolean more, Tag tag) {
        assertTrue(records.next());
        assertEquals(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)), records.payload());
        assertEquals(more, records.more());
        assertEquals(tag, records.tag());
    }

    @Test
    void everyFlippedBitOfASegmentHeaderIsNoticed() throws Exception {
        byte[] segment = golden("segment-v1.bin");
        for (int bit = 0; bit < 128 * 8; bit++) {
            byte[] bad = flipped(segment, bit);
            assertThrows(Fault.Broken.class, () -> SegmentHeader.decode(bad, 0), "bit " + bit);
        }
        assertThrows(Fault.Broken.class, () -> SegmentHeader.decode(segment, 1), "the other copy");
    }

    /** A whole segment around the golden batch, so that its records are read where they lie. */
    @Test
    void everyFlippedBitOfTheBatchIsNoticedInItsPlace(@TempDir Path dir) throws Exception {
        byte[] batch = golden("batch-v1.bin");
        SegmentHeader header = SegmentHeader.decode(golden("segment-v1.bin"), 0);
        Path path = dir.resolve(Layout.segmentName(7));
        byte[] file = new byte[65_536];
        System.arraycopy(golden("segment-v1.bin"), 0, file, 0, 512);
        Files.write(path, file);
        for (int bit = -1; bit < batch.length * 8; bit++) {
            try (FileChannel out = FileChannel.open(path, StandardOpenOption.WRITE);
                    SegmentFile open = new SegmentFile(path)) {
                out.write(ByteBuffer.wrap(bit < 0 ? batch : flipped(batch, bit)), 512);
                BatchWalk walk = new BatchWalk(header, open);
                if (bit < 0) {
                    assertEquals(1_000_000, walk.next().lsn());
                } else {
                    assertThrows(Fault.Broken.class, walk::next, "bit " + bit);
                }
            }
        }
    }

    private static byte[] flipped(byte[] bytes, int bit) {
        byte[] bad = bytes.clone();
        bad[bit / 8] ^= (byte) (1 << bit % 8);
        return bad;
    }

    @Test
    void aSegmentOfAnUnreleasedBuildIsRefusedByName(@TempDir Path dir) throws Exception {
        Files.write(dir.resolve(Layout.segmentName(7)), Arrays.copyOf(golden("segment-unreleased.bin"), 65_536));
        LogFormatException refusal = assertThrows(LogFormatException.class, () -> StoredLog.open(dir));
        assertEquals(LogFormatException.Reason.OLDER_FORMAT, refusal.reason());
        refusal = assertThrows(LogFormatException.class, () -> StoredLog.verify(dir));
        assertEquals(LogFormatException.Reason.OLDER_FORMAT, refusal.reason());
    }

    /** A header with these bytes at a place, its checksum right. */
    private static byte[] forged(byte[] header, int at, byte... bytes) {
        byte[] forged = header.clone();
        System.arraycopy(bytes, 0, forged, at, bytes.length);
        int sum = SampleLog.crc(forged, 0, 124);
        ByteBuffer.wrap(forged).order(ByteOrder.LITTLE_ENDIAN).putInt(124, sum);
        return forged;
    }

    @Test
    void whatALaterVersionMayChangeIsRefusedAndNotTakenForDamage(@TempDir Path dir) throws Exception {
        byte[] header = golden("segment-v1.bin");
        record Row(int at, byte value, LogFormatException.Reason reason) {}
        Row[] rows = {
            new Row(4, (byte) 2, LogFormatException.Reason.NEWER_FORMAT),
            new Row(84, (byte) 1, LogFormatException.Reason.UNKNOWN_FEATURE),
            new Row(87, (byte) 0x80, LogFormatException.Reason.UNKNOWN_FEATURE),
            new Row(80, (byte) 9, LogFormatException.Reason.DAMAGED),
        };
        for (Row row : rows) {
            byte[] file = Arrays.copyOf(forged(header, row.at, row.value), 65_536);
            Files.write(dir.resolve(Layout.segmentName(7)), file);
            LogFormatException refusal = assertThrows(LogFormatException.class, () -> StoredLog.open(dir));
            assertEquals(row.reason, refusal.reason(), refusal.getMessage());
        }
    }

    @Test
    void whatABatchClaimsLiesBetweenDurableAndItsLsn() throws Exception {
        byte[] batch = golden("batch-v1.bin");
        record Row(int behind, long acknowledged) {}
        Row[] rows = {new Row(0, 1_000_000), new Row(500, 999_500), new Row(501, -1), new Row(1_000_001, -1), new Row(-1, -1)};
        for (Row row : rows) {
            byte[] behind = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(row.behind).array();
            byte[] forged = forged(batch, 88, behind);
            if (row.acknowledged < 0) {
                assertThrows(Fault.Broken.class, () -> BatchHeader.decode(forged).checkClaims(), row.toString());
            } else {
                BatchHeader header = BatchHeader.decode(forged);
                header.checkClaims();
                assertEquals(row.acknowledged, header.acknowledged());
            }
        }
    }

    private static String shown(byte[] bytes) {
        return bytes.length == 0 ? "nothing" : (char) bytes[0] + "*" + bytes.length;
    }

    @Test
    void theGoldenLogHoldsWhatItsTextSays() throws IOException {
        List<String> lines = new ArrayList<>();
        try (StoredLog log = StoredLog.open(GOLDEN.resolve("log"))) {
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
        assertEquals(Files.readAllLines(GOLDEN.resolve("log.txt")), lines);
        assertTrue(lines.size() > 20);
        Report report = StoredLog.verify(GOLDEN.resolve("log"));
        assertTrue(report.isSound(), report::toString);
        assertEquals(Tail.Kind.TORN, report.tail().kind());
    }
}
