/*
 * Parses the options of the published test, with its defaults, and a few more.
 *
 * Invariant: an unknown or invalid option is refused by name with the remedy.
 */
package seawall.path;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * A command line.
 *
 * @param help -h
 * @param folder -d
 * @param fileBytes -s
 * @param files -c
 * @param row -t, as the id of a row
 * @param iterations -i
 * @param writesPerBlock -w
 * @param mode -m
 * @param format -f
 * @param recordBytes --size
 * @param fillBytes --fill-size
 * @param intervalNs --write-sleep
 * @param pace --pace
 * @param warmUp --warm-up
 */
record Options(
        boolean help,
        Path folder,
        int fileBytes,
        int files,
        Row row,
        int iterations,
        int writesPerBlock,
        Mode mode,
        Format format,
        int recordBytes,
        int fillBytes,
        long intervalNs,
        Order.Pace pace,
        int warmUp) {

    /** How files are made before the run. */
    enum Mode {
        /** Written with zeros. */
        PREALLOCATE_ZEROED,
        /** Of their length, without blocks. */
        PREALLOCATE_SPARSE,
        /** Empty. */
        NO_PREALLOCATION
    }

    /** How an iteration is printed. */
    enum Format {
        /** A figure a line. */
        LONG,
        /** One line: mean,min,50,90,99,99.9,99.99,max,count, nanoseconds. */
        SHORT,
        /** The whole distribution, as HdrHistogram prints it. */
        DETAIL,
        /** One line of JSON with the histogram in it. */
        JSON
    }

    static final String HELP = """
            Times each write of a journal, as the published seek() + write() against pwrite() did.

              -t WAY      seek (raf-seek+write), pwrite (channel-direct-at), or a row of --rows
              -d DIR      where the files are made and removed again [default: the system's temporary folder]
              -i N        iterations [default: 5]
              -c N        files an iteration [default: 50]
              -s BYTES    size of a file [default: 1048576]
              -w N        how often each block is written before the next [default: 1]
              -m MODE     PREALLOCATE_ZEROED, PREALLOCATE_SPARSE, NO_PREALLOCATION [default: PREALLOCATE_ZEROED]
              -f FORMAT   LONG, SHORT (mean,min,50,90,99,99.9,99.99,max,count in ns), DETAIL, JSON [default: LONG]
              -h          this

              --size BYTES        size of a write [default: 4096]
              --fill-size BYTES   size of the writes that fill the files [default: 4096]
              --write-sleep US    microseconds from write to write, spinning [default: 50]
              --pace PACE         closed (from the end of the last) or scheduled (whatever happened) [default: closed]
              --warm-up N         iterations before the counted ones [default: 1]

              --rows      lists the ways that this JDK has
              --serve     takes orders from `seawall bench path --jvm`

            Unlike the original: nothing is clipped; leaving a file for the next is timed apart from the write, and printed
            on standard error with the bytes allocated per write.
            """;

    static Options parse(String[] arguments) {
        Builder builder = new Builder();
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i].equals("-h") || arguments[i].equals("--help")) {
                builder.help = true;
                continue;
            }
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException(arguments[i] + " is no option, or lacks its value; -h lists them");
            }
            builder.set(arguments[i], arguments[++i]);
        }
        return builder.build();
    }

    private static final class Builder {
        private boolean help;
        private Path folder = Path.of(System.getProperty("java.io.tmpdir"));
        private int fileBytes = 1 << 20;
        private int files = 50;
        private Row row;
        private int iterations = 5;
        private int writesPerBlock = 1;
        private Mode mode = Mode.PREALLOCATE_ZEROED;
        private Format format = Format.LONG;
        private int recordBytes = 4096;
        private int fillBytes = 4096;
        private int intervalUs = 50;
        private Order.Pace pace = Order.Pace.CLOSED;
        private int warmUp = 1;

        void set(String option, String value) {
            switch (option) {
                case "-d" -> folder = Path.of(value);
                case "-s" -> fileBytes = number(option, value, 1, 1 << 30);
                case "-c" -> files = number(option, value, 1, 100_000);
                case "-t" -> row = way(value);
                case "-i" -> iterations = number(option, value, 1, 1_000_000);
                case "-w" -> writesPerBlock = number(option, value, 1, 1_000_000);
                case "-m" -> mode = one(option, value, Mode.class);
                case "-f" -> format = one(option, value, Format.class);
                case "--size" -> recordBytes = number(option, value, 1, 16 << 20);
                case "--fill-size" -> fillBytes = number(option, value, 1, 64 << 20);
                case "--write-sleep" -> intervalUs = number(option, value, 0, 10_000_000);
                case "--pace" -> pace = one(option, value, Order.Pace.class);
                case "--warm-up" -> warmUp = number(option, value, 0, 1_000_000);
                default -> throw new IllegalArgumentException(option + " is no option; -h lists them");
            }
        }

        Options build() {
            if (!help) {
                if (row == null) {
                    throw new IllegalArgumentException("-t is missing: seek, pwrite, or a row of --rows");
                }
                if (!Files.isDirectory(folder)) {
                    throw new IllegalArgumentException(folder + " is no folder: create it, or name another with -d");
                }
                if (fileBytes < recordBytes) {
                    throw new IllegalArgumentException("-s must be at least --size, " + recordBytes + " bytes");
                }
            }
            return new Options(help, folder, fileBytes, files, row, iterations, writesPerBlock, mode, format, recordBytes,
                    fillBytes, intervalUs * 1000L, pace, warmUp);
        }

        private static Row way(String name) {
            String id = switch (name) {
                case "seek" -> "raf-seek+write";
                case "pwrite" -> "channel-direct-at";
                default -> name;
            };
            return Row.find(id).orElseThrow(() ->
                    new IllegalArgumentException("-t " + name + " is no way to write: seek, pwrite, or a row of --rows"));
        }

        private static int number(String option, String value, int min, int max) {
            try {
                int number = Integer.parseInt(value);
                if (number >= min && number <= max) {
                    return number;
                }
            } catch (NumberFormatException e) {
                // Told below, with the bounds.
            }
            throw new IllegalArgumentException(option + " must be a number from " + min + " to " + max + ", not " + value);
        }

        private static <E extends Enum<E>> E one(String option, String value, Class<E> type) {
            try {
                return Enum.valueOf(type, value.toUpperCase(Locale.ROOT));
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException(option + " must be one of "
                        + java.util.Arrays.toString(type.getEnumConstants()) + ", not " + value, e);
            }
        }
    }
}
