/*
 * Makes the disk's sync fail under a JVM, and holds what its callers are told against what a failed sync means.
 *
 * The system call tracer makes every fdatasync of the child fail with EIO, without the kernel's doing anything, from a moment on.
 */
package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

class FaultTest extends Fixture {
    @Test
    void aFailedSyncFailsTheLogForGoodAndTellsEveryWaiter() throws Exception {
        boolean traced = Stream.of(System.getenv("PATH").split(":")).anyMatch(folder -> Files.isExecutable(Path.of(folder, "strace")));
        Assumptions.assumeTrue(traced, "strace is missing, so no failing sync was tested");
        Process child = jvm(Child.class, "fault", dir.toString()).start();
        Process tracer = null;
        try (BufferedReader printed = child.inputReader(UTF_8);
                PrintWriter to = new PrintWriter(child.outputWriter(UTF_8), true)) {
            assertEquals("ready", printed.readLine());
            tracer = new ProcessBuilder(
                            "strace", "-f", "-p", Long.toString(child.pid()), "-e", "trace=fdatasync", "-e", "signal=none", "-e",
                            "inject=fdatasync:error=EIO")
                    .redirectErrorStream(true)
                    .start();
            BufferedReader trace = tracer.inputReader(UTF_8);
            assertTrue(trace.readLine().contains("attached"));
            Thread drain = Thread.ofPlatform().daemon().start(() -> drain(trace));
            to.println("go");
            List<String> lines = printed.lines().toList();
            assertEquals(
                    List.of("code FAILED cause IO errno 5", "same true", "commit FAILED errno 5", "append FAILED", "close FAILED"), lines);
            // It ends with the last thread that it follows.
            drain.join();
        } finally {
            if (tracer != null) {
                tracer.destroy();
            }
            child.destroyForcibly();
        }
        try (Log log = openSmall()) {
            List<String> texts = texts(log.read(0));
            assertEquals("before", texts.getFirst());
            assertTrue(texts.size() <= 2, texts::toString);
        }
    }

    /** Reads on, so that the tracer never waits for room in the pipe. */
    private static void drain(BufferedReader trace) {
        try {
            while (trace.readLine() != null) {
                continue;
            }
        } catch (java.io.IOException ended) {
            return;
        }
    }
}
