/* Tests the published test: its options, its printed lines and counts, and that it leaves nothing behind. */
package seawall.path;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OriginalTest {
    @TempDir
    Path folder;

    private String err;

    private String run(int expectedCode, String... more) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("-d", folder.toString()));
        arguments.addAll(List.of(more));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        int code = Main.run(arguments.toArray(String[]::new), new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(printed, true, StandardCharsets.UTF_8));
        err = printed.toString(StandardCharsets.UTF_8);
        assertEquals(expectedCode, code, err);
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(0, left.count(), "files are left");
        }
        return out.toString(StandardCharsets.UTF_8);
    }

    private String[] with(String... more) {
        // 15 blocks of a file of 16, as the original leaves its last block out.
        List<String> options = new ArrayList<>(List.of("-s", "65536", "-c", "3", "-i", "2", "--write-sleep", "0"));
        options.addAll(List.of(more));
        return options.toArray(String[]::new);
    }

    @Test
    void shortIsALineOfNineFiguresAnIteration() throws IOException {
        for (String way : List.of("seek", "pwrite")) {
            List<String> lines = run(0, with("-t", way, "-f", "SHORT", "-w", "20")).lines().toList();
            assertEquals("Doing warm-up", lines.get(0));
            assertTrue(lines.get(1).startsWith("Starting measurement for journaller "), lines.get(1));
            assertEquals(4, lines.size());
            for (String line : lines.subList(2, 4)) {
                assertTrue(line.matches("\\d+\\.\\d\\d(,\\d+){8}"), line);
                assertTrue(line.endsWith("," + 15 * 20 * 3), line);
            }
            assertTrue(err.contains("4 rolls") && err.contains("allocated per write"), err);
        }
    }

    @Test
    void longIsAFigureALineAndDetailTheWholeDistribution() throws IOException {
        String printed = run(0, with("-t", "pwrite", "-f", "LONG"));
        for (String name : List.of("== write latency ==", "mean", "min", "50.00%", "90.00%", "99.99%", "max", "count")) {
            assertEquals(2, printed.lines().filter(line -> line.startsWith(name)).count(), name + " in " + printed);
        }
        assertTrue(printed.lines().anyMatch(line -> line.equals("count " + " ".repeat(18) + "45")), printed);
        String detail = run(0, with("-t", "pwrite", "-f", "DETAIL"));
        assertTrue(detail.contains("Percentile") && detail.contains("1/(1-Percentile)"), detail);
    }

    @Test
    void everyModeOfMakingFilesAndAWayThatGrowsRun() throws IOException {
        for (String mode : List.of("PREALLOCATE_ZEROED", "PREALLOCATE_SPARSE", "NO_PREALLOCATION")) {
            assertTrue(run(0, with("-t", "seek", "-f", "SHORT", "-m", mode)).endsWith(",45\n"));
        }
        assertTrue(run(0, with("-t", "channel-append", "-f", "SHORT")).endsWith(",45\n"));
        assertTrue(run(0, with("-t", "seek", "-f", "SHORT", "--pace", "scheduled")).endsWith(",45\n"));
    }

    @Test
    void anIterationIsAlsoToldToPrograms() throws IOException {
        String line = run(0, with("-t", "seek", "-f", "JSON")).lines().toList().get(2);
        assertEquals("45", JsonTest.field(line, "count"));
        assertTrue(line.contains("\"roll\":{") && line.contains("\"allocated_bytes\":"), line);
    }

    @Test
    void nothingIsClippedAtASecond() {
        Histogram latency = new Sample(4).service;
        latency.recordValue(90_000_000_000L);
        String line = Original.lines(Options.Format.SHORT, latency);
        assertTrue(Long.parseLong(line.split(",")[7]) >= 90_000_000_000L, line);
    }

    @Test
    void badInputIsNamedWithTheRemedy() throws IOException {
        String[][] cases = {
            {"-t is missing", "-i", "1"},
            {"--rows", "-t", "teleport"},
            {"-i must be a number from 1", "-t", "seek", "-i", "none"},
            {"SHORT", "-t", "seek", "-f", "TINY"},
            {"-h lists them", "-t", "seek", "--no-such", "1"},
            {"at least --size", "-t", "seek", "-s", "100"},
            {"-i", "-t", "seek", "-i"},
        };
        for (String[] one : cases) {
            run(2, java.util.Arrays.copyOfRange(one, 1, one.length));
            assertTrue(err.startsWith("error: ") && err.contains(one[0]), err);
        }
        run(2, "-t", "seek", "-d", folder.resolve("none").toString());
        assertTrue(err.contains("is no folder") && err.contains("-d"), err);
    }
}
