/*
 * Serves another program, which starts this JVM with --serve, sends one order a line and reads one line of JSON for
 * each; `seawall bench path --jvm` does so, so that rows of several JVMs and native ones take turns.
 *
 *   first line out   {"protocol":1,"java":…,"rows":[{"id":…,"na":null or why},…]}
 *   a line in        row, pace, interval ns, time ns, most writes, record bytes, file bytes, file, file … (tabs between)
 *   a line out       {"service":{…},"response":{…},"roll":{…},…} or {"na":…} or {"error":…}
 *
 * Invariants: files are made and removed by the other side; the end of the input ends the process, so that nothing is left
 * running when the other side dies.
 */
package seawall.path;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** The server. */
final class Serve {
    private Serve() {}

    static final int PROTOCOL = 1;
    private static final int CLOSED_MAPPINGS = 64;
    private static final int FIXED_FIELDS = 7;
    private static final int CLOCK_READINGS = 2_000_000;

    static void run(PrintStream out) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out.println(hello());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line));
            Mapped.release(CLOSED_MAPPINGS);
        }
    }

    static String hello() {
        String rows = Row.ALL.stream()
                .map(row -> new Json().put("id", row.id()).put("na", Ways.unavailable(row)).end())
                .collect(Collectors.joining(",", "[", "]"));
        String collectors = ManagementFactory.getGarbageCollectorMXBeans().stream()
                .map(GarbageCollectorMXBean::getName)
                .collect(Collectors.joining(", "));
        return new Json()
                .put("protocol", PROTOCOL)
                .put("java", System.getProperty("java.version"))
                .put("major", Runtime.version().feature())
                .put("vendor", System.getProperty("java.vendor"))
                .put("vm", System.getProperty("java.vm.name"))
                .put("collectors", collectors)
                .raw("clock_ns", String.format(Locale.ROOT, "%.1f", clockNs()))
                .raw("rows", rows)
                .end();
    }

    /** What one reading of the clock costs, nanoseconds. */
    private static double clockNs() {
        double best = Double.MAX_VALUE;
        for (int pass = 0; pass < 3; pass++) {
            long startNs = System.nanoTime();
            long last = startNs;
            for (int i = 0; i < CLOCK_READINGS; i++) {
                last = System.nanoTime();
            }
            best = Math.min(best, (last - startNs) / (double) CLOCK_READINGS);
        }
        return best;
    }

    static String answer(String line) {
        try {
            String[] field = line.split("\t");
            if (field.length <= FIXED_FIELDS) {
                throw new IllegalArgumentException("an order has more than " + FIXED_FIELDS + " fields: " + line);
            }
            Row row = Row.find(field[0]).orElseThrow(() -> new IllegalArgumentException("there is no row " + field[0]));
            List<Path> files = Arrays.stream(field).skip(FIXED_FIELDS).map(Path::of).toList();
            Record record = new Record(Integer.parseInt(field[5]));
            long fileBytes = Long.parseLong(field[6]);
            Order order = new Order(
                    Order.Pace.valueOf(field[1].toUpperCase(Locale.ROOT)),
                    Long.parseLong(field[2]),
                    Long.parseLong(field[4]),
                    Long.parseLong(field[3]),
                    fileBytes,
                    Math.max(1, fileBytes / record.bytes()),
                    1,
                    files);
            Sample sample = new Sample();
            Loop.run(row, order, record, sample);
            return answer(sample, order).end();
        } catch (Unavailable e) {
            return new Json().put("na", e.getMessage()).end();
        } catch (IOException | RuntimeException | LinkageError e) {
            return new Json().put("error", String.valueOf(e.getCause() == null ? e : e.getCause())).end();
        }
    }

    /** What was measured. */
    static Json answer(Sample sample, Order order) {
        Json json = new Json().put("elapsed_ns", sample.elapsedNs).put("service", sample.service);
        if (order.pace() == Order.Pace.SCHEDULED) {
            json.put("response", sample.response);
        }
        return json.put("roll", sample.roll)
                .known("allocated_bytes", sample.allocatedBytes)
                .known("user_ns", sample.times.userNs())
                .known("system_ns", sample.times.systemNs())
                .known("wait_ns", sample.times.waitNs());
    }
}
