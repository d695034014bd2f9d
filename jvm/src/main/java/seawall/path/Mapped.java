/*
 * How does a MappedByteBuffer write? By a copy, and msync of the range if it is to be durable.
 *
 * Invariants: every page is touched for writing when the file is opened, so that faults are no part of a write; the mapping
 * is gone after close, because thousands of files are opened one after the other and the collector has nothing to do.
 */
package seawall.path;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** A mapped file. */
final class Mapped implements Writer {
    private static final int PAGE_BYTES = 4096;

    private final MappedByteBuffer map;
    private final byte[] record;
    private final boolean force;

    Mapped(Path file, long bytes, Record record, boolean force) throws IOException {
        try (FileChannel channel = Ways.forMapping(file)) {
            this.map = channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes);
        }
        this.record = record.heap;
        this.force = force;
        for (int at = 0; at < bytes; at += PAGE_BYTES) {
            map.put(at, map.get(at));
        }
    }

    @Override
    public void write(long position) {
        int at = (int) position;
        map.put(at, record);
        if (force) {
            map.force(at, record.length);
        }
    }

    @Override
    public void close() throws IOException {
        // There is no public call that unmaps a buffer; this one is the JDK's own, kept for those who need it.
        try {
            Class<?> unsafe = Class.forName("sun.misc.Unsafe");
            Field one = unsafe.getDeclaredField("theUnsafe");
            one.setAccessible(true);
            Method clean = unsafe.getMethod("invokeCleaner", ByteBuffer.class);
            clean.invoke(one.get(null), map);
        } catch (ReflectiveOperationException e) {
            throw new IOException("cannot unmap", e);
        }
    }
}
