/*
 * Counts durable commits a second by 1, 16 and 64 threads: of the log from Java, of the same log by a native program, and of the peers.
 *
 * Every round runs each row once for a second, in random order, so that a drift of the machine favours none; the first round warms
 * the JVM up and does not count. A table has the median of each row and its ratio to the native program and to the best peer.
 */
package seawall.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;

/** The program. */
public final class CommitBench {
    private static final int BYTES = 1024;
    private static final int[] WRITERS = {1, 16, 64};
    private static final List<String> ROWS =
            List.of("native", "seawall", "seawall-async", "chronicle", "artemis", "artemis-tuned", "file");
    private static final List<String> OURS = List.of("native", "seawall", "seawall-async");

    private record Row(String name, int writers) {}

    private CommitBench() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 4) {
            System.err.println("usage: CommitBench DIR NATIVE-PROGRAM ROUNDS SECONDS");
            System.exit(2);
        }
        Path dir = Path.of(arguments[0]);
        int rounds = Integer.parseInt(arguments[2]);
        double seconds = Double.parseDouble(arguments[3]);
        List<Row> rows = new ArrayList<>();
        for (int writers : WRITERS) {
            ROWS.forEach(name -> rows.add(new Row(name, writers)));
        }
        Map<Row, List<Double>> rates = new LinkedHashMap<>();
        rows.forEach(row -> rates.put(row, new ArrayList<>()));
        Random order = new Random(1);
        for (int round = 0; round <= rounds; round++) {
            List<Row> shuffled = new ArrayList<>(rows);
            Collections.shuffle(shuffled, order);
            for (Row row : shuffled) {
                double rate = row.name.equals("native")
                        ? byProgram(arguments[1], dir.resolve("log"), row.writers, seconds)
                        : here(row, dir, seconds);
                if (round > 0) {
                    rates.get(row).add(rate);
                }
            }
        }
        print(rates, rounds, seconds);
    }

    /** The native program on the same log. */
    private static double byProgram(String program, Path dir, int writers, double seconds) throws Exception {
        Process process = new ProcessBuilder(program, dir.toString(), "" + writers, "" + BYTES, "" + seconds)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        if (process.waitFor() != 0) {
            throw new IOException(program + " failed");
        }
        String[] words = printed.split(" ");
        return Double.parseDouble(words[0]) / Double.parseDouble(words[1]);
    }

    private static double here(Row row, Path dir, double seconds) throws Exception {
        boolean ours = OURS.contains(row.name);
        // The log stays, as for the native program; what peers wrote goes, because they trim nothing by themselves.
        Path at = ours ? dir.resolve("log") : dir.resolve(row.name);
        try (Peers open = Peers.open(row.name, at, true)) {
            return rate(open, row.writers, seconds);
        } finally {
            if (!ours) {
                AppendBench.remove(at);
            }
        }
    }

    private static double rate(Peers open, int writers, double seconds) throws Exception {
        LongAdder committed = new LongAdder();
        AtomicBoolean over = new AtomicBoolean();
        AtomicReference<Throwable> problem = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < writers; i++) {
            threads.add(Thread.ofPlatform().start(() -> {
                byte[] record = new byte[BYTES];
                Arrays.fill(record, (byte) 'x');
                try (Peers.Writer writer = open.writer()) {
                    while (!over.get()) {
                        writer.write(record, true);
                        committed.increment();
                    }
                } catch (Throwable thrown) {
                    problem.set(thrown);
                }
            }));
        }
        Thread.sleep((long) (seconds * 1000));
        over.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        double took = (System.nanoTime() - began) / 1e9;
        if (problem.get() != null) {
            throw new IOException("a writer failed", problem.get());
        }
        return committed.sum() / took;
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted.get(middle) : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }

    private static void print(Map<Row, List<Double>> rates, int rounds, double seconds) {
        System.out.printf(
                Locale.ROOT,
                "durable commits/s of %d bytes; median of %d rounds of %s s a row, all rows in random order; [least – most]%n%n",
                BYTES,
                rounds,
                seconds);
        System.out.println("| writers | row | commits/s | | against native | against the best peer |");
        System.out.println("| ---: | --- | ---: | --- | ---: | ---: |");
        for (int writers : WRITERS) {
            double nativeRate = median(rates.get(new Row("native", writers)));
            double best = ROWS.stream()
                    .filter(name -> !OURS.contains(name))
                    .mapToDouble(name -> median(rates.get(new Row(name, writers))))
                    .max()
                    .orElseThrow();
            for (String name : ROWS) {
                List<Double> all = rates.get(new Row(name, writers));
                double rate = median(all);
                System.out.printf(
                        Locale.ROOT,
                        "| %d | %s | %,.0f | %,.0f – %,.0f | %.2f | %.2f |%n",
                        writers,
                        name,
                        rate,
                        Collections.min(all),
                        Collections.max(all),
                        rate / nativeRate,
                        rate / best);
            }
        }
    }
}
