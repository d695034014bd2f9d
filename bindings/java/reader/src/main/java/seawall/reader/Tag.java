/*
 * Decodes the tag in front of a record that is not simply one of the log.
 *
 *     stream, 3 bytes | kind, 1 byte | number, 8 bytes
 *
 *     kind  record                                     number
 *      1    of a stream                                its sequence number
 *      2    the same, rewritten                        its sequence number
 *      3    trim of a stream                           the first sequence number that is left; 2^64 - 1 removes it
 *      4    cut of a stream                            the sequence number of the next record
 *      5    state of a stream without records          the sequence number of the next record
 *      6    cut of the log                             the LSN from which on records without a tag are gone
 *      7    all cuts of the log, as pairs of LSNs      0
 */
package seawall.reader;

import java.nio.ByteBuffer;

record Tag(Kind kind, int stream, long number) {
    /** What a tagged record is. */
    enum Kind {
        DATA(true),
        COPY(true),
        STREAM_TRIM(false),
        STREAM_CUT(false),
        STREAM_STATE(false),
        LOG_CUT(false),
        LOG_CUTS(true);

        final boolean hasPayload;

        Kind(boolean hasPayload) {
            this.hasPayload = hasPayload;
        }
    }

    /** The number of a trim that removes its stream. */
    static final long REMOVES = -1;

    /** Reads the tag at {@code at}; null if its kind is not known. */
    static Tag read(ByteBuffer bytes, int at) {
        int word = bytes.getInt(at);
        int code = word >>> 24;
        if (code < 1 || code > Kind.values().length) {
            return null;
        }
        return new Tag(Kind.values()[code - 1], word & 0xFF_FFFF, bytes.getLong(at + 4));
    }
}
