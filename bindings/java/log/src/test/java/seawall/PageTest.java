package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;

/** Compiles and runs the programs of docs/java.md. */
class PageTest extends Fixture {
    private static final Pattern FENCED = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    @Test
    void theProgramsOfThePageCompileAndRun() throws Exception {
        Matcher program = FENCED.matcher(Files.readString(Path.of(System.getProperty("seawall.root"), "docs/java.md")));
        runs("Orders", program, "102 records, of the customer: paid\n");
        runs("Jobs", program, "attempt 1\nresize picture 1, attempt 2\n");
        assertFalse(program.find(), "and no other one that would go untested");
    }

    private void runs(String name, Matcher program, String expected) throws Exception {
        assertTrue(program.find(), "the page has a program");
        Path source = Files.writeString(dir.resolve(name + ".java"), program.group(1));
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        int compiled = ToolProvider.getSystemJavaCompiler()
                .run(null, errors, errors, "-Xlint:all", "-Werror", "-cp", System.getProperty("java.class.path"), "-d", dir.toString(),
                        source.toString());
        assertEquals(0, compiled, () -> errors.toString(UTF_8));
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {dir.toUri().toURL()})) {
            System.setOut(new PrintStream(printed, true, UTF_8));
            String[] arguments = {dir.resolve("in " + name).toString()};
            loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } finally {
            System.setOut(before);
        }
        assertEquals(expected, printed.toString(UTF_8));
    }
}
