/*
 * Writes through java.lang.foreign: a mapped segment, and the C library's pwrite, pwritev2 and fdatasync.
 *
 * A call marked critical keeps its thread from reaching a safepoint: while it blocks, every collection waits. The critical
 * rows exist to be measured; a program must not mark a call as critical that may block.
 *
 * Invariants: a failed call is an error with its errno; descriptors are closed.
 */
package seawall.path;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Rows that need java.lang.foreign. */
@SuppressWarnings("restricted")
final class Foreign {
    private Foreign() {}

    /** The first JDK in which java.lang.foreign is final. */
    static final int JDK = 22;

    /** Where the record lies and how the call is made. */
    enum Data {
        /** Native memory, plain call. */
        NATIVE,
        /** Native memory, critical call. */
        CRITICAL,
        /** A byte[], critical call. */
        HEAP
    }

    /** What makes the write durable. */
    enum Sync {
        NONE,
        FDATASYNC,
        RWF_DSYNC
    }

    private static final int O_RDWR = 2;
    private static final int RWF_DSYNC = 2;
    private static final int PAGE_BYTES = 4096;

    /** Why these rows cannot run, or null. */
    static String unavailable() {
        return null;
    }

    static Writer mapped(Path file, long bytes, Record record, boolean force) throws IOException {
        return new Segment(file, bytes, record, force);
    }

    static Writer calls(Path file, Record record, Data data, Sync sync) throws IOException, Unavailable {
        if (!System.getProperty("os.name").equals("Linux")) {
            throw new Unavailable("these calls are Linux's: measure on Linux");
        }
        int fd = Calls.open(file);
        if (sync == Sync.RWF_DSYNC) {
            return data == Data.CRITICAL ? new CriticalFlagged(fd, record) : new PlainFlagged(fd, record);
        }
        Writer pwrite = switch (data) {
            case NATIVE -> new Pwrite(fd, record);
            case CRITICAL -> new CriticalPwrite(fd, record);
            case HEAP -> new HeapPwrite(fd, record);
        };
        if (sync == Sync.NONE) {
            return pwrite;
        }
        return data == Data.CRITICAL ? new CriticalDatasync(fd, record, pwrite) : new Datasync(fd, record, pwrite);
    }

    /** The C library's functions, bound once. */
    private static final class Calls {
        private static final Linker LINKER = Linker.nativeLinker();
        private static final Linker.Option ERRNO = Linker.Option.captureCallState("errno");
        private static final VarHandle ERRNO_OF = Linker.Option.captureStateLayout()
                .varHandle(MemoryLayout.PathElement.groupElement("errno"));

        private static final FunctionDescriptor PWRITE =
                FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
        private static final FunctionDescriptor PWRITEV2 =
                FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG, JAVA_INT);
        private static final FunctionDescriptor OF_DESCRIPTOR = FunctionDescriptor.of(JAVA_INT, JAVA_INT);

        static final MethodHandle PLAIN_PWRITE = bind("pwrite", PWRITE, ERRNO);
        static final MethodHandle CRITICAL_PWRITE = bind("pwrite", PWRITE, ERRNO, Linker.Option.critical(false));
        static final MethodHandle HEAP_PWRITE = bind("pwrite", PWRITE, ERRNO, Linker.Option.critical(true));
        static final MethodHandle PLAIN_PWRITEV2 = bind("pwritev2", PWRITEV2, ERRNO);
        static final MethodHandle CRITICAL_PWRITEV2 = bind("pwritev2", PWRITEV2, ERRNO, Linker.Option.critical(false));
        static final MethodHandle PLAIN_FDATASYNC = bind("fdatasync", OF_DESCRIPTOR, ERRNO);
        static final MethodHandle CRITICAL_FDATASYNC =
                bind("fdatasync", OF_DESCRIPTOR, ERRNO, Linker.Option.critical(false));
        private static final MethodHandle CLOSE = bind("close", OF_DESCRIPTOR, ERRNO);
        private static final MethodHandle OPEN = bind("open", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), ERRNO,
                Linker.Option.firstVariadicArg(2));

        private static MethodHandle bind(String name, FunctionDescriptor descriptor, Linker.Option... options) {
            MemorySegment function = LINKER.defaultLookup().find(name)
                    .orElseThrow(() -> new IllegalStateException("the C library has no " + name));
            return LINKER.downcallHandle(function, descriptor, options);
        }

        static int open(Path file) throws IOException {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
                int descriptor = (int) OPEN.invokeExact(state, arena.allocateFrom(file.toString()), O_RDWR);
                if (descriptor < 0) {
                    throw failed("open", state);
                }
                return descriptor;
            } catch (IOException e) {
                throw e;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }

        static void close(int descriptor) throws IOException {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
                if ((int) CLOSE.invokeExact(state, descriptor) != 0) {
                    throw failed("close", state);
                }
            } catch (IOException e) {
                throw e;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }

        static IOException failed(String call, MemorySegment state) {
            return new IOException(call + " failed: errno " + (int) ERRNO_OF.get(state, 0L));
        }
    }

    /**
     * A descriptor and a record. Each row is a class of its own, with its handles as constants, so that no row is compiled
     * for what another one did.
     */
    private abstract static class Call implements Writer {
        final Arena arena = Arena.ofConfined();
        final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
        final int descriptor;
        final long bytes;

        Call(int descriptor, Record record) {
            this.descriptor = descriptor;
            this.bytes = record.bytes();
        }

        /** The record outside the heap. */
        final MemorySegment outside(Record record) {
            return arena.allocate(bytes, PAGE_BYTES).copyFrom(MemorySegment.ofArray(record.heap));
        }

        final void check(String call, long written) throws IOException {
            if (written < 0) {
                throw Calls.failed(call, state);
            }
            Writer.whole(written, bytes);
        }

        final void checkSync(int code) throws IOException {
            if (code != 0) {
                throw Calls.failed("fdatasync", state);
            }
        }

        @Override
        public void close() throws IOException {
            arena.close();
            Calls.close(descriptor);
        }
    }

    private static final class Pwrite extends Call {
        private final MemorySegment record;

        Pwrite(int descriptor, Record record) {
            super(descriptor, record);
            this.record = outside(record);
        }

        @Override
        public void write(long position) throws IOException {
            long written;
            try {
                written = (long) Calls.PLAIN_PWRITE.invokeExact(state, descriptor, record, bytes, position);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            check("pwrite", written);
        }
    }

    private static final class CriticalPwrite extends Call {
        private final MemorySegment record;

        CriticalPwrite(int descriptor, Record record) {
            super(descriptor, record);
            this.record = outside(record);
        }

        @Override
        public void write(long position) throws IOException {
            long written;
            try {
                written = (long) Calls.CRITICAL_PWRITE.invokeExact(state, descriptor, record, bytes, position);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            check("pwrite", written);
        }
    }

    private static final class HeapPwrite extends Call {
        private final MemorySegment record;

        HeapPwrite(int descriptor, Record record) {
            super(descriptor, record);
            this.record = MemorySegment.ofArray(record.heap);
        }

        @Override
        public void write(long position) throws IOException {
            long written;
            try {
                written = (long) Calls.HEAP_PWRITE.invokeExact(state, descriptor, record, bytes, position);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            check("pwrite", written);
        }
    }

    /** pwrite by another row, whose descriptor this one closes, then fdatasync. */
    private static final class Datasync extends Call {
        private final Writer pwrite;

        Datasync(int descriptor, Record record, Writer pwrite) {
            super(descriptor, record);
            this.pwrite = pwrite;
        }

        @Override
        public void write(long position) throws IOException {
            pwrite.write(position);
            int code;
            try {
                code = (int) Calls.PLAIN_FDATASYNC.invokeExact(state, descriptor);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            checkSync(code);
        }

        @Override
        public void close() throws IOException {
            arena.close();
            pwrite.close();
        }
    }

    private static final class CriticalDatasync extends Call {
        private final Writer pwrite;

        CriticalDatasync(int descriptor, Record record, Writer pwrite) {
            super(descriptor, record);
            this.pwrite = pwrite;
        }

        @Override
        public void write(long position) throws IOException {
            pwrite.write(position);
            int code;
            try {
                code = (int) Calls.CRITICAL_FDATASYNC.invokeExact(state, descriptor);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            checkSync(code);
        }

        @Override
        public void close() throws IOException {
            arena.close();
            pwrite.close();
        }
    }

    /** pwritev2 with RWF_DSYNC. */
    private abstract static class Flagged extends Call {
        /** One struct iovec: the address of the record and its length. */
        final MemorySegment vector = arena.allocate(ADDRESS.byteSize() * 2, ADDRESS.byteAlignment());

        Flagged(int descriptor, Record record) {
            super(descriptor, record);
            vector.set(ADDRESS, 0, outside(record));
            vector.set(JAVA_LONG, ADDRESS.byteSize(), bytes);
        }
    }

    private static final class PlainFlagged extends Flagged {
        PlainFlagged(int descriptor, Record record) {
            super(descriptor, record);
        }

        @Override
        public void write(long position) throws IOException {
            long written;
            try {
                written = (long) Calls.PLAIN_PWRITEV2.invokeExact(state, descriptor, vector, 1, position, RWF_DSYNC);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            check("pwritev2", written);
        }
    }

    private static final class CriticalFlagged extends Flagged {
        CriticalFlagged(int descriptor, Record record) {
            super(descriptor, record);
        }

        @Override
        public void write(long position) throws IOException {
            long written;
            try {
                written = (long) Calls.CRITICAL_PWRITEV2.invokeExact(state, descriptor, vector, 1, position, RWF_DSYNC);
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
            check("pwritev2", written);
        }
    }

    /** A copy into a mapped segment, and msync of the range if asked for. */
    private static final class Segment implements Writer {
        private final Arena arena = Arena.ofConfined();
        private final MemorySegment map;
        private final MemorySegment record;
        private final boolean force;
        private final long bytes;

        Segment(Path file, long fileBytes, Record record, boolean force) throws IOException {
            try (FileChannel channel = Ways.forMapping(file)) {
                this.map = channel.map(FileChannel.MapMode.READ_WRITE, 0, fileBytes, arena);
            }
            this.record = MemorySegment.ofArray(record.heap);
            this.force = force;
            this.bytes = record.bytes();
            for (long at = 0; at < fileBytes; at += PAGE_BYTES) {
                map.set(JAVA_BYTE, at, map.get(JAVA_BYTE, at));
            }
        }

        @Override
        public void write(long position) {
            MemorySegment.copy(record, 0, map, position, bytes);
            if (force) {
                map.asSlice(position, bytes).force();
            }
        }

        @Override
        public void close() {
            arena.close();
        }
    }
}
