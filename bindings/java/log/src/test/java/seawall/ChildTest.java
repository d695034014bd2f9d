package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** Kills a JVM that writes and looks for every record that it had acknowledged, and makes the disk's sync fail under another. */
class ChildTest extends Fixture {
    private static final int ACKNOWLEDGED = 400;

    @Test
    void everyAcknowledgedRecordOfAKilledJvmIsThere() throws Exception {
        Map<Long, String> acknowledged = new HashMap<>();
        Process child = jvm(Child.class, "writers", dir.toString()).start();
        try (BufferedReader printed = child.inputReader(UTF_8)) {
            String line = printed.readLine();
            for (; line != null; line = printed.readLine()) {
                int space = line.indexOf(' ');
                acknowledged.put(Long.parseLong(line.substring(0, space)), line.substring(space + 1));
                if (acknowledged.size() == ACKNOWLEDGED) {
                    // SIGKILL; by its handle, which leaves the pipe open, because what it had printed by then counts.
                    child.toHandle().destroyForcibly();
                }
            }
        }
        assertEquals(128 + 9, child.waitFor());
        assertTrue(acknowledged.size() >= ACKNOWLEDGED, acknowledged.size() + " records");
        Map<Long, String> found = new HashMap<>();
        try (Log log = Log.open(dir, small().create(false))) {
            assertEquals(Tail.Kind.TORN, log.opened().tail().kind());
            try (Cursor cursor = log.read(0)) {
                while (cursor.next()) {
                    found.put(cursor.endLsn(), new String(cursor.bytes(), UTF_8));
                }
            }
        }
        acknowledged.forEach((lsn, text) -> assertEquals(text, found.get(lsn)));
        assertTrue(Log.verify(dir).isSound());
    }

    /**
     * The system call tracer makes every fdatasync of the child fail with EIO, without the kernel's doing anything, from a moment on: what
     * its callers are told is held against what a failed sync means.
     */
    @Test
    void aFailedSyncFailsTheLogForGoodAndTellsEveryWaiter() throws Exception {
        boolean traced = Stream.of(System.getenv("PATH").split(":")).anyMatch(folder -> Files.isExecutable(Path.of(folder, "strace")));
        Assumptions.assumeTrue(traced, "strace is missing, so no failing sync was tested");
        Process child = jvm(Child.class, "fault", dir.resolve("log").toString()).start();
        Process tracer = null;
        try (BufferedReader printed = child.inputReader(UTF_8);
                PrintWriter to = new PrintWriter(child.outputWriter(UTF_8), true)) {
            assertEquals("ready", printed.readLine());
            tracer = new ProcessBuilder(
                            "strace", "-f", "-o", dir.resolve("trace").toString(), "-p", Long.toString(child.pid()), "-e", "trace=fdatasync", "-e",
                            "signal=none", "-e", "inject=fdatasync:error=EIO")
                    .redirectErrorStream(true)
                    .start();
            assertTrue(tracer.inputReader(UTF_8).readLine().contains("attached"));
            to.println("go");
            List<String> lines = printed.lines().toList();
            assertEquals(
                    List.of("code FAILED cause IO errno 5", "same true", "commit FAILED errno 5", "append FAILED errno 5",
                            "close FAILED errno 5"),
                    lines);
            // It ends with the last thread that it follows.
            tracer.waitFor();
        } finally {
            if (tracer != null) {
                tracer.destroy();
            }
            child.destroyForcibly();
        }
        try (Log log = Log.open(dir.resolve("log"), small())) {
            List<String> texts = texts(log.read(0));
            assertEquals("before", texts.getFirst());
            assertTrue(texts.size() <= 2, texts::toString);
        }
    }
}
