package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** Tests what a JVM says that cannot load the native library: the cause and the remedy, first and each time. */
class LoadTest extends Fixture {
    /** Runs the child with these options; every opening says all of these words after the name of the error. */
    private void says(List<String> before, List<String> options, String... words) throws Exception {
        List<String> command = new ArrayList<>(before);
        command.addAll(jvm(options, Child.class, "load", dir.resolve("log").toString()).command());
        Process child = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        List<String> lines = printed(child).lines().toList();
        assertEquals(4, lines.size(), lines::toString);
        for (String line : lines) {
            assertTrue(line.startsWith("java.lang.UnsatisfiedLinkError: "), line);
            for (String word : words) {
                assertTrue(line.contains(word), word + ": " + line);
            }
        }
    }

    @Test
    void aLibraryThatIsNamedAndNotThereIsNamed() throws Exception {
        says(List.of(), List.of(NATIVE_ACCESS, "-Dseawall.native=/no/such/library.so"), "-Dseawall.native", "/no/such/library.so");
        Path junk = Files.writeString(dir.resolve("junk.so"), "junk");
        says(List.of(), List.of(NATIVE_ACCESS, "-Dseawall.native=" + junk), junk.toString());
    }

    @Test
    void aPlatformWithoutALibraryIsNamed() throws Exception {
        says(List.of(), List.of(NATIVE_ACCESS, "-Dos.arch=z80"), "no native library for linux-z80", "-Dseawall.native=PATH");
    }

    @Test
    void aJvmThatDeniesNativeAccessIsToldHowToAllowIt() throws Exception {
        Assumptions.assumeTrue(Runtime.version().feature() >= 24, "this JDK only warns: it denies nothing");
        says(List.of(), List.of("--illegal-native-access=deny"), "--enable-native-access=ALL-UNNAMED");
    }

    @Test
    void aTemporaryFolderThatDoesNotServeIsToldWithTheRemedy() throws Exception {
        Path folder = Files.createDirectory(dir.resolve("t"));
        says(List.of(), List.of(NATIVE_ACCESS, "-Djava.io.tmpdir=" + dir.resolve("none")), dir.resolve("none").toString(), "-Djava.io.tmpdir=DIR");
        boolean root = "root".equals(System.getProperty("user.name")) && Files.isExecutable(Path.of("/usr/bin/unshare"));
        Assumptions.assumeTrue(root, "a folder without the right to execute is mounted by root only");
        for (String option : List.of("noexec", "size=64k", "ro")) {
            List<String> mounted = List.of("unshare", "--mount", "--propagation", "private", "sh", "-ec",
                    "mount -t tmpfs -o " + option + " none " + folder + "; exec \"$@\"", "sh");
            String cause = option.equals("noexec") ? "failed to map segment" : option.equals("ro") ? "Read-only" : "No space left";
            says(mounted, List.of(NATIVE_ACCESS, "-Djava.io.tmpdir=" + folder), cause, "-Djava.io.tmpdir=DIR", "-Dseawall.native=PATH");
        }
    }
}
