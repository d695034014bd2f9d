/*
 * Tests the multi-release jar on each JDK: it takes orders, writes the record in every place by every row, allocates
 * nothing where that is promised, and ends with its input.
 *
 * The JDKs are named by the property seawall.jdks; this one, if none is. A row that a JDK lacks is reported, not skipped silently.
 */
package seawall.path;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class JarIT {
    private static final int BYTES = 4096;
    private static final int PLACES = 16;
    private static final int FILE_BYTES = PLACES * BYTES;
    /** Enough for the compiler's last stage, several times over. */
    private static final int WARM_WRITES = 60_000;
    private static final int WARM_UPS_MAX = 40;
    /** Where syncs cost nothing, because only compiled code keeps the promise and that takes many writes. */
    private static final Path MEMORY = Path.of("/dev/shm");

    @TempDir
    static Path disk;

    static Stream<String> jdks() {
        String named = System.getProperty("seawall.jdks", "");
        return named.isBlank() ? Stream.of(System.getProperty("java.home")) : Arrays.stream(named.split(File.pathSeparator));
    }

    /** A JVM that takes orders. */
    private static final class Server implements AutoCloseable {
        private final Process process;
        private final BufferedWriter orders;
        private final BufferedReader answers;
        final String hello;

        Server(String home) throws IOException {
            process = new ProcessBuilder(home + "/bin/java", "-jar", System.getProperty("seawall.jar"), "--serve")
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            orders = new BufferedWriter(new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
            answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            hello = answers.readLine();
        }

        String ask(String order) throws IOException {
            orders.write(order + "\n");
            orders.flush();
            return answers.readLine();
        }

        String write(Row row, String pace, long writes, List<Path> files) throws IOException {
            List<String> fields = new ArrayList<>(List.of(row.id(), pace, "0", Long.toString(Long.MAX_VALUE / 4),
                    Long.toString(writes), Integer.toString(BYTES), Integer.toString(FILE_BYTES)));
            files.forEach(file -> fields.add(file.toString()));
            return ask(String.join("\t", fields));
        }

        int major() {
            return Integer.parseInt(JsonTest.field(hello, "major"));
        }

        @Override
        public void close() throws IOException {
            orders.close();
            try {
                assertTrue(process.waitFor(5, TimeUnit.MINUTES), "it ends with its input");
            } catch (InterruptedException e) {
                throw new IOException(e);
            } finally {
                process.destroyForcibly();
            }
            assertEquals(0, process.exitValue());
        }
    }

    private static List<Path> files(Path folder, Row row) throws IOException {
        List<Path> files = new ArrayList<>();
        boolean growing = row.file() == Row.Kind.GROWING;
        for (int i = 0; i < (growing ? 1 : 2); i++) {
            files.add(Files.write(folder.resolve(row.id() + i), growing ? new byte[0] : new byte[FILE_BYTES]));
        }
        return files;
    }

    @ParameterizedTest
    @MethodSource("jdks")
    void everyRowThatTheJdkHasWritesTheRecordInEveryPlace(String home) throws IOException {
        byte[] record = new Record(BYTES).heap;
        int written = 0;
        try (Server server = new Server(home)) {
            assertEquals("1", JsonTest.field(server.hello, "protocol"));
            for (Row row : Row.ALL) {
                List<Path> files = files(disk, row);
                // Both files, and the first again: two rolls.
                String answer = server.write(row, "closed", PLACES * 3, files);
                if (server.major() < row.jdk()) {
                    assertTrue(answer.startsWith("{\"na\":") && answer.contains("--jdk"), row.id() + ": " + answer);
                    continue;
                }
                if (answer.startsWith("{\"na\":") && row.file() == Row.Kind.ALIGNED) {
                    System.err.println("NOT TESTED: " + row.id() + ": " + answer);
                    continue;
                }
                assertEquals(Integer.toString(PLACES * 3), JsonTest.field(answer, "count"), row.id() + ": " + answer);
                boolean growing = row.file() == Row.Kind.GROWING;
                String rolls = answer.substring(answer.indexOf("\"roll\""));
                assertEquals(growing ? "0" : "2", JsonTest.field(rolls, "count"), row.id());
                for (Path file : files) {
                    byte[] found = Files.readAllBytes(file);
                    assertEquals(growing ? FILE_BYTES * 3 : FILE_BYTES, found.length, row.id());
                    for (int at = 0; at < found.length; at += BYTES) {
                        assertArrayEquals(record, Arrays.copyOfRange(found, at, at + BYTES), row.id() + " at " + at);
                    }
                }
                written++;
            }
            assertTrue(written >= (server.major() >= 22 ? 28 : 18), home + ": only " + written + " rows ran");
        }
    }

    @ParameterizedTest
    @MethodSource("jdks")
    void aRowThatPromisesToAllocateNothingAllocatesNoByte(String home) throws IOException {
        Path folder = Files.isWritable(MEMORY) ? Files.createTempDirectory(MEMORY, "seawall-jar-it") : disk;
        try (Server server = new Server(home)) {
            boolean counted = false;
            for (Row row : Row.ALL) {
                if (!row.allocatesNothing() || server.major() < row.jdk()) {
                    continue;
                }
                String answer = "";
                // Compiling goes on in the background: a loaded machine needs more than one warm-up.
                for (int i = 0; i < WARM_UPS_MAX && !"0".equals(allocated(answer)); i++) {
                    List<Path> files = files(folder, row);
                    answer = server.write(row, "tight", WARM_WRITES / (i == 0 ? 1 : 4), files);
                    if (answer.startsWith("{\"na\":")) {
                        break;
                    }
                    answer = server.write(row, "closed", 2000, files(folder, row));
                }
                if (answer.startsWith("{\"na\":")) {
                    System.err.println("NOT TESTED: " + row.id() + ": " + answer);
                    continue;
                }
                assertEquals("0", allocated(answer), row.id() + " on " + home);
                assertEquals("2000", JsonTest.field(answer, "count"));
                counted = true;
            }
            assertTrue(counted);
        } finally {
            if (!folder.equals(disk)) {
                try (Stream<Path> left = Files.list(folder)) {
                    for (Path file : left.toList()) {
                        Files.delete(file);
                    }
                }
                Files.delete(folder);
            }
        }
    }

    private static String allocated(String answer) {
        return answer.isEmpty() ? "" : JsonTest.field(answer, "allocated_bytes");
    }

    @ParameterizedTest
    @MethodSource("jdks")
    void aBadOrderIsAnErrorInWordsAndTheNextOneIsStillTaken(String home) throws IOException {
        try (Server server = new Server(home)) {
            assertTrue(server.ask("nonsense").contains("\"error\":"));
            Row row = Row.find("raf-rwd").orElseThrow();
            String answer = server.write(row, "closed", 1, List.of(disk.resolve("not-there/at-all")));
            assertTrue(answer.contains("\"error\":") && answer.contains("at-all"), answer);
            assertNotEquals("", server.write(row, "closed", 1, files(disk, row)));
        }
    }
}
