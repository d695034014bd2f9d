/*
 * Decodes the header of a segment, of which a file has two copies: in its first and in its last block.
 *
 *     at  size                                      at  size
 *      0   4   magic "SWLS"                          64   8   number of the segment before, 0 for none
 *      4   2   format version                        72   4   link: header checksum of the last batch before
 *      6   2   block size in bytes                   76   4   copy: 0 or 1
 *      8  16   log identity                          80   2   durability class: 1, 2 or 3
 *     24   8   epoch                                 82   2   zero
 *     32   8   segment number                        84   4   features that a reader must know
 *     40   8   segment size in bytes                 88   8   first segment that may hold records of streams, or 0
 *     48   8   LSN of the first record               96   8   segment from which on cuts are stated, or 0
 *     56   8   first LSN that must be present       104  20   zero
 *                                                   124   4   CRC-32C of bytes 0-123
 */
package seawall.reader;

import java.nio.ByteBuffer;

record SegmentHeader(
        int blockBytes,
        String identity,
        long epoch,
        long number,
        long segmentBytes,
        long firstLsn,
        long trimLsn,
        long previous,
        int link,
        Durability durability,
        long streamsFrom,
        long cutsFrom) {

    /** Reads copy {@code copy}; the number in the file's name and the file's length are held against it by the caller. */
    static SegmentHeader decode(byte[] bytes, int copy) throws Fault.Broken {
        ByteBuffer fields = Layout.envelope(bytes, Layout.SEGMENT_MAGIC);
        int features = fields.getInt(84);
        if (features != 0) {
            throw new Fault.Broken(Fault.FEATURES, Integer.toUnsignedLong(features));
        }
        int code = Short.toUnsignedInt(fields.getShort(80));
        Durability durability = Durability.of(code);
        if (durability == null) {
            throw new Fault.Broken(Fault.CLASS, code);
        }
        SegmentHeader header = new SegmentHeader(
                Short.toUnsignedInt(fields.getShort(6)),
                Layout.identity(bytes),
                fields.getLong(24),
                fields.getLong(32),
                fields.getLong(40),
                fields.getLong(48),
                fields.getLong(56),
                fields.getLong(64),
                fields.getInt(72),
                durability,
                fields.getLong(88),
                fields.getLong(96));
        boolean sound = Layout.isBlock(header.blockBytes)
                && fields.getInt(76) == copy
                && Layout.before(header.previous, header.number)
                && !Layout.before(header.firstLsn, header.trimLsn)
                && !Layout.before(header.number, header.streamsFrom)
                && !Layout.before(header.number, header.cutsFrom)
                && Layout.zero(bytes, 82, 2)
                && Layout.zero(bytes, 104, 20);
        if (!sound) {
            throw new Fault.Broken(Fault.FIELDS);
        }
        return header;
    }

    /** Where the first batch starts. */
    long dataStart() {
        return blockBytes;
    }

    /** Where batches must have ended: the place of the second copy of the header. */
    long dataEnd() {
        return segmentBytes - blockBytes;
    }

    /** The same with another length, for a file that was cut short. */
    SegmentHeader withBytes(long bytes) {
        return new SegmentHeader(
                blockBytes, identity, epoch, number, bytes, firstLsn, trimLsn, previous, link, durability, streamsFrom, cutsFrom);
    }
}
