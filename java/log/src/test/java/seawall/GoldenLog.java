/*
 * Writes the golden log of format version 1 and what it holds, on purpose only: `GoldenLog DIR` makes DIR/log and DIR/log.txt.
 *
 * The bytes of a log differ from one run to the next, by its identity and its times; what must never change is that every
 * implementation reads this one as its text says.
 */
package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

final class GoldenLog {
    private GoldenLog() {}

    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]).resolve("log");
        try (Log log = Log.open(dir, Fixture.small())) {
            log.commit(log.append(letters('a', 3)));
            log.commit(log.transaction(transaction ->
                    transaction.append(letters('b', 9)).append(1, letters('c', 4)).append(2, letters('d', 5)).append(letters('e', 0))));
            for (int i = 0; i < 30; i++) {
                log.append(letters('f', 4000));
                log.stream(1 + i % 3).append(letters('g', 100 + i));
                log.commit(log.appendedLsn());
            }
            // Reaches back into the segment before.
            log.commit(log.truncateAfter(log.appendedLsn() - 20_000));
            log.stream(1).trim(4);
            log.stream(2).truncate(6);
            log.stream(2).append(letters('h', 7));
            log.commit(log.stream(3).remove());
            log.append(letters('i', 8));
        }
        Log log = Log.open(dir, Fixture.small());
        log.commit(log.append(letters('j', 10)));
        log.trim(50_000);
        log.commit(log.append(letters('k', 11)));
        log.commit(log.append(letters('l', 12)));
        log.abandon();
        Files.write(Path.of(arguments[0]).resolve("log.txt"), told(dir));
        for (String scratch : List.of("LOCK", "METHOD", "MEMORY")) {
            Files.deleteIfExists(dir.resolve(scratch));
        }
    }

    private static byte[] letters(char letter, int count) {
        return String.valueOf(letter).repeat(count).getBytes(UTF_8);
    }

    /** What the log holds: its ends, its records, its streams. */
    private static List<String> told(Path dir) throws Exception {
        List<String> lines = new ArrayList<>();
        try (View view = View.open(dir);
                Cursor cursor = view.read(view.state().firstLsn(), true)) {
            View.State state = view.state();
            lines.add("log " + state.firstLsn() + " " + state.endLsn());
            while (cursor.next()) {
                String place = cursor.stream() < 0 ? "-" : cursor.stream() + "/" + cursor.sequence();
                lines.add(cursor.lsn() + " " + place + " " + (cursor.endsTransaction() ? "ends " : "goes on ") + shown(cursor.bytes()));
            }
        }
        Path copy = Files.createTempDirectory("golden").resolve("log");
        Log.backup(dir, copy);
        try (Log log = Log.open(copy, Fixture.small())) {
            for (int number : log.streams()) {
                LogStream stream = log.stream(number);
                lines.add("stream " + number + " " + stream.first() + " " + stream.next());
                try (Cursor cursor = stream.read(stream.first())) {
                    while (cursor.next()) {
                        lines.add(cursor.sequence() + " " + shown(cursor.bytes()));
                    }
                }
            }
        }
        return lines;
    }

    private static String shown(byte[] bytes) {
        return bytes.length == 0 ? "nothing" : (char) bytes[0] + "*" + bytes.length;
    }
}
