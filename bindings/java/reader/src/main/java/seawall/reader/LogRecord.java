package seawall.reader;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.OptionalLong;

/**
 * One record.
 *
 * @param lsn where it starts
 * @param endLsn where it ends, exclusive: what its append returned
 * @param endsTransaction whether it is the last one of its transaction
 * @param stream the stream that it belongs to, or -1 for a record of the log itself
 * @param sequence its sequence number in its stream; empty for a record of the log itself
 * @param time when its batch was gathered, by the clock of the machine; null if unknown
 * @param payload its bytes, read-only
 */
public record LogRecord(
        long lsn, long endLsn, boolean endsTransaction, int stream, OptionalLong sequence, Instant time, ByteBuffer payload) {

    /** {@return a copy of the bytes} */
    public byte[] bytes() {
        byte[] copy = new byte[payload.remaining()];
        payload.duplicate().get(copy);
        return copy;
    }
}
