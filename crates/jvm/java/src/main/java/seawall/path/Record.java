/*
 * The record that is written: incompressible bytes, on the heap and outside it, because some devices compress.
 */
package seawall.path;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;

/** A record. */
final class Record {
    /** On the heap. */
    final byte[] heap;

    Record(int bytes) {
        heap = new byte[bytes];
        new SplittableRandom(1).nextBytes(heap);
    }

    int bytes() {
        return heap.length;
    }

    /** A copy outside the heap that starts at a multiple of {@code alignment}, a power of two. */
    ByteBuffer direct(int alignment) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(heap.length + alignment - 1).alignedSlice(alignment);
        buffer.limit(heap.length);
        ByteBuffer own = buffer.slice();
        own.put(heap).clear();
        return own;
    }
}
