/*
 * Decodes the header of a batch: what one write to the disk carried.
 *
 *     at  size                                      at  size
 *      0   4   magic "SWLB"                          72   4   length of the records in bytes
 *      4   2   format version                        76   4   number of records
 *      6   2   kind: 1 records, 2 mark, 3 close,     80   4   link: header checksum of the batch before
 *              4 open                                84   4   CRC-32C of the records and the padding
 *      8  16   log identity                          88   4   bytes between the acknowledged LSN and this one
 *     24   8   epoch                                 92   2   flags: 1 some record has a tag, 2 cuts the log
 *     32   8   segment number                        94   2   zero
 *     40   8   offset of this batch in its segment   96   8   time, microseconds since 1970, 0 unknown
 *     48   8   LSN of the first record              104  20   zero
 *     56   8   durable LSN when it was issued       124   4   CRC-32C of bytes 0-123
 *     64   8   first LSN that must be present
 */
package seawall.reader;

import java.nio.ByteBuffer;

record BatchHeader(
        Kind kind,
        String identity,
        long epoch,
        long segment,
        long offset,
        long lsn,
        long durable,
        long acknowledged,
        long trimLsn,
        int bodyBytes,
        long records,
        int link,
        int bodyChecksum,
        boolean tagged,
        boolean cuts,
        long timeMicros,
        int checksum) {

    /** What a batch is for. */
    enum Kind {
        RECORDS,
        MARK,
        CLOSE,
        OPEN
    }

    private static final int TAGGED = 1;
    private static final int CUTS = 2;
    /** Stands for any distance from here on. */
    private static final long FAR = 0xFFFF_FFFFL;

    /** Rules 1 to 3 and 5, and that the acknowledged LSN can be computed. */
    static BatchHeader decode(byte[] bytes) throws Fault.Broken {
        ByteBuffer fields = Layout.envelope(bytes, Layout.BATCH_MAGIC);
        int kind = Short.toUnsignedInt(fields.getShort(6));
        int flags = Short.toUnsignedInt(fields.getShort(92));
        boolean known = kind >= 1
                && kind <= Kind.values().length
                && flags <= (TAGGED | CUTS)
                // What cuts the log is a record with a tag.
                && flags != CUTS
                && Layout.zero(bytes, 94, 2)
                && Layout.zero(bytes, 104, 20);
        if (!known) {
            throw new Fault.Broken(Fault.FIELDS);
        }
        long lsn = fields.getLong(48);
        long durable = fields.getLong(56);
        int bodyBytes = fields.getInt(72);
        if (Layout.before(lsn + Integer.toUnsignedLong(bodyBytes), lsn)) {
            throw new Fault.Broken(Fault.FIELDS);
        }
        return new BatchHeader(
                Kind.values()[kind - 1],
                Layout.identity(bytes),
                fields.getLong(24),
                fields.getLong(32),
                fields.getLong(40),
                lsn,
                durable,
                acknowledged(lsn, durable, Integer.toUnsignedLong(fields.getInt(88))),
                fields.getLong(64),
                bodyBytes,
                Integer.toUnsignedLong(fields.getInt(76)),
                fields.getInt(80),
                fields.getInt(84),
                (flags & TAGGED) != 0,
                (flags & CUTS) != 0,
                fields.getLong(96),
                fields.getInt(Layout.CHECKSUM_AT));
    }

    private static long acknowledged(long lsn, long durable, long behind) throws Fault.Broken {
        if (behind == FAR) {
            // A distance that could have been stated is stated; no more is claimed than what is durable.
            if (Layout.before(lsn, durable) || Layout.before(lsn - durable, FAR)) {
                throw new Fault.Broken(Fault.CLAIMS);
            }
            return durable;
        }
        if (Layout.before(lsn, behind)) {
            throw new Fault.Broken(Fault.CLAIMS);
        }
        return lsn - behind;
    }

    /** The length of the records as it is meant: without sign. */
    long bodyLength() {
        return Integer.toUnsignedLong(bodyBytes);
    }

    /** Where the batch ends in the log. */
    long end() {
        return lsn + bodyLength();
    }

    /** Header, records and padding. */
    long diskBytes(int blockBytes) {
        long bytes = Layout.HEADER_BYTES + bodyLength();
        return (bytes + blockBytes - 1) / blockBytes * blockBytes;
    }

    /** Rules 4 and 6: whether it was written for this place and ends before the last block. */
    void checkPlace(SegmentHeader in, long at) throws Fault.Broken {
        if (!identity.equals(in.identity()) || segment != in.number() || offset != at) {
            throw new Fault.Broken(Fault.PLACE);
        }
        long bytes = diskBytes(in.blockBytes());
        if (bytes > Layout.BATCH_BYTES_MAX || bytes > in.dataEnd() - at) {
            throw new Fault.Broken(Fault.LENGTH);
        }
    }

    /** Rule 10: whether it claims only what can have been known. */
    void checkClaims() throws Fault.Broken {
        if (Layout.before(acknowledged, durable) || Layout.before(lsn, acknowledged) || Layout.before(lsn, trimLsn)) {
            throw new Fault.Broken(Fault.CLAIMS);
        }
    }
}
