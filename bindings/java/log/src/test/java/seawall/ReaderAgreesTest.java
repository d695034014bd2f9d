package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import seawall.reader.LogFormatException;
import seawall.reader.RecordReader;
import seawall.reader.StoredLog;
import seawall.reader.StoredStream;

/** Holds the reader in plain Java against the native library: both read the same logs, sound and damaged, and must tell the same. */
class ReaderAgreesTest extends Fixture {
    /** A log of many segments with streams, trims, cuts and transactions, opened three times; the last time it ends as by a crash unless it is closed. */
    private static void write(Path at, Random random, boolean closes) throws SeawallException {
        for (int opening = 0; opening < 3; opening++) {
            Log log = Log.open(at, small());
            List<Long> ends = new ArrayList<>();
            ends.add(log.appendedLsn());
            for (int i = 0; i < 120; i++) {
                byte[] bytes = new byte[random.nextInt(1500)];
                random.nextBytes(bytes);
                int stream = random.nextInt(5);
                LogStream of = log.stream(stream);
                switch (random.nextInt(12)) {
                    case 0 -> of.trim(of.first() + (of.next() - of.first()) / 2);
                    case 1 -> of.truncate(of.next() - (of.next() - of.first()) / 3);
                    case 2 -> log.truncateAfter(Math.max(log.firstLsn(), ends.get(ends.size() - 1 - random.nextInt(Math.min(4, ends.size())))));
                    case 3 -> log.trim(Math.min(log.durableLsn(), ends.get(ends.size() / 2)));
                    case 4 -> {
                        if (random.nextInt(4) == 0) {
                            of.remove();
                        }
                    }
                    case 5, 6 -> log.transaction(transaction -> transaction.append(bytes).append(stream, bytes).append(bytes));
                    case 7, 8 -> of.append(bytes);
                    default -> log.append(bytes);
                }
                ends.add(log.appendedLsn());
                if (random.nextInt(3) > 0) {
                    log.commit(log.appendedLsn());
                }
            }
            log.commit(log.appendedLsn());
            if (closes || opening < 2) {
                log.close();
            } else {
                log.abandon();
            }
        }
    }

    private static final String RECORD = "%d %d %d:%d %b %d";

    private static List<String> natively(Cursor cursor) throws SeawallException {
        List<String> records = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) {
                records.add(RECORD.formatted(cursor.lsn(), cursor.endLsn(), cursor.stream(), cursor.sequence(), cursor.endsTransaction(),
                        Arrays.hashCode(cursor.bytes())));
            }
        }
        return records;
    }

    private static List<String> plainly(RecordReader reader) throws IOException {
        List<String> records = new ArrayList<>();
        try (reader) {
            for (seawall.reader.LogRecord record = reader.next(); record != null; record = reader.next()) {
                records.add(RECORD.formatted(record.lsn(), record.endLsn(), record.stream(), record.sequence().orElse(0),
                        record.endsTransaction(), Arrays.hashCode(record.bytes())));
            }
        }
        return records;
    }

    @Test
    void bothReadTheSameRecordsOfTheLogAndOfEveryStream() throws Exception {
        for (int seed = 0; seed < 6; seed++) {
            Path at = dir.resolve("log-" + seed);
            write(at, new Random(seed), true);
            StoredLog stored = StoredLog.open(at);
            // The view first: opening the log for writing moves its end.
            try (View view = View.open(at)) {
                View.State state = view.state();
                assertEquals(state.identity(), stored.identity());
                assertEquals(state.firstLsn(), stored.firstLsn());
                assertEquals(state.endLsn(), stored.endLsn());
                assertEquals(state.segments(), stored.segments());
                assertEquals(state.tail().kind().name(), stored.tail().orElseThrow().kind().name());
                List<String> records = natively(view.read(state.firstLsn(), true));
                assertTrue(records.size() > 20, records.size() + " records are left");
                assertEquals(records, plainly(stored.read(stored.firstLsn())), "seed " + seed);
            }
            // All of them before the log is opened, which uses trimmed segments again.
            Map<Integer, List<String>> plain = new TreeMap<>();
            for (StoredStream stream : stored.streams()) {
                plain.put(stream.id(), plainly(stored.readStream(stream.id(), stream.first())));
            }
            try (Log log = Log.open(at, small())) {
                List<Integer> streams = Arrays.stream(log.streams()).boxed().toList();
                assertEquals(streams, List.copyOf(plain.keySet()), "seed " + seed);
                for (StoredStream stream : stored.streams()) {
                    LogStream same = log.stream(stream.id());
                    assertEquals(same.first(), stream.first(), "seed " + seed + " stream " + stream.id());
                    assertEquals(same.next(), stream.next());
                    // A copy of a record has another LSN than the record that the log reads as long as both are there.
                    assertEquals(natively(same.read(same.first())), plain.get(stream.id()));
                }
            }
        }
    }

    private static final String FOUND = "records %d bytes %d batches %d segments %d+%d LSNs %d..%d witnessed %d %s epoch %d %s";
    private static final String PLACE = "%s@%d LSN %d %s";

    private static String natively(Path at) {
        try {
            Report report = Log.verify(at);
            Stream<String> damage = report.damage().stream()
                    .map(place -> PLACE.formatted(place.path().getFileName(), place.offset(), place.lsn(), place.what()));
            return FOUND.formatted(report.records(), report.bytes(), report.batches(), report.segments(), report.spares(), report.firstLsn(),
                    report.endLsn(), report.witnessedLsn(), report.tail().kind(), report.epoch(), damage.sorted().toList());
        } catch (SeawallException refused) {
            return refused.code().name();
        }
    }

    private static String plainly(Path at) throws IOException {
        try {
            seawall.reader.Report report = StoredLog.verify(at);
            Stream<String> damage = report.damage().stream()
                    .map(place -> PLACE.formatted(place.path().getFileName(), place.offset(), place.lsn(), place.what()));
            return FOUND.formatted(report.records(), report.bytes(), report.batches(), report.segments(), report.spares(), report.firstLsn(),
                    report.endLsn(), report.witnessedLsn(), report.tail().kind(), report.epoch(), damage.sorted().toList());
        } catch (LogFormatException refused) {
            return name(refused);
        }
    }

    /** The reason as the library calls it. */
    private static String name(LogFormatException refused) {
        return refused.reason() == LogFormatException.Reason.DAMAGED ? "CORRUPT" : refused.reason().name();
    }

    /** What a reader gets of the log, and what an opening finds of its streams, which may change the log and has errors of its own. */
    private static List<String> recordsNatively(Path at) {
        List<String> found = new ArrayList<>();
        try (View view = View.open(at)) {
            found.add(natively(view.read(view.state().firstLsn(), true)).toString());
        } catch (SeawallException refused) {
            found.add(refused.code().name());
        }
        try (Log log = Log.open(at, small())) {
            for (int number : log.streams()) {
                LogStream stream = log.stream(number);
                found.add(number + " " + stream.first() + " " + stream.next());
            }
        } catch (SeawallException refused) {
            found.add("refused");
        }
        return found;
    }

    private static List<String> recordsPlainly(Path at) throws IOException {
        List<String> found = new ArrayList<>();
        try (StoredLog log = StoredLog.open(at)) {
            found.add(plainly(log.read(log.firstLsn())).toString());
        } catch (LogFormatException refused) {
            found.add(name(refused));
        }
        try (StoredLog log = StoredLog.open(at)) {
            for (StoredStream stream : log.streams()) {
                found.add(stream.id() + " " + stream.first() + " " + stream.next());
            }
        } catch (LogFormatException refused) {
            found.add("refused");
        }
        return found;
    }

    /** Byte flips, blocks of zeros, cut and removed files, in seeded order. */
    @Test
    void bothFindTheSameDamage() throws Exception {
        int damaged = 0;
        for (int seed = 0; seed < 3; seed++) {
            Path original = dir.resolve("original-" + seed);
            write(original, new Random(100 + seed), seed > 0);
            Random random = new Random(1000 + seed);
            Path copy = Files.createDirectory(dir.resolve("copy-" + seed));
            for (int round = 0; round < 70; round++) {
                clear(copy);
                List<Path> segments = new ArrayList<>();
                try (var files = Files.list(original)) {
                    for (Path file : files.sorted().toList()) {
                        Path to = Files.copy(file, copy.resolve(file.getFileName()));
                        if (to.toString().endsWith(".seg")) {
                            segments.add(to);
                        }
                    }
                }
                int wounds = 1 + random.nextInt(3);
                StringBuilder what = new StringBuilder("seed " + seed + " round " + round);
                for (int wound = 0; wound < wounds; wound++) {
                    what.append(wound(segments.get(random.nextInt(segments.size())), random));
                }
                String expected = natively(copy);
                assertEquals(expected, plainly(copy), what.toString());
                List<String> records = recordsPlainly(copy);
                assertEquals(recordsNatively(copy), records, what.toString());
                damaged += expected.endsWith("[]") ? 0 : 1;
            }
        }
        assertTrue(damaged > 60, damaged + " of 210 wounds were damage");
    }

    private static String wound(Path segment, Random random) throws IOException {
        if (!Files.exists(segment) || Files.size(segment) == 0) {
            return "";
        }
        byte[] bytes = Files.readAllBytes(segment);
        int at = random.nextInt(4) == 0 ? bytes.length - 1 - random.nextInt(512) : random.nextInt(bytes.length);
        switch (random.nextInt(8)) {
            case 0 -> Files.delete(segment);
            case 1 -> Files.write(segment, Arrays.copyOf(bytes, at));
            case 2 -> {
                int block = at / 512 * 512;
                Arrays.fill(bytes, block, Math.min(bytes.length, block + 512 * (1 + random.nextInt(4))), (byte) 0);
                Files.write(segment, bytes);
            }
            default -> {
                bytes[random.nextBoolean() ? at : at / 512 * 512 + random.nextInt(128) % Math.max(1, bytes.length - at / 512 * 512)] ^=
                        (byte) (1 << random.nextInt(8));
                Files.write(segment, bytes);
            }
        }
        return ", " + segment.getFileName() + " near " + at;
    }

    private static void clear(Path folder) throws IOException {
        try (var files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
    }
}
