/*
 * Runs the published test: files are made, then written block by block, each `-w` times, with a spin of 50 µs
 * between; after the requested number of files an iteration ends and its line is printed.
 *
 * Its last block of each file is left unwritten, as there, so that counts can be compared. Corrected: nothing is clipped;
 * leaving a file for the next is timed separately.
 *
 * Invariant: only files made here are written, and they are removed however the run ends.
 */
package seawall.path;

import java.io.IOException;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.HdrHistogram.Histogram;

/** The published test. */
final class Original {
    private Original() {}

    /** As many digits as the original kept. */
    private static final int DIGITS = 4;
    private static final double[] PERCENTS = {50.0, 90.0, 99.0, 99.9, 99.99};

    static void run(Options options, PrintStream out, PrintStream err) throws IOException, Unavailable {
        String reason = Ways.unavailable(options.row());
        if (reason != null) {
            throw new Unavailable(reason);
        }
        List<Path> files = names(options);
        Thread cleaner = new Thread(() -> remove(files));
        Runtime.getRuntime().addShutdownHook(cleaner);
        err.printf(Locale.ROOT, "will fill %d files of %d bytes in %s, then write %d times an iteration by %s%n",
                options.files(), options.fileBytes(), options.folder(), writes(options) * options.files(), options.row().id());
        try {
            make(options, files);
            measure(options, files, out, err);
        } finally {
            remove(files);
            Runtime.getRuntime().removeShutdownHook(cleaner);
        }
    }

    private static void measure(Options options, List<Path> files, PrintStream out, PrintStream err)
            throws IOException, Unavailable {
        Record record = new Record(options.recordBytes());
        out.println("Doing warm-up");
        for (int i = 0; i < options.warmUp(); i++) {
            Loop.run(options.row(), order(options, files), record, new Sample(DIGITS));
            rewind(options, files);
        }
        out.println("Starting measurement for journaller " + options.row().id());
        Histogram rolls = new Sample(DIGITS).roll;
        long allocated = 0;
        long written = 0;
        for (int i = 0; i < options.iterations(); i++) {
            Sample sample = new Sample(DIGITS);
            Order order = order(options, files);
            Loop.run(options.row(), order, record, sample);
            boolean scheduled = options.pace() == Order.Pace.SCHEDULED;
            if (options.format() == Options.Format.JSON) {
                out.println(Serve.answer(sample, order).end());
            } else {
                out.print(lines(options.format(), scheduled ? sample.response : sample.service));
            }
            rolls.add(sample.roll);
            allocated = sample.allocatedBytes < 0 ? -1 : allocated + sample.allocatedBytes;
            written += sample.service.getTotalCount();
            rewind(options, files);
        }
        String each = allocated < 0 ? "unknown" : String.format(Locale.ROOT, "%.3f", allocated / (double) written);
        err.printf(Locale.ROOT, "apart from the writes: %d rolls, p50 %d ns, max %d ns; bytes allocated per write: %s%n",
                rolls.getTotalCount(), rolls.getValueAtPercentile(50), rolls.getMaxValue(), each);
    }

    private static long places(Options options) {
        // The original leaves a file while exactly one block of it remains.
        return Math.max(1, (options.fileBytes() - 1) / options.recordBytes());
    }

    private static long writes(Options options) {
        return places(options) * options.writesPerBlock();
    }

    private static Order order(Options options, List<Path> files) {
        return new Order(options.pace(), options.intervalNs(), writes(options) * files.size(), Long.MAX_VALUE / 4,
                options.fileBytes(), places(options), options.writesPerBlock(), files);
    }

    /** What the original printed of an iteration. */
    static String lines(Options.Format format, Histogram latency) {
        StringBuilder text = new StringBuilder();
        switch (format) {
            case SHORT -> {
                text.append(String.format(Locale.ROOT, "%.2f,%d", latency.getMean(), latency.getMinValue()));
                for (double percent : PERCENTS) {
                    text.append(',').append(latency.getValueAtPercentile(percent));
                }
                text.append(',').append(latency.getMaxValue()).append(',').append(latency.getTotalCount()).append('\n');
            }
            case LONG -> {
                text.append("== write latency ==\n");
                text.append(String.format(Locale.ROOT, "%-6s%20f%n", "mean", latency.getMean()));
                text.append(line("min", latency.getMinValue()));
                for (double percent : PERCENTS) {
                    text.append(line(String.format(Locale.ROOT, "%.2f%%", percent), latency.getValueAtPercentile(percent)));
                }
                text.append(line("max", latency.getMaxValue())).append(line("count", latency.getTotalCount())).append('\n');
            }
            default -> {
                java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
                latency.outputPercentileDistribution(new PrintStream(bytes, true, java.nio.charset.StandardCharsets.UTF_8), 1.0);
                text.append(bytes.toString(java.nio.charset.StandardCharsets.UTF_8));
            }
        }
        return text.toString();
    }

    private static String line(String name, long value) {
        return String.format(Locale.ROOT, "%-6s%20d%n", name, value);
    }

    private static List<Path> names(Options options) {
        List<Path> files = new ArrayList<>();
        for (int i = 0; i < options.files(); i++) {
            files.add(options.folder().resolve("seawall-jvm-" + ProcessHandle.current().pid() + "-" + i + ".tmp"));
        }
        return files;
    }

    private static void make(Options options, List<Path> files) throws IOException {
        for (Path file : files) {
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                boolean growing = options.row().file() == Row.Kind.GROWING;
                if (!growing && options.mode() == Options.Mode.PREALLOCATE_ZEROED) {
                    fill(channel, options);
                }
            }
            if (options.row().file() != Row.Kind.GROWING && options.mode() == Options.Mode.PREALLOCATE_SPARSE) {
                try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
                    sparse.setLength(options.fileBytes());
                }
            }
        }
    }

    private static void fill(FileChannel channel, Options options) throws IOException {
        ByteBuffer zeros = ByteBuffer.allocateDirect(options.fillBytes());
        for (long left = options.fileBytes(); left > 0; ) {
            zeros.clear().limit((int) Math.min(left, zeros.capacity()));
            left -= channel.write(zeros);
        }
        channel.force(true);
    }

    /** Growing files begin anew with each iteration. */
    private static void rewind(Options options, List<Path> files) throws IOException {
        if (options.row().file() == Row.Kind.GROWING) {
            remove(files);
            make(options, files);
        }
    }

    private static void remove(List<Path> files) {
        for (Path file : files) {
            try {
                Files.deleteIfExists(file);
            } catch (IOException e) {
                System.err.println("cannot remove " + file + ": " + e.getMessage());
            }
        }
    }
}
