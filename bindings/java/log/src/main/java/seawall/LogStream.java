package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;

/**
 * One ordered sequence of records among many in a log, named by a number below 2^24. It is there with its first record. Safe for any
 * number of threads.
 */
public final class LogStream {
    private final Log log;
    private final int number;

    LogStream(Log log, int number) {
        this.log = log;
        this.number = checked(number);
    }

    static int checked(int number) {
        if (number < 0 || number >= 1 << 24) {
            throw new IllegalArgumentException("the number of a stream is 0 to 2^24 - 1, not " + number);
        }
        return number;
    }

    /**
     * What an append to a stream gave.
     *
     * @param lsn the end of the record in the log, to be committed
     * @param sequence the number of the record in its stream
     */
    public record Appended(long lsn, long sequence) {}

    /** {@return the number of the stream, below 2^24} */
    public int number() {
        return number;
    }

    /**
     * Appends a record, which is in memory and in order then, not yet durable: see {@link Log#commit(long)}.
     *
     * @param record its bytes
     * @return its end in the log and its number in the stream
     * @throws SeawallException as {@link Log#append(byte[])}
     */
    public Appended append(byte[] record) throws SeawallException {
        return append(MemorySegment.ofArray(record));
    }

    /**
     * The same with the bytes between position and limit of a buffer, which stay as they are.
     *
     * @param record the buffer
     * @return its end in the log and its number in the stream
     * @throws SeawallException as {@link Log#append(byte[])}
     */
    public Appended append(ByteBuffer record) throws SeawallException {
        return append(MemorySegment.ofBuffer(record));
    }

    /**
     * The same with the bytes of a segment.
     *
     * @param record the segment
     * @return its end in the log and its number in the stream
     * @throws SeawallException as {@link Log#append(byte[])}
     */
    public Appended append(MemorySegment record) throws SeawallException {
        long[] sequence = new long[1];
        long end = log.appendTo(number, record, MemorySegment.ofArray(sequence));
        return new Appended(end, sequence[0]);
    }

    /**
     * {@return the number of the first record that is left, or that of the next record if there is none}
     *
     * @throws SeawallException the log was closed
     */
    public long first() throws SeawallException {
        return bounds(log.handle(), Native.STREAM_BOUNDS, number)[0];
    }

    /**
     * {@return the number that the next record gets; 0 for a stream that the log does not have}
     *
     * @throws SeawallException the log was closed
     */
    public long next() throws SeawallException {
        return bounds(log.handle(), Native.STREAM_BOUNDS, number)[1];
    }

    /** The numbers of the first record that is left and of the next one, as {@code function} gives them. */
    static long[] bounds(Handle handle, MethodHandle function, int number) throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment first = arena.allocate(ValueLayout.JAVA_LONG);
            MemorySegment next = arena.allocate(ValueLayout.JAVA_LONG);
            handle.call(function, number, first, next);
            return new long[] {first.get(ValueLayout.JAVA_LONG, 0), next.get(ValueLayout.JAVA_LONG, 0)};
        }
    }

    /**
     * Reads one durable record.
     *
     * @param sequence its number
     * @return the record
     * @throws SeawallException it was trimmed, is not there yet, is missing or damaged
     */
    public LogRecord get(long sequence) throws SeawallException {
        return LogRecord.from(record -> log.handle().call(Native.STREAM_GET, number, sequence, record));
    }

    /**
     * Reads the stream from a record on, and waits for more at its end.
     *
     * @param sequence the number of the first record
     * @return a cursor
     * @throws SeawallException the record was trimmed, or lies past the next one
     */
    public Cursor read(long sequence) throws SeawallException {
        return Cursor.of((arena, cursor) -> log.handle().call(Native.STREAM_READ, number, sequence, cursor));
    }

    /**
     * Trims the records before a number; durable when everything before the returned LSN is.
     *
     * @param sequence the number of the first record that is to be left
     * @return the LSN to commit
     * @throws SeawallException it lies past the next record; as {@link Log#append(byte[])}
     */
    public long trim(long sequence) throws SeawallException {
        return log.handle().call(Native.STREAM_TRIM, number, sequence);
    }

    /**
     * Cuts off a record and all after it: the next record gets its number. Durable when everything before the returned LSN is.
     *
     * @param sequence the number of the first record that is to go
     * @return the LSN to commit
     * @throws SeawallException it was trimmed, or lies past the next record; as {@link Log#append(byte[])}
     */
    public long truncate(long sequence) throws SeawallException {
        return log.handle().call(Native.STREAM_TRUNCATE, number, sequence);
    }

    /**
     * Removes the stream with all its records. Durable when everything before the returned LSN is.
     *
     * @return the LSN to commit
     * @throws SeawallException as {@link Log#append(byte[])}
     */
    public long remove() throws SeawallException {
        return log.handle().call(Native.STREAM_REMOVE, number);
    }
}
