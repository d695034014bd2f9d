/*
 * Gathers the records of a transaction, outside the log, until all are there.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Records that become durable together or not at all. For the thread that builds it. */
public final class Transaction {
    private record Part(MemorySegment bytes, int stream) {}

    /**
     * Builds a transaction.
     *
     * @param <E> what it may throw beside the exceptions of the log
     */
    @FunctionalInterface
    public interface Body<E extends Exception> {
        /**
         * Appends the records.
         *
         * @param transaction to what
         * @throws E then nothing is appended
         */
        void build(Transaction transaction) throws E;
    }

    private final Arena arena;
    private final List<Part> parts = new ArrayList<>();

    Transaction(Arena arena) {
        this.arena = arena;
    }

    /**
     * Adds a record, which is copied.
     *
     * @param record its bytes
     * @return this transaction
     */
    public Transaction append(byte[] record) {
        return append(LogRecord.NO_STREAM, MemorySegment.ofArray(record));
    }

    /**
     * The same with the bytes between position and limit of a buffer, which stay as they are.
     *
     * @param record the buffer
     * @return this transaction
     */
    public Transaction append(ByteBuffer record) {
        return append(LogRecord.NO_STREAM, MemorySegment.ofBuffer(record));
    }

    /**
     * Adds a record of a stream, which is copied.
     *
     * @param stream the number of the stream
     * @param record its bytes
     * @return this transaction
     */
    public Transaction append(int stream, byte[] record) {
        return append(stream, MemorySegment.ofArray(record));
    }

    /**
     * Adds a record, which is copied.
     *
     * @param stream the number of its stream, or {@link LogRecord#NO_STREAM}
     * @param record its bytes
     * @return this transaction
     */
    public Transaction append(int stream, MemorySegment record) {
        MemorySegment copy = arena.allocate(Math.max(1, record.byteSize()));
        parts.add(new Part(copy.asSlice(0, record.byteSize()).copyFrom(record), stream));
        return this;
    }

    int count() {
        return parts.size();
    }

    /** The parts as the library takes them. */
    MemorySegment array() {
        long size = Structs.PART.byteSize();
        MemorySegment array = arena.allocate(Structs.PART, Math.max(1, parts.size()));
        for (int i = 0; i < parts.size(); i++) {
            MemorySegment at = array.asSlice(i * size, size);
            at.set(ValueLayout.ADDRESS, Structs.offset(Structs.PART, "data"), parts.get(i).bytes());
            at.set(ValueLayout.JAVA_LONG, Structs.offset(Structs.PART, "bytes"), parts.get(i).bytes().byteSize());
            at.set(ValueLayout.JAVA_INT, Structs.offset(Structs.PART, "stream"), parts.get(i).stream());
            at.set(ValueLayout.JAVA_INT, Structs.offset(Structs.PART, "reserved"), 0);
        }
        return array;
    }
}
