package seawall.reader;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;

/** The program of the jar: verifies a log, or prints its records. */
public final class Main {
    private static final String USAGE =
            "usage: java -jar seawall-reader.jar verify DIR | cat DIR | cat DIR STREAM\n"
                    + "       exit code 0: done, 1: the log is damaged or cannot be read, 2: wrong arguments";

    private Main() {}

    /**
     * Runs a command and ends the process with its exit code.
     *
     * @param arguments the command and what it is done to
     */
    public static void main(String[] arguments) {
        System.exit(run(arguments, System.out, System.err));
    }

    static int run(String[] arguments, PrintStream out, PrintStream err) {
        boolean verifies = arguments.length == 2 && arguments[0].equals("verify");
        boolean prints = (arguments.length == 2 || arguments.length == 3) && arguments[0].equals("cat");
        if (!verifies && !prints) {
            err.println(USAGE);
            return 2;
        }
        try {
            Path dir = Path.of(arguments[1]);
            if (verifies) {
                return verify(dir, out);
            }
            cat(dir, arguments.length == 3 ? Integer.parseInt(arguments[2]) : -1, out);
            return 0;
        } catch (NumberFormatException noNumber) {
            err.println("error: STREAM is a number below 16777216\n" + USAGE);
            return 2;
        } catch (IOException refused) {
            err.println("error: " + refused.getMessage());
            return 1;
        }
    }

    private static int verify(Path dir, PrintStream out) throws IOException {
        Report report = StoredLog.verify(dir);
        out.println("log         " + report.identity() + ", epoch " + Long.toUnsignedString(report.epoch()));
        out.println("segments    " + report.segments() + ", and " + report.spares() + " prepared");
        out.println("LSNs        " + Long.toUnsignedString(report.firstLsn()) + " to " + Long.toUnsignedString(report.endLsn()));
        out.println("intact      " + report.records() + " records in " + report.batches() + " batches");
        out.println("tail        " + report.tail().kind().name().toLowerCase(java.util.Locale.ROOT));
        report.foreignFiles().forEach(name -> out.println("foreign     " + name));
        report.damage().forEach(place -> out.println("DAMAGED     " + place));
        return report.isSound() ? 0 : 1;
    }

    /** One line a record: LSN, stream and sequence number or "-", the bytes in Base64. */
    private static void cat(Path dir, int stream, PrintStream out) throws IOException {
        try (StoredLog log = StoredLog.open(dir);
                RecordReader records = reader(log, stream)) {
            for (LogRecord record = records.next(); record != null; record = records.next()) {
                String place = record.stream() < 0 ? "-" : record.stream() + ":" + Long.toUnsignedString(record.sequence().getAsLong());
                byte[] text = Base64.getEncoder().encode(record.bytes());
                out.println(Long.toUnsignedString(record.lsn()) + " " + place + " " + new String(text, StandardCharsets.US_ASCII));
            }
        }
    }

    private static RecordReader reader(StoredLog log, int stream) throws IOException {
        if (stream < 0) {
            return log.read(log.firstLsn());
        }
        long first = log.stream(stream).map(StoredStream::first).orElse(0L);
        return log.readStream(stream, first);
    }
}
