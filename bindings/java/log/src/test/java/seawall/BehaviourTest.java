package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/**
 * Runs the table of cases that every front end runs, and with the interpreter of the library's own language, if its program is named
 * by -Dseawall.behaviour, holds what each of the two wrote against the other.
 */
class BehaviourTest extends Fixture {
    private static final Path CASES =
            Path.of(System.getProperty("seawall.root"), "tests/behaviour/cases.txt").toAbsolutePath().normalize();

    private static void run(Path root, boolean writes) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        int failed = new Behaviour(CASES, root, new PrintStream(printed, true, UTF_8)).all(writes);
        assertEquals(0, failed, () -> printed.toString(UTF_8));
        assertTrue(printed.toString(UTF_8).matches("[1-9][0-9]* cases, 0 failed\n"), () -> printed.toString(UTF_8));
    }

    private static void runOther(String program, Path root, String mode) throws Exception {
        Process process =
                new ProcessBuilder(program, CASES.toString(), root.toString(), mode).redirectErrorStream(true).start();
        String printed = printed(process);
        assertEquals(0, process.waitFor(), printed);
        assertTrue(printed.endsWith(" cases, 0 failed\n"), printed);
    }

    @Test
    void everyCaseHoldsAndCanBeCheckedAgain() throws Exception {
        run(dir, true);
        run(dir, false);
    }

    @Test
    void whatOneLanguageWritesTheOtherReads() throws Exception {
        String other = System.getProperty("seawall.behaviour", "");
        Assumptions.assumeTrue(
                !other.isEmpty(), "no interpreter of another language is named by -Dseawall.behaviour, so none was compared");
        Path ours = Files.createDirectory(dir.resolve("ours"));
        Path theirs = Files.createDirectory(dir.resolve("theirs"));
        run(ours, true);
        runOther(other, ours, "check");
        runOther(other, theirs, "write");
        run(theirs, false);
    }
}
