/*
 * The program: with --serve it takes orders, with --rows it lists its rows, otherwise it runs the published test.
 *
 * Invariant: bad input ends with a message that names it and the remedy, and exit code 2; a failed run with 1.
 */
package seawall.path;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The program. */
public final class Main {
    private Main() {}

    /**
     * Runs it.
     *
     * @param arguments the command line
     */
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);
        int code = run(arguments, out, System.err);
        out.flush();
        System.exit(code);
    }

    static int run(String[] arguments, PrintStream out, PrintStream err) {
        try {
            if (arguments.length == 1 && arguments[0].equals("--serve")) {
                Serve.run(out);
            } else if (arguments.length == 1 && arguments[0].equals("--rows")) {
                for (Row row : Row.ALL) {
                    String reason = Ways.unavailable(row);
                    out.printf("%-22s %s%s%n", row.id(), row.what(), reason == null ? "" : " (n/a: " + reason + ")");
                }
            } else {
                Options options = Options.parse(arguments);
                if (options.help()) {
                    out.print(Options.HELP);
                } else {
                    Original.run(options, out, err);
                }
            }
            return 0;
        } catch (IllegalArgumentException e) {
            err.println("error: " + e.getMessage());
            return 2;
        } catch (Unavailable e) {
            err.println("error: n/a: " + e.getMessage());
            return 1;
        } catch (IOException | RuntimeException e) {
            err.println("error: " + e);
            return 1;
        }
    }
}
