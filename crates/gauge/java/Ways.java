/*
 * Writes files in the ways of a JVM and times each write, for `seawall bench path --jvm`, which starts it.
 *
 *   first line out   hello TAB version TAB vendor TAB virtual machine TAB collector TAB ns of a reading of the clock
 *   a line in        way TAB pace TAB interval ns TAB time ns TAB record bytes TAB file bytes TAB file [TAB file]
 *   a line out       ok TAB elapsed ns TAB allocated bytes TAB user, system, wait ns (-1: not counted) TAB service TAB response TAB roll,
 *                    each a list of "ns:times"; or na TAB reason; or error TAB message
 *
 *        due        begin         end
 *   ------|---------|--- write ---|------   service = end - begin, response = end - due (on a schedule)
 *
 * Invariants: between the two readings of the clock lies one write and nothing else; leaving a file for the next is timed apart; a short
 * write is an error; a way that this JDK or file system lacks is not available, with the reason, and never replaced by another; files are
 * made and removed by the other side; the end of the input ends the process.
 */
import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.DSYNC;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import com.sun.nio.file.ExtendedOpenOption;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;

public final class Ways {
    /** As many samples as a block keeps; one with more ends early. */
    private static final int SAMPLES = 1 << 21;
    private static final int PAGE_BYTES = 4096;

    /** Writes the record at a position of its file. */
    interface Write {
        void at(long position) throws Throwable;
    }

    /** Closes the file. */
    interface End {
        void close() throws Throwable;
    }

    /** A file held open by one way of writing. */
    record Writer(Write write, End end) {}

    /** The reason why a way cannot run here. */
    static final class Unavailable extends Exception {
        Unavailable(String reason) {
            super(reason, null, false, false);
        }
    }

    /** Durations in nanoseconds, in memory that is there before the first. */
    static final class Samples {
        final long[] ns = new long[SAMPLES];
        int count;

        void add(long value) {
            ns[count++] = value;
        }

        @Override
        public String toString() {
            StringBuilder text = new StringBuilder();
            Arrays.sort(ns, 0, count);
            for (int from = 0, to; from < count; from = to) {
                for (to = from; to < count && ns[to] == ns[from]; to++) {}
                text.append(from == 0 ? "" : " ").append(ns[from]).append(':').append(to - from);
            }
            return text.toString();
        }
    }

    private static final Samples SERVICE = new Samples();
    private static final Samples RESPONSE = new Samples();
    private static final Samples ROLL = new Samples();
    private static final com.sun.management.ThreadMXBean THREADS =
            (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);
        String collector = ManagementFactory.getGarbageCollectorMXBeans().get(0).getName().split(" ")[0];
        out.println(String.join("\t", "hello", System.getProperty("java.version"), System.getProperty("java.vendor"),
                System.getProperty("java.vm.name"), collector, Double.toString(clockNs())));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line));
        }
    }

    private static double clockNs() {
        double best = Double.MAX_VALUE;
        for (int pass = 0; pass < 3; pass++) {
            long startNs = System.nanoTime();
            long last = startNs;
            for (int i = 0; i < SAMPLES; i++) {
                last = System.nanoTime();
            }
            best = Math.min(best, (last - startNs) / (double) SAMPLES);
        }
        return best;
    }

    private static String answer(String line) {
        try {
            return new Ways(line.split("\t")).run();
        } catch (Unavailable e) {
            return "na\t" + e.getMessage();
        } catch (Throwable e) {
            return "error\t" + String.valueOf(e).replace('\n', ' ');
        }
    }

    private final String way;
    private final boolean tight;
    private final boolean scheduled;
    private final long intervalNs;
    private final long timeNs;
    private final byte[] record;
    private final long fileBytes;
    private final String[] files;
    private long openAllocated;

    private Ways(String[] field) {
        way = field[0];
        tight = field[1].equals("tight");
        scheduled = field[1].equals("scheduled");
        intervalNs = tight ? 0 : Long.parseLong(field[2]);
        timeNs = Long.parseLong(field[3]);
        record = new byte[Integer.parseInt(field[4])];
        new SplittableRandom(1).nextBytes(record);
        fileBytes = Long.parseLong(field[5]);
        files = Arrays.copyOfRange(field, 6, field.length);
    }

    private String run() throws Throwable {
        SERVICE.count = RESPONSE.count = ROLL.count = 0;
        long[] before = accounts();
        long allocated = THREADS.getCurrentThreadAllocatedBytes();
        long elapsedNs = time();
        allocated = THREADS.getCurrentThreadAllocatedBytes() - allocated - openAllocated;
        long[] after = accounts();
        StringBuilder text = new StringBuilder("ok\t").append(elapsedNs).append('\t').append(Math.max(0, allocated));
        for (int i = 0; i < after.length; i++) {
            text.append('\t').append(before[i] < 0 || after[i] < 0 ? -1 : Math.max(0, after[i] - before[i]));
        }
        return text.append('\t').append(SERVICE).append('\t').append(RESPONSE).append('\t').append(ROLL).toString();
    }

    /** This thread's user, system and waiting time; -1 where it is not counted. */
    private static long[] accounts() {
        long waitNs;
        try {
            waitNs = Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
        } catch (IOException | RuntimeException e) {
            waitNs = -1;
        }
        long userNs = THREADS.getCurrentThreadUserTime();
        return new long[] {userNs, THREADS.getCurrentThreadCpuTime() - userNs, waitNs};
    }

    private long time() throws Throwable {
        int file = 0;
        boolean growing = way.contains("append");
        long places = Math.max(1, fileBytes / record.length);
        Writer writer = opened(file);
        try {
            long startNs = System.nanoTime();
            long endNs = startNs + timeNs;
            long dueNs = startNs;
            long doneNs = startNs;
            long place = 0;
            while (SERVICE.count < SAMPLES && dueNs - endNs < 0 && doneNs - endNs < 0) {
                if (place == places && !growing) {
                    place = 0;
                    if (files.length > 1 && !tight) {
                        long beginNs = System.nanoTime();
                        writer.end.close();
                        file = (file + 1) % files.length;
                        writer = opened(file);
                        ROLL.add(System.nanoTime() - beginNs);
                    }
                }
                long nowNs = System.nanoTime();
                while (nowNs - dueNs < 0) {
                    Thread.onSpinWait();
                    nowNs = System.nanoTime();
                }
                long position = place++ * record.length;
                long beginNs = System.nanoTime();
                writer.write.at(position);
                doneNs = System.nanoTime();
                SERVICE.add(doneNs - beginNs);
                if (scheduled) {
                    RESPONSE.add(doneNs - dueNs);
                }
                dueNs = (scheduled ? dueNs : doneNs) + intervalNs;
            }
            return doneNs - startNs;
        } finally {
            writer.end.close();
        }
    }

    /** Opens a file; what that allocates is no write's. */
    private Writer opened(int file) throws Throwable {
        long before = THREADS.getCurrentThreadAllocatedBytes();
        Writer writer = open(Path.of(files[file]));
        openAllocated += THREADS.getCurrentThreadAllocatedBytes() - before;
        return writer;
    }

    private Writer open(Path file) throws Throwable {
        return switch (way) {
            case "raf-seek+write" -> seek(file, "rw");
            case "raf-append" -> append(file);
            case "raf-rwd" -> seek(file, "rwd");
            case "channel-heap-at" -> channel(FileChannel.open(file, WRITE), ByteBuffer.wrap(record), null);
            case "channel-direct-at" -> channel(FileChannel.open(file, WRITE), direct(1), null);
            case "channel-append" -> channel(FileChannel.open(file, APPEND), direct(1), null);
            case "channel-append-dsync" -> channel(FileChannel.open(file, APPEND, DSYNC), direct(1), null);
            case "channel-dsync" -> channel(FileChannel.open(file, WRITE, DSYNC), direct(1), null);
            case "channel-force-false" -> channel(FileChannel.open(file, WRITE), direct(1), false);
            case "channel-force-true" -> channel(FileChannel.open(file, WRITE), direct(1), true);
            case "channel-odirect" -> pastTheCache(file, WRITE);
            case "channel-odirect-dsync" -> pastTheCache(file, WRITE, DSYNC);
            case "mapped-buffer" -> mapped(file, false);
            case "mapped-buffer-force" -> mapped(file, true);
            case "ffm-pwrite" -> foreign(file, false);
            case "ffm-datasync" -> foreign(file, true);
            default -> throw new Unavailable("this program does not know the way " + way);
        };
    }

    private Writer seek(Path path, String mode) throws IOException {
        RandomAccessFile file = new RandomAccessFile(path.toFile(), mode);
        return new Writer(position -> {
            file.seek(position);
            file.write(record);
        }, file::close);
    }

    private Writer append(Path path) throws IOException {
        RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw");
        file.seek(file.length());
        return new Writer(position -> file.write(record), file::close);
    }

    /** On APPEND the position is not asked for. */
    private Writer channel(FileChannel channel, ByteBuffer buffer, Boolean force) {
        boolean append = way.contains("append");
        return new Writer(position -> {
            int written = append ? channel.write(buffer.clear()) : channel.write(buffer.clear(), position);
            whole(written, buffer.capacity());
            if (force != null) {
                channel.force(force);
            }
        }, channel::close);
    }

    /** The only way to O_DIRECT is the JDK's own class, not Java's; and the option alone promises nothing: the first write shows it. */
    private Writer pastTheCache(Path file, OpenOption... options) throws IOException, Unavailable {
        long block = Files.getFileStore(file).getBlockSize();
        if (record.length % block != 0) {
            throw new Unavailable("DIRECT writes whole blocks of " + block + " bytes here, not " + record.length + ": choose --size accordingly");
        }
        try {
            OpenOption[] all = Arrays.copyOf(options, options.length + 1);
            all[options.length] = ExtendedOpenOption.DIRECT;
            return channel(FileChannel.open(file, all), direct(Math.toIntExact(block)), null);
        } catch (NoClassDefFoundError | UnsupportedOperationException | IOException e) {
            throw new Unavailable("DIRECT is refused (" + e.getMessage() + "): name an OpenJDK with --jdk, or a folder on another file system");
        }
    }

    private Writer mapped(Path file, boolean force) throws IOException {
        MappedByteBuffer map;
        try (FileChannel channel = FileChannel.open(file, READ, WRITE)) {
            map = channel.map(FileChannel.MapMode.READ_WRITE, 0, fileBytes);
        }
        for (int at = 0; at < fileBytes; at += PAGE_BYTES) {
            map.put(at, map.get(at));
        }
        return new Writer(position -> {
            map.put((int) position, record);
            if (force) {
                map.force((int) position, record.length);
            }
        }, () -> {});
    }

    /** The classes of java.lang.foreign are compiled by a JDK that has them, and looked for where they may be. */
    private Writer foreign(Path file, boolean sync) throws Throwable {
        try {
            return (Writer) Class.forName("Foreign").getDeclaredMethod("open", Path.class, byte[].class, boolean.class).invoke(null, file, record, sync);
        } catch (ClassNotFoundException | UnsupportedClassVersionError e) {
            throw new Unavailable("needs JDK 22, this is " + Runtime.version().feature() + ": name a newer one with --jdk");
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** The record outside the heap, at a multiple of {@code alignment}. */
    private ByteBuffer direct(int alignment) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(record.length + alignment - 1).alignedSlice(alignment);
        buffer.limit(record.length);
        return buffer.slice().put(record).clear();
    }

    static void whole(long written, long bytes) throws IOException {
        if (written != bytes) {
            throw new IOException("wrote " + written + " of " + bytes + " bytes");
        }
    }
}
