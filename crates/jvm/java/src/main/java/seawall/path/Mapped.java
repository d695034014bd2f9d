/*
 * Writes through a MappedByteBuffer: a copy, and msync of the range if the row is durable.
 *
 * Invariants: every page is touched for writing when the file is opened, so that faults are no part of a write; mappings
 * that were closed are given back between blocks, because only the collector can unmap a buffer, and a loop that allocates
 * nothing never calls it.
 */
package seawall.path;

import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** A mapped file. */
final class Mapped implements Writer {
    private static final int PAGE_BYTES = 4096;
    /** Linux allows a process 65,530 mappings. */
    private static final int CLOSED_MAX = 16_384;

    /** Mappings that wait for the collector. */
    private static int closed;

    private final MappedByteBuffer map;
    private final byte[] record;
    private final boolean force;

    Mapped(Path file, long bytes, Record record, boolean force) throws IOException {
        release(CLOSED_MAX);
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
    public void close() {
        closed++;
    }

    /** Gives closed mappings back once there are {@code most} of them; called where nothing is timed. */
    static void release(int most) {
        if (closed >= most) {
            closed = 0;
            System.gc();
        }
    }
}
