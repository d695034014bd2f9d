package seawall;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests every number and time of the interface at both of its ends: each is taken as it is, or refused by what it is about. */
class EndsTest extends Fixture {
    private interface Call {
        Object make(Log log) throws Throwable;
    }

    private record Row(String call, String expected, Call made) {}

    private static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();
    private static final Duration NEVER = Duration.ofSeconds(Long.MIN_VALUE);
    private static final long MAX = Long.MAX_VALUE;
    private static final long MIN = Long.MIN_VALUE;

    private List<Row> rows() {
        List<Row> rows = new ArrayList<>(List.of(
                new Row("commit FOREVER", "ok", log -> commit(log, FOREVER)),
                new Row("commit negative", "ok", log -> commit(log, NEVER)),
                new Row("next FOREVER", "true", log -> next(log, FOREVER)),
                new Row("next negative", "true", log -> next(log, NEVER)),
                new Row("lsnAt MAX", "true", log -> log.lsnAt(Instant.MAX) == log.durableLsn()),
                new Row("lsnAt MIN", "0", log -> log.lsnAt(Instant.MIN)),
                new Row("retentionAge FOREVER", "ok", log -> options(new LogOptions().retentionAge(FOREVER))),
                new Row("retentionAge negative", "option retention_age_ns", log -> new LogOptions().retentionAge(Duration.ofSeconds(-1))),
                new Row("retentionBytes MAX", "ok", log -> options(new LogOptions().retentionBytes(MAX))),
                new Row("idle_mark_ns MAX", "INVALID_OPTION", log -> options(new LogOptions().set("idle_mark_ns", MAX))),
                new Row("stall_threshold_ns MAX", "INVALID_OPTION", log -> options(new LogOptions().set("stall_threshold_ns", MAX))),
                new Row("diskBytesMax MAX", "ok", log -> options(new LogOptions().diskBytesMax(MAX, true))),
                new Row("append from -1", "IndexOutOfBoundsException", log -> log.append(new byte[3], -1, 1)),
                new Row("append past the end", "IndexOutOfBoundsException", log -> log.append(new byte[3], 2, Integer.MAX_VALUE)),
                new Row("stream -1", "IllegalArgumentException", log -> log.stream(-1)),
                new Row("stream MAX", "IllegalArgumentException", log -> log.stream(Integer.MAX_VALUE)),
                new Row("transaction, stream MAX", "INVALID_ARGUMENT",
                        log -> log.transaction(transaction -> transaction.append(Integer.MAX_VALUE, new byte[1])))));
        for (String option : List.of("segment_bytes", "block_bytes", "batch_bytes", "memory_bytes", "crash_memory_bytes", "record_bytes_max",
                "in_flight_max", "spares")) {
            rows.add(new Row(option + " MAX", "INVALID_OPTION", log -> options(new LogOptions().set(option, MAX))));
            rows.add(new Row(option + " -1", "option " + option, log -> new LogOptions().set(option, -1)));
        }
        for (long lsn : new long[] {-1, MIN, MAX}) {
            rows.add(new Row("commit " + lsn, "BEYOND_END", log -> ok(() -> log.commit(lsn))));
            rows.add(new Row("commit with a time " + lsn, "BEYOND_END", log -> ok(() -> log.commit(lsn, FOREVER))));
            rows.add(new Row("commit of a class " + lsn, "BEYOND_END", log -> ok(() -> log.commit(lsn, Durability.PROCESS_CRASH))));
            rows.add(new Row("commitAsync " + lsn, "BEYOND_END", log -> log.commitAsync(lsn).get()));
            rows.add(new Row("read " + lsn, "BEYOND_END", log -> log.read(lsn)));
            rows.add(new Row("readAt " + lsn, "BEYOND_END", log -> log.readAt(lsn)));
            rows.add(new Row("readBefore " + lsn, "BEYOND_END", log -> log.readBefore(lsn)));
            rows.add(new Row("pin " + lsn, "BEYOND_END", log -> log.pin(lsn)));
            rows.add(new Row("trim " + lsn, "BEYOND_END", log -> log.trim(lsn)));
            rows.add(new Row("truncateAfter " + lsn, "BEYOND_END", log -> log.truncateAfter(lsn)));
            rows.add(new Row("stream.get " + lsn, "STREAM_END", log -> log.stream(1).get(lsn)));
            rows.add(new Row("stream.read " + lsn, "STREAM_END", log -> log.stream(1).read(lsn)));
            rows.add(new Row("stream.trim " + lsn, "STREAM_END", log -> log.stream(1).trim(lsn)));
            rows.add(new Row("stream.truncate " + lsn, "STREAM_END", log -> log.stream(1).truncate(lsn)));
        }
        return rows;
    }

    private static String ok(Executable call) throws Throwable {
        call.execute();
        return "ok";
    }

    private static String commit(Log log, Duration timeout) throws Exception {
        long lsn = log.append(new byte[1]);
        try {
            log.commit(lsn, timeout);
        } catch (LogTimeoutException late) {
            // Right for a time that was over before it began.
            log.commit(lsn);
        }
        return "ok";
    }

    private static boolean next(Log log, Duration timeout) throws Exception {
        try (Cursor cursor = log.read(log.firstLsn())) {
            return cursor.next(timeout);
        }
    }

    private String options(LogOptions options) throws Throwable {
        return ok(Log.open(dir.resolve("other"), options.method("buffered+fdatasync"))::close);
    }

    private static String result(Row row, Log log) {
        try {
            return String.valueOf(row.made().make(log));
        } catch (Throwable thrown) {
            Throwable first = thrown instanceof java.util.concurrent.ExecutionException ? thrown.getCause() : thrown;
            String code = first instanceof SeawallException refused ? refused.code() + " " : "";
            return code + first;
        }
    }

    @Test
    void everyNumberIsTakenOrRefusedByItsName() throws Exception {
        try (Log log = openSmall()) {
            log.stream(1).append(new byte[1]);
            log.commit(log.append(new byte[1]));
            List<String> wrong = new ArrayList<>();
            for (Row row : rows()) {
                String result = assertDoesNotThrow(() -> result(row, log));
                if (!result.contains(row.expected())) {
                    wrong.add(row.call() + ": " + result + ", not " + row.expected());
                }
            }
            assertEquals(List.of(), wrong);
        }
    }
}
