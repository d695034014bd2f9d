/*
 * Counts commits a second: durable ones by 1, 16 and 64 threads, and by one thread those that outlive the process only; of the log from
 * Java, of the same log by a native program, and of the peers.
 *
 * Every round runs each row once for a second, in random order, so that a drift of the machine favours none; the first round warms
 * the JVM up and does not count. Tables have the median of each row and its ratio to the native program and to the best peer.
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
    private static final List<String> OURS = List.of("native", "seawall", "seawall-async");

    /** What a table measures; the native program calls what commits have to outlive by `word`. */
    private enum Part {
        DURABLE(
                "durable commits/s",
                "power-loss",
                1024,
                List.of(1, 16, 64),
                List.of("native", "seawall", "seawall-async", "chronicle", "artemis", "artemis-tuned", "file")),
        // Artemis hands a record to a thread: it is not known when it outlives the process.
        OUTLIVES_THE_PROCESS(
                "commits/s that outlive the process only (the native log promises power loss; peers do not sync)",
                "process-crash",
                256,
                List.of(1),
                List.of("native", "chronicle", "file"));

        final String title;
        final String word;
        final int bytes;
        final List<Integer> writers;
        final List<String> names;

        Part(String title, String word, int bytes, List<Integer> writers, List<String> names) {
            this.title = title;
            this.word = word;
            this.bytes = bytes;
            this.writers = writers;
            this.names = names;
        }
    }

    private record Row(Part part, String name, int writers) {}

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
        for (Part part : Part.values()) {
            for (int writers : part.writers) {
                part.names.forEach(name -> rows.add(new Row(part, name, writers)));
            }
        }
        Map<Row, List<Double>> rates = new LinkedHashMap<>();
        rows.forEach(row -> rates.put(row, new ArrayList<>()));
        Random order = new Random(1);
        for (int round = 0; round <= rounds; round++) {
            List<Row> shuffled = new ArrayList<>(rows);
            Collections.shuffle(shuffled, order);
            for (Row row : shuffled) {
                double rate = row.name.equals("native")
                        ? byProgram(arguments[1], dir.resolve("log"), row, seconds)
                        : here(row, dir, seconds);
                if (round > 0) {
                    rates.get(row).add(rate);
                }
            }
        }
        System.out.printf(Locale.ROOT, "median of %d rounds of %s s a row, all rows in random order; [least – most]%n", rounds, seconds);
        for (Part part : Part.values()) {
            print(part, rates);
        }
    }

    /** The native program on the same log. */
    private static double byProgram(String program, Path dir, Row row, double seconds) throws Exception {
        Process process = new ProcessBuilder(
                        program, dir.toString(), "" + row.writers, "" + row.part.bytes, "" + seconds, row.part.word)
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
        try (Peers open = Peers.open(row.name, at, row.part == Part.DURABLE)) {
            return rate(open, row, seconds);
        } finally {
            if (!ours) {
                AppendBench.remove(at);
            }
        }
    }

    private static double rate(Peers open, Row row, double seconds) throws Exception {
        boolean durably = row.part == Part.DURABLE;
        LongAdder committed = new LongAdder();
        AtomicBoolean over = new AtomicBoolean();
        AtomicReference<Throwable> problem = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < row.writers; i++) {
            threads.add(Thread.ofPlatform().start(() -> {
                byte[] record = new byte[row.part.bytes];
                Arrays.fill(record, (byte) 'x');
                try (Peers.Writer writer = open.writer()) {
                    while (!over.get()) {
                        writer.write(record, durably);
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

    private static void print(Part part, Map<Row, List<Double>> rates) {
        System.out.printf(Locale.ROOT, "%n%s of %d bytes%n%n", part.title, part.bytes);
        System.out.println("| writers | row | commits/s | | against native | against the best peer |");
        System.out.println("| ---: | --- | ---: | --- | ---: | ---: |");
        for (int writers : part.writers) {
            double nativeRate = median(rates.get(new Row(part, "native", writers)));
            double best = part.names.stream()
                    .filter(name -> !OURS.contains(name))
                    .mapToDouble(name -> median(rates.get(new Row(part, name, writers))))
                    .max()
                    .orElseThrow();
            for (String name : part.names) {
                List<Double> all = rates.get(new Row(part, name, writers));
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
