/*
 * Measures the log from Java beside the same log in a native program and beside the peers: appends in memory, durable commits by 1, 16
 * and 64 threads, by one thread commits that outlive the process only, and messages of a queue: a durable put and a durable
 * acknowledgement each, beside two durable writes to a file.
 *
 * Every round runs each row once, in random order, so that a drift of the machine favours none; the first round warms the JVM up and
 * does not count. Appends are measured in a JVM of their own for each row and round, so that none runs code that was compiled for
 * another, in bursts that fit into one batch, between which the log is committed: an endless run of appends would measure the disk.
 */
package seawall.bench;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;

public final class Bench {
    private static final int BURST = 1500;
    private static final List<String> OURS = List.of("downcall", "native", "seawall", "seawall-async", "seawall-buffered", "queue-seawall");
    private static final List<String> IN_MEMORY = List.of("downcall", "seawall", "seawall-buffered", "chronicle", "artemis", "file");

    /** What a table measures; the native program calls what commits have to outlive by `word`. */
    private record Part(String title, String word, int bytes, List<Integer> writers, List<String> names) {
        boolean inMemory() {
            return word.equals(APPEND);
        }
    }

    private static final String APPEND = "append";
    private static final String QUEUE = "queue";
    private static final List<String> QUEUES =
            List.of("queue-file", "queue-seawall", "queue-artemis", "queue-artemis-tuned", "queue-chronicle");
    private static final List<Part> PARTS = List.of(
            new Part("nanoseconds an append in memory", APPEND, 64, List.of(1), IN_MEMORY),
            new Part("nanoseconds an append in memory", APPEND, 1024, List.of(1), IN_MEMORY),
            new Part("durable commits/s", "power-loss", 1024, List.of(1, 16, 64),
                    List.of("native", "seawall", "seawall-async", "chronicle", "artemis", "artemis-tuned", "file")),
            // Artemis hands a record to a thread: it is not known when it outlives the process.
            new Part("commits/s that outlive the process only (the native log promises power loss; peers do not sync)", "process-crash", 256,
                    List.of(1), List.of("native", "chronicle", "file")),
            new Part("messages/s: put, get, acknowledge", QUEUE, 256, List.of(1, 16), QUEUES),
            new Part("messages/s: put, get, acknowledge", QUEUE, 1024, List.of(1, 16), QUEUES));

    private record Row(Part part, String name, int writers) {}

    private final Path dir;
    private final String program;
    private final double seconds;

    private Bench(String dir, String program, String seconds) {
        this.dir = Path.of(dir);
        this.program = program;
        this.seconds = Double.parseDouble(seconds);
    }

    public static void main(String[] arguments) throws Throwable {
        if (arguments.length == 5 && arguments[4].equals(APPEND)) {
            System.out.println(nsAnAppend(arguments[0], Path.of(arguments[1]), Integer.parseInt(arguments[2]), Double.parseDouble(arguments[3])));
        } else if (arguments.length == 4 || arguments.length == 5) {
            List<Part> parts = PARTS.stream().filter(part -> arguments.length == 4 || part.word.equals(arguments[4])).toList();
            new Bench(arguments[0], arguments[1], arguments[3]).run(Integer.parseInt(arguments[2]), parts);
        } else {
            System.err.println("usage: Bench DIR NATIVE-PROGRAM ROUNDS SECONDS [TABLE] | PEER DIR BYTES SECONDS append");
            System.exit(2);
        }
    }

    private void run(int rounds, List<Part> parts) throws Exception {
        Map<Row, List<Double>> figures = new HashMap<>();
        List<Row> rows = new ArrayList<>();
        for (Part part : parts) {
            part.writers.forEach(writers -> part.names.forEach(name -> rows.add(new Row(part, name, writers))));
        }
        Random order = new Random(1);
        for (int round = 0; round <= rounds; round++) {
            Collections.shuffle(rows, order);
            for (Row row : rows) {
                if (round > 0 || !row.part.inMemory()) {
                    double figure = figure(row);
                    figures.computeIfAbsent(row, key -> new ArrayList<>()).addAll(round > 0 ? List.of(figure) : List.of());
                }
            }
        }
        System.out.printf(Locale.ROOT, "median of %d rounds of %s s a row, all rows in random order; [least – most]%n", rounds, seconds);
        parts.forEach(part -> print(part, figures));
    }

    private double figure(Row row) throws Exception {
        Part part = row.part;
        // The log stays, as for the native program; what peers wrote goes, because they trim nothing by themselves.
        boolean ours = OURS.contains(row.name);
        Path at = dir.resolve(ours && !part.word.equals(QUEUE) ? "log" : row.name);
        try {
            if (part.inMemory()) {
                List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow()));
                command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
                command.addAll(List.of("-cp", System.getProperty("java.class.path"), Bench.class.getName()));
                command.addAll(List.of(row.name, at.toString(), "" + part.bytes, "" + seconds, APPEND));
                return Double.parseDouble(printed(command));
            }
            if (row.name.equals("native")) {
                String[] words = printed(List.of(program, at.toString(), "" + row.writers, "" + part.bytes, "" + seconds, part.word)).split(" ");
                return Double.parseDouble(words[0]) / Double.parseDouble(words[1]);
            }
            try (Peers open = Peers.open(row.name, at, !part.word.equals("process-crash"))) {
                return rate(open, row);
            }
        } finally {
            if (!ours) {
                remove(at);
            }
        }
    }

    private static String printed(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + " failed");
        }
        // Peers greet on standard output.
        return printed.substring(printed.lastIndexOf('\n') + 1);
    }

    private static void remove(Path dir) throws IOException {
        try (var files = Files.walk(dir)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** The mean of what appends take in as many seconds, after as many in which they are compiled. */
    private static double nsAnAppend(String name, Path dir, int bytes, double seconds) throws Throwable {
        byte[] record = new byte[bytes];
        double mean = 0;
        try (Peers open = Peers.open(name, dir, false);
                Peers.Writer writer = open.writer()) {
            for (int pass = 0; pass < 2; pass++) {
                long busyNs = 0;
                long count = 0;
                for (long began = System.nanoTime(); System.nanoTime() - began < seconds * 1e9; count += BURST) {
                    open.rest();
                    long from = System.nanoTime();
                    for (int i = 0; i < BURST; i++) {
                        writer.write(record, false);
                    }
                    busyNs += System.nanoTime() - from;
                }
                mean = busyNs / (double) count;
            }
        }
        return mean;
    }

    private double rate(Peers open, Row row) throws Exception {
        boolean durably = !row.part.word.equals("process-crash");
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

    private static String shown(double figure) {
        return String.format(Locale.ROOT, figure < 100 ? "%.1f" : "%,.0f", figure);
    }

    /** A table; its ratios are to the first row and to the best peer. */
    private static void print(Part part, Map<Row, List<Double>> figures) {
        System.out.printf("%n%s of %d bytes%n%n", part.title, part.bytes);
        System.out.printf("| writers | row | median | | against %s | against the best peer |%n", part.names.getFirst());
        System.out.println("| ---: | --- | ---: | --- | ---: | ---: |");
        Comparator<Double> better = part.inMemory() ? Comparator.reverseOrder() : Comparator.naturalOrder();
        for (int writers : part.writers) {
            double first = median(figures.get(new Row(part, part.names.getFirst(), writers)));
            double best = part.names.stream()
                    .filter(name -> !OURS.contains(name))
                    .map(name -> median(figures.get(new Row(part, name, writers))))
                    .max(better)
                    .orElseThrow();
            for (String name : part.names) {
                List<Double> all = figures.get(new Row(part, name, writers));
                double figure = median(all);
                System.out.printf(Locale.ROOT, "| %d | %s | %s | %s – %s | %.2f | %.2f |%n",
                        writers, name, shown(figure), shown(Collections.min(all)), shown(Collections.max(all)), figure / first, figure / best);
            }
        }
    }
}
