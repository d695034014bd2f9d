package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** What the tests of the log share: a directory each, small logs, and threads whose failures fail the test. */
abstract class Fixture {
    /** What a wait of a test lasts only when the test fails. */
    static final Duration LONG = Duration.ofMinutes(1);

    static final String NATIVE_ACCESS = "--enable-native-access=ALL-UNNAMED";

    @TempDir
    Path dir;

    static LogOptions small() {
        return new LogOptions().segmentBytes(64 << 10).blockBytes(512).batchBytes(8 << 10).memoryBytes(64 << 10);
    }

    Log openSmall() throws SeawallException {
        return Log.open(dir, small());
    }

    static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, UTF_8);
    }

    static List<String> texts(Cursor cursor) throws SeawallException {
        List<String> texts = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) {
                texts.add(text(cursor.bytes()));
            }
        }
        return texts;
    }

    /** A program in a JVM with the class path and the temporary folder of this one; its errors are seen. */
    static ProcessBuilder jvm(Class<?> program, String... arguments) {
        return jvm(List.of(NATIVE_ACCESS), program, arguments).redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    /** The same with options of the JVM. */
    static ProcessBuilder jvm(List<String> options, Class<?> program, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"));
        command.addAll(options);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command);
    }

    /** All that a process prints. */
    static String printed(Process process) throws IOException {
        return text(process.getInputStream().readAllBytes());
    }

    static void damage(Path segment, int at) throws IOException {
        byte[] bytes = Files.readAllBytes(segment);
        bytes[at] ^= 0x40;
        Files.write(segment, bytes);
    }

    /** The error of that code which a call must end with, in a future as well. */
    static SeawallException refused(ErrorCode code, Executable call) {
        Throwable thrown = assertThrows(Exception.class, call);
        SeawallException refused = (SeawallException) (thrown instanceof ExecutionException ? thrown.getCause() : thrown);
        assertEquals(code, refused.code());
        return refused;
    }

    /** Threads that work at the same time; what one of them throws is thrown where they are joined. */
    static final class Workers {
        private final List<Thread> threads = new ArrayList<>();
        private final AtomicReference<Throwable> problem = new AtomicReference<>();

        Workers start(Executable work) {
            return start(Thread.ofPlatform(), work);
        }

        Workers start(Thread.Builder kind, Executable work) {
            threads.add(kind.start(() -> {
                try {
                    work.execute();
                } catch (Throwable thrown) {
                    problem.compareAndSet(null, thrown);
                }
            }));
            return this;
        }

        /** Makes a call again and again, until what it is made with was closed. */
        Workers untilClosed(Executable call) {
            return start(() -> {
                try {
                    while (true) {
                        call.execute();
                    }
                } catch (LogClosedException closed) {
                    return;
                } catch (ExecutionException failed) {
                    assertTrue(failed.getCause() instanceof LogClosedException, failed::toString);
                }
            });
        }

        Thread last() {
            return threads.getLast();
        }

        void join() throws InterruptedException {
            for (Thread thread : threads) {
                assertTrue(thread.join(LONG), "a thread does not end");
            }
            if (problem.get() != null) {
                throw new AssertionError(problem.get());
            }
        }
    }
}
