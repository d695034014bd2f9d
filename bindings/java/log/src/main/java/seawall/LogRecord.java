package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * One durable record.
 *
 * @param lsn where it starts
 * @param endLsn where it ends, exclusive: what its append returned
 * @param endsTransaction whether it is the last one of its transaction
 * @param stream the stream that it belongs to, or -1 for a record of the log itself
 * @param sequence its sequence number in its stream, 0 without one
 * @param bytes its bytes, a copy
 */
public record LogRecord(long lsn, long endLsn, boolean endsTransaction, int stream, long sequence, byte[] bytes) {
    /** The stream of a record that belongs to the log itself. */
    public static final int NO_STREAM = -1;

    static final int ENDS_TRANSACTION = 1;

    /** Reads a record by a call that is given memory for one; null if there is none. */
    static LogRecord from(Handle.Using reading) throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment record = arena.allocate(Structs.RECORD);
            if (reading.make(record) == 0) {
                return null;
            }
            try {
                return of(record);
            } finally {
                Native.call(Native.RECORD_FREE, record);
            }
        }
    }

    static LogRecord of(MemorySegment memory) {
        Structs.At record = new Structs.At(memory, Structs.RECORD);
        return new LogRecord(
                record.getLong("lsn"),
                record.getLong("end"),
                (record.getInt("flags") & ENDS_TRANSACTION) != 0,
                record.getInt("stream"),
                record.getLong("seq"),
                record.getPointer("data").reinterpret(record.getLong("bytes")).toArray(ValueLayout.JAVA_BYTE));
    }
}
