/*
 * Opens each row by its id, one line per row; rows that need a newer JDK are in Foreign.
 *
 * Invariants: nothing is substituted: a row that this JDK or file system lacks is Unavailable with a reason; files exist before
 * they are opened.
 */
package seawall.path;

import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.DSYNC;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.SYNC;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.NoSuchElementException;

/** The openers of the rows. */
final class Ways {
    private Ways() {}

    /** Opens a file, which exists and is {@code bytes} long unless it grows. */
    interface Opener {
        Writer open(Path file, long bytes, Record record) throws IOException, Unavailable;
    }

    static final Map<String, Opener> OPENERS = Map.ofEntries(
            Map.entry("raf-seek+write", (f, n, r) -> new Files17.Seek(f, "rw", r, false)),
            Map.entry("raf-append", (f, n, r) -> new Files17.AtEnd(f, r)),
            Map.entry("channel-heap-at", (f, n, r) -> new Files17.At(open(f, WRITE), heap(r), Force.NONE)),
            Map.entry("channel-direct-at", (f, n, r) -> new Files17.At(open(f, WRITE), r.direct(1), Force.NONE)),
            Map.entry("channel-heap", (f, n, r) -> new Files17.Onward(open(f, WRITE), heap(r))),
            Map.entry("channel-direct", (f, n, r) -> new Files17.Onward(open(f, WRITE), r.direct(1))),
            Map.entry("channel-append", (f, n, r) -> new Files17.Growing(open(f, APPEND), r.direct(1))),
            Map.entry("mapped-buffer", (f, n, r) -> new Mapped(f, n, r, false)),
            Map.entry("mapped-segment", (f, n, r) -> Foreign.mapped(f, n, r, false)),
            Map.entry("ffm-pwrite", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.NATIVE, Foreign.Sync.NONE)),
            Map.entry("ffm-pwrite-critical", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.CRITICAL, Foreign.Sync.NONE)),
            Map.entry("ffm-pwrite-heap", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.HEAP, Foreign.Sync.NONE)),
            Map.entry("channel-odirect", (f, n, r) -> direct(f, r, WRITE)),
            Map.entry("raf-rwd", (f, n, r) -> new Files17.Seek(f, "rwd", r, false)),
            Map.entry("raf-rws", (f, n, r) -> new Files17.Seek(f, "rws", r, false)),
            Map.entry("raf-fd-sync", (f, n, r) -> new Files17.Seek(f, "rw", r, true)),
            Map.entry("channel-heap-dsync", (f, n, r) -> new Files17.At(open(f, WRITE, DSYNC), heap(r), Force.NONE)),
            Map.entry("channel-dsync", (f, n, r) -> new Files17.At(open(f, WRITE, DSYNC), r.direct(1), Force.NONE)),
            Map.entry("channel-sync", (f, n, r) -> new Files17.At(open(f, WRITE, SYNC), r.direct(1), Force.NONE)),
            Map.entry("channel-append-dsync", (f, n, r) -> new Files17.Growing(open(f, APPEND, DSYNC), r.direct(1))),
            Map.entry("channel-force-false", (f, n, r) -> new Files17.At(open(f, WRITE), r.direct(1), Force.DATA)),
            Map.entry("channel-force-true", (f, n, r) -> new Files17.At(open(f, WRITE), r.direct(1), Force.ALL)),
            Map.entry("channel-odirect-dsync", (f, n, r) -> direct(f, r, WRITE, DSYNC)),
            Map.entry("mapped-buffer-force", (f, n, r) -> new Mapped(f, n, r, true)),
            Map.entry("mapped-segment-force", (f, n, r) -> Foreign.mapped(f, n, r, true)),
            Map.entry("ffm-datasync", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.NATIVE, Foreign.Sync.FDATASYNC)),
            Map.entry("ffm-datasync-critical",
                    (f, n, r) -> Foreign.calls(f, r, Foreign.Data.CRITICAL, Foreign.Sync.FDATASYNC)),
            Map.entry("ffm-datasync-heap", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.HEAP, Foreign.Sync.FDATASYNC)),
            Map.entry("ffm-dsync", (f, n, r) -> Foreign.calls(f, r, Foreign.Data.NATIVE, Foreign.Sync.RWF_DSYNC)),
            Map.entry("ffm-dsync-critical",
                    (f, n, r) -> Foreign.calls(f, r, Foreign.Data.CRITICAL, Foreign.Sync.RWF_DSYNC)));

    /** What {@code FileChannel.force} is asked for. */
    enum Force {
        NONE,
        /** force(false) */
        DATA,
        /** force(true) */
        ALL
    }

    /** Why the row cannot run on this JDK with this jar, or null. */
    static String unavailable(Row row) {
        int here = Runtime.version().feature();
        if (here < row.jdk()) {
            return "needs JDK " + row.jdk() + ", this is " + here + ": name a newer one with --jdk";
        }
        return row.jdk() >= Foreign.JDK ? Foreign.unavailable() : null;
    }

    static Writer open(Row row, Path file, long bytes, Record record) throws IOException, Unavailable {
        String reason = unavailable(row);
        if (reason != null) {
            throw new Unavailable(reason);
        }
        return OPENERS.get(row.id()).open(file, bytes, record);
    }

    private static FileChannel open(Path file, OpenOption... options) throws IOException {
        return FileChannel.open(file, options);
    }

    private static ByteBuffer heap(Record record) {
        return ByteBuffer.wrap(record.heap);
    }

    private static Writer direct(Path file, Record record, OpenOption... options) throws IOException, Unavailable {
        long block = Files.getFileStore(file).getBlockSize();
        if (record.bytes() % block != 0) {
            throw new Unavailable("DIRECT writes whole blocks of " + block + " bytes here, not " + record.bytes()
                    + ": choose --size accordingly");
        }
        OpenOption[] all = Arrays.copyOf(options, options.length + 1);
        all[options.length] = directOption();
        FileChannel channel;
        try {
            channel = FileChannel.open(file, all);
        } catch (UnsupportedOperationException | IOException e) {
            throw new Unavailable("the file system refuses DIRECT (" + e.getMessage() + "): name a folder on another one");
        }
        // Reading is not asked for, and the option alone promises nothing: the first write shows whether it works.
        return new Files17.At(channel, record.direct(Math.toIntExact(block)), Force.NONE);
    }

    /** The only way to O_DIRECT is the JDK's own class, not Java's: a JDK may lack it. */
    private static OpenOption directOption() throws Unavailable {
        try {
            Object[] options = Class.forName("com.sun.nio.file.ExtendedOpenOption").getEnumConstants();
            return (OpenOption) Arrays.stream(options).filter(one -> one.toString().equals("DIRECT")).findFirst().orElseThrow();
        } catch (ClassNotFoundException | NoSuchElementException e) {
            throw new Unavailable("this JDK has no ExtendedOpenOption.DIRECT: name an OpenJDK with --jdk");
        }
    }

    /** Opens for mapping. */
    static FileChannel forMapping(Path file) throws IOException {
        return FileChannel.open(file, READ, WRITE);
    }
}
