package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Records, trims, truncations and removals of streams that become durable together or not at all. For the thread that builds it. */
public final class Transaction {
    private static final int APPEND = 0;
    private static final int TRIM = 1;
    private static final int TRUNCATE = 2;
    private static final int REMOVE = 3;

    /** The fields of a part of the library. */
    private record Part(MemorySegment data, long bytes, int stream, int kind) {}

    /**
     * Builds a transaction.
     *
     * @param <E> what it may throw beside the exceptions of the log
     */
    @FunctionalInterface
    public interface Body<E extends Exception> {
        /**
         * Adds the parts.
         *
         * @param transaction to what
         * @throws E then nothing is done
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
        copy.asSlice(0, record.byteSize()).copyFrom(record);
        parts.add(new Part(copy, record.byteSize(), stream, APPEND));
        return this;
    }

    /**
     * Trims the records of a stream before a sequence number, as {@link LogStream#trim}.
     *
     * @param stream the number of the stream
     * @param sequence of the first record that stays
     * @return this transaction
     */
    public Transaction trim(int stream, long sequence) {
        return change(TRIM, stream, sequence);
    }

    /**
     * Cuts off a record of a stream and all after it, as {@link LogStream#truncate}.
     *
     * @param stream the number of the stream
     * @param sequence of the first record that goes
     * @return this transaction
     */
    public Transaction truncate(int stream, long sequence) {
        return change(TRUNCATE, stream, sequence);
    }

    /**
     * Removes a stream with all its records, as {@link LogStream#remove}.
     *
     * @param stream the number of the stream
     * @return this transaction
     */
    public Transaction remove(int stream) {
        return change(REMOVE, stream, 0);
    }

    private Transaction change(int kind, int stream, long sequence) {
        parts.add(new Part(MemorySegment.NULL, sequence, stream, kind));
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
            Part part = parts.get(i);
            at.set(ValueLayout.ADDRESS, Structs.offset(Structs.PART, "data"), part.data());
            at.set(ValueLayout.JAVA_LONG, Structs.offset(Structs.PART, "bytes"), part.bytes());
            at.set(ValueLayout.JAVA_INT, Structs.offset(Structs.PART, "stream"), part.stream());
            at.set(ValueLayout.JAVA_INT, Structs.offset(Structs.PART, "kind"), part.kind());
        }
        return array;
    }
}
