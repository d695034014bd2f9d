package seawall;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.function.Executable;

/** Interprets the table of cases that every front end runs, tests/behaviour/cases.txt, whose head describes its language. */
final class Behaviour {
    private static final Set<String> TEXTS = Set.of("method", "engine");
    private static final String DEFAULTS =
            "segment_bytes=65536 batch_bytes=16384 memory_bytes=1048576 idle_mark_ns=3600000000000 method=buffered+fdatasync";

    private static final int TRIES = 50;

    private final Path cases;
    private final Path root;
    private final List<String> lines;
    private final PrintStream out;

    private Path folder;
    private Path dir;
    private Log log;
    private Pin pin;
    private Cursor held;
    private Process child;

    Behaviour(Path cases, Path root, PrintStream out) throws IOException {
        this.cases = cases;
        this.root = root;
        this.lines = Files.readAllLines(cases, UTF_8);
        this.out = out;
    }

    /** Is the child of a case: CASES ROOT child LINE. */
    public static void main(String[] arguments) throws Exception {
        new Behaviour(Path.of(arguments[0]), Path.of(arguments[1]), System.out).beChild(Integer.parseInt(arguments[3]));
    }

    /** Runs all cases, or what is behind `then` in each; gives how many failed. */
    int all(boolean writes) throws Exception {
        int count = 0;
        int failed = 0;
        for (int at = 0; at < lines.size(); at++) {
            if (lines.get(at).startsWith("case ")) {
                count++;
                failed += one(at, writes) ? 0 : 1;
            }
        }
        out.println(count + " cases, " + failed + " failed");
        return failed;
    }

    /** Runs the case that begins at line {@code at}; whether every step gave what it says. */
    private boolean one(int at, boolean writes) throws Exception {
        begin(lines.get(at).substring("case ".length()));
        boolean runs = writes;
        try {
            for (int line = at + 1; line < lines.size() && !lines.get(line).startsWith("case "); line++) {
                if (!says(line)) {
                    continue;
                }
                switch (lines.get(line)) {
                    case "then" -> {
                        letGo();
                        dir = folder.resolve("log");
                        runs = true;
                    }
                    case "child" -> {
                        if (runs && !startChild(line)) {
                            return false;
                        }
                        // One line before: what ends the child's steps says what comes next.
                        line = endOfChild(line) - 1;
                    }
                    case "meanwhile" -> { }
                    case "killed" -> killChild();
                    default -> {
                        if (runs && !step(line)) {
                            return false;
                        }
                    }
                }
            }
            return true;
        } finally {
            killChild();
            letGo();
            close(held);
            held = null;
        }
    }

    private void begin(String name) throws IOException {
        folder = root.resolve(name);
        Files.createDirectories(folder);
        dir = folder.resolve("log");
    }

    private static void close(AutoCloseable open) throws Exception {
        if (open != null) {
            open.close();
        }
    }

    private boolean says(int line) {
        return !lines.get(line).isEmpty() && !lines.get(line).startsWith("#");
    }

    private void letGo() throws Exception {
        close(pin);
        pin = null;
        if (log != null) {
            log.abandon();
            log = null;
        }
    }

    private int endOfChild(int line) {
        int end = line + 1;
        while (!lines.get(end).equals("meanwhile") && !lines.get(end).equals("killed")) {
            end++;
        }
        return end;
    }

    private boolean startChild(int line) throws IOException {
        child = Fixture.jvm(Behaviour.class, cases.toString(), root.toString(), "child", Integer.toString(line)).start();
        String said = child.inputReader(UTF_8).readLine();
        if (!"ready".equals(said)) {
            out.println(said);
            return false;
        }
        return true;
    }

    private void killChild() throws InterruptedException {
        if (child != null) {
            child.toHandle().destroyForcibly();
            child.waitFor();
            child = null;
        }
    }

    private void beChild(int line) throws Exception {
        int named = line;
        while (!lines.get(named).startsWith("case ")) {
            named--;
        }
        begin(lines.get(named).substring("case ".length()));
        for (int at = line + 1; at < endOfChild(line); at++) {
            if (says(at) && !step(at)) {
                System.exit(1);
            }
        }
        out.println("ready");
        // Until it is killed.
        System.in.read();
    }

    /** Runs one step; whether it gave what its line says. */
    private boolean step(int line) {
        List<String> words = List.of(lines.get(line).split(" "));
        int sign = Math.max(words.indexOf("="), words.indexOf("!"));
        List<String> step = sign < 0 ? words : words.subList(0, sign);
        String wanted = sign < 0 ? null : String.join(" ", words.subList(sign, words.size())).strip();
        String gave;
        try {
            gave = ("= " + run(step.get(0), step.subList(1, step.size()))).strip();
        } catch (SeawallException refused) {
            gave = "! " + refused.code().label();
        } catch (IllegalArgumentException refused) {
            gave = "! invalid_argument";
        } catch (Throwable thrown) {
            gave = "! " + thrown;
        }
        boolean fits = wanted == null ? gave.startsWith("=") : gave.equals(wanted);
        if (!fits) {
            out.println((line + 1) + ": " + String.join(" ", step) + ": gave " + gave);
        }
        return fits;
    }

    /** What a step gives that gives nothing. */
    private static String done(Executable act) throws Throwable {
        act.execute();
        return "";
    }

    private interface Look {
        String at(View view) throws Throwable;
    }

    private String viewed(Look look) throws Throwable {
        try (View view = View.open(dir)) {
            return look.at(view);
        }
    }

    private String run(String name, List<String> words) throws Throwable {
        return switch (name) {
            case "at" -> done(() -> dir = folder.resolve(words.get(0)));
            case "file" -> done(() -> Files.writeString(Files.createDirectories(dir).resolve(words.get(0)), words.get(1)));
            case "damage" -> done(() -> damage(payload(words.get(0))));
            case "open" -> open(words);
            case "left" -> log.opened().recordsLeftInMemory() == 0 ? "nothing" : "taken " + log.opened().recordsLeftInMemory();
            case "evidence" -> log.opened().evidence().name().toLowerCase(Locale.ROOT).replace('_', '-');
            case "close" -> done(log::close);
            case "drop" -> done(this::letGo);
            case "append" -> "" + append(words);
            case "try_append" -> "" + tryAppend(payload(words.get(0)));
            case "append_commit" -> {
                long end = append(words);
                log.commit(end);
                yield "" + end;
            }
            case "transaction" -> "" + log.transaction(transaction -> words.forEach(word -> part(transaction, word)));
            case "commit" -> done(() -> commit(words));
            case "lsns" -> log.firstLsn() + " " + log.appendedLsn() + " " + log.durableLsn();
            case "read" -> printed(log.read(number(words, 0)));
            case "read_at" -> printed(log.readAt(number(words, 0)));
            case "read_before" -> {
                LogRecord record = log.readBefore(number(words, 0));
                yield record == null ? "none" : printed(record);
            }
            case "follow" -> followed(log.read(number(words, 0)), number(words, 1));
            case "trim" -> "" + log.trim(number(words, 0));
            case "truncate_after" -> "" + log.truncateAfter(number(words, 0));
            case "pin" -> done(() -> pin = log.pin(number(words, 0)));
            case "unpin" -> done(pin::close);
            case "log_backup" -> ends(log.backup(folder.resolve(words.get(0))));
            case "view" -> viewed(view -> {
                View.State state = view.state();
                return state.firstLsn() + " " + state.endLsn() + " " + (state.writer().orElse(true) ? "written" : "idle");
            });
            case "view_read" -> viewed(view -> printed(view.read(number(words, 0), true)));
            case "view_follow" -> viewed(view -> followed(view.read(number(words, 0), false), number(words, 1)));
            case "view_stream_bounds" -> viewed(view -> {
                ViewStream stream = view.stream((int) number(words, 0));
                return stream.first() + " " + stream.next();
            });
            case "view_stream_read" -> viewed(view -> printed(ofView(view, words, true)));
            case "view_stream_hold" -> viewed(view -> done(() -> {
                close(held);
                held = ofView(view, words, false);
            }));
            case "view_stream_next" -> next(held, number(words, 0));
            case "verify" -> {
                Report report = Log.verify(dir);
                yield report.records() + " " + report.damage().size();
            }
            case "backup" -> ends(Log.backup(dir, folder.resolve(words.get(0))));
            case "streams" -> String.join(" ", Arrays.stream(log.streams()).mapToObj(Integer::toString).toList());
            case "stream_append" -> {
                LogStream.Appended appended = stream(words).append(payload(words.get(1)));
                yield appended.sequence() + " " + appended.lsn();
            }
            case "stream_read" -> printed(stream(words).read(number(words, 1)));
            case "stream_get" -> printed(stream(words).get(number(words, 1)));
            case "stream_follow" -> followed(stream(words).read(number(words, 1)), number(words, 2));
            case "stream_bounds" -> stream(words).first() + " " + stream(words).next();
            case "stream_trim" -> "" + stream(words).trim(number(words, 1));
            case "stream_truncate" -> "" + stream(words).truncate(number(words, 1));
            case "stream_remove" -> "" + stream(words).remove();
            default -> throw new IllegalStateException("this interpreter has no step " + name);
        };
    }

    private static String ends(Report copy) {
        return copy.firstLsn() + " " + copy.endLsn();
    }

    private long append(List<String> words) throws SeawallException {
        long end = 0;
        for (String word : words) {
            end = log.append(payload(word));
        }
        return end;
    }

    /** It is refused also while another thread of the log is in there, which a case does not mean. */
    private long tryAppend(byte[] payload) throws SeawallException, InterruptedException {
        for (int attempt = 0; ; attempt++) {
            try {
                return log.tryAppend(payload);
            } catch (SeawallException refused) {
                if (refused.code() != ErrorCode.WOULD_BLOCK || attempt == TRIES) {
                    throw refused;
                }
                Thread.sleep(2);
            }
        }
    }

    private LogStream stream(List<String> words) {
        return log.stream((int) number(words, 0));
    }

    private static long number(List<String> words, int at) {
        return Long.parseLong(words.get(at));
    }

    private String open(List<String> words) throws Exception {
        Map<String, String> set = new LinkedHashMap<>();
        for (String word : (DEFAULTS + " " + String.join(" ", words)).strip().split(" ")) {
            int equals = word.indexOf('=');
            set.put(word.substring(0, equals), word.substring(equals + 1));
        }
        LogOptions options = new LogOptions();
        set.forEach((name, value) -> {
            if (name.equals("durability")) {
                options.durability(Durability.valueOf(value.toUpperCase(Locale.ROOT)));
            } else if (TEXTS.contains(name)) {
                options.set(name, value);
            } else {
                options.set(name, Long.parseLong(value));
            }
        });
        Log opened = Log.open(dir, options);
        letGo();
        log = opened;
        Opened found = log.opened();
        return found.tail().kind().name().toLowerCase(Locale.ROOT) + " " + found.firstLsn() + " " + found.endLsn();
    }

    private void commit(List<String> words) throws SeawallException {
        long lsn = words.isEmpty() ? log.appendedLsn() : number(words, 0);
        if (words.size() > 1) {
            log.commit(lsn, Durability.valueOf(words.get(1).toUpperCase(Locale.ROOT)));
        } else {
            log.commit(lsn);
        }
    }

    private static void part(Transaction transaction, String word) {
        String[] words = word.split(":");
        switch (words[0]) {
            case "trim" -> transaction.trim(Integer.parseInt(words[1]), Long.parseLong(words[2]));
            case "truncate" -> transaction.truncate(Integer.parseInt(words[1]), Long.parseLong(words[2]));
            case "remove" -> transaction.remove(Integer.parseInt(words[1]));
            default -> transaction.append(
                    words.length == 1 ? LogRecord.NO_STREAM : Integer.parseInt(words[0]), payload(words[words.length - 1]));
        }
    }

    private static byte[] payload(String word) {
        if (word.equals("\"\"")) {
            return new byte[0];
        }
        int star = word.indexOf('*');
        String text = star < 0 ? word : word.substring(0, star).repeat(Integer.parseInt(word.substring(star + 1)));
        return text.getBytes(ISO_8859_1);
    }

    private static String printed(byte[] payload) {
        String text = new String(payload, ISO_8859_1);
        if (text.isEmpty()) {
            return "\"\"";
        }
        boolean equal = text.chars().allMatch(letter -> letter == text.charAt(0));
        return equal && text.length() > 8 ? text.charAt(0) + "*" + text.length() : text;
    }

    private static String printed(LogRecord record) {
        String place = record.stream() == LogRecord.NO_STREAM ? "" : record.stream() + "/" + record.sequence() + ":";
        return place + printed(record.bytes());
    }

    private static String printed(Cursor cursor) throws SeawallException {
        List<String> records = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) {
                records.add(printed(cursor.record()));
            }
        }
        return String.join(" ", records);
    }

    private static Cursor ofView(View view, List<String> words, boolean endsWithWriter) throws SeawallException {
        return view.stream((int) number(words, 0)).read(number(words, 1), endsWithWriter);
    }

    private static String followed(Cursor cursor, long millis) throws SeawallException, InterruptedException {
        try (cursor) {
            return next(cursor, millis);
        }
    }

    private static String next(Cursor cursor, long millis) throws SeawallException, InterruptedException {
        return cursor.next(Duration.ofMillis(millis)) ? printed(cursor.record()) : "end";
    }

    private void damage(byte[] payload) throws IOException {
        List<Path> segments;
        try (var files = Files.list(dir)) {
            segments = files.filter(path -> path.toString().endsWith(".seg")).sorted().toList();
        }
        for (Path segment : segments) {
            byte[] bytes = Files.readAllBytes(segment);
            int at = new String(bytes, ISO_8859_1).indexOf(new String(payload, ISO_8859_1));
            if (at >= 0) {
                bytes[at] ^= (byte) 0xFF;
                Files.write(segment, bytes);
                return;
            }
        }
        throw new NoSuchFileException("no segment holds these bytes");
    }
}
