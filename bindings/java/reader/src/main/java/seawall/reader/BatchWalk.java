/*
 * Walks the batches of one segment and holds each against the twelve rules of the format.
 *
 * A walk stands in front of a batch and knows what the batch before it demands of it: its LSN, its link and its epoch.
 *
 * Invariant: the walk moves only after a batch that is valid by every rule, or whose header is and whose records nobody reads.
 */
package seawall.reader;

import java.io.IOException;

final class BatchWalk {
    final SegmentHeader segment;
    private final SegmentFile file;
    long offset;
    long lsn;
    int link;
    long epoch;
    private BatchHeader.Kind last;
    long trimLsn;
    long witnessed;
    long acknowledged;

    BatchWalk(SegmentHeader segment, SegmentFile file) {
        this.segment = segment;
        this.file = file;
        offset = segment.dataStart();
        lsn = segment.firstLsn();
        link = segment.link();
        epoch = segment.epoch();
        trimLsn = segment.trimLsn();
        witnessed = segment.firstLsn();
        acknowledged = segment.firstLsn();
    }

    boolean closed() {
        return last == BatchHeader.Kind.CLOSE;
    }

    /** Whether an open mark, a batch and a close mark still fit, so that an opening continues here. */
    boolean hasRoomToResume() {
        return offset + 3L * segment.blockBytes() <= segment.dataEnd();
    }

    /** Checks the batch that should stand here and steps after it. */
    BatchHeader next() throws IOException, Fault.Broken {
        BatchHeader header = header();
        file.body(segment, offset, header);
        stepOver(header);
        return header;
    }

    /** Rules 1 to 10 for the header that should stand here. */
    BatchHeader header() throws IOException, Fault.Broken {
        if (offset + Layout.HEADER_BYTES > segment.dataEnd()) {
            throw new Fault.Broken(Fault.SHORT);
        }
        BatchHeader header = BatchHeader.decode(file.header(offset));
        header.checkPlace(segment, offset);
        checkChain(header);
        header.checkClaims();
        return header;
    }

    /** Steps after the batch of the header that stands here, whatever its records are. */
    void stepOver(BatchHeader header) {
        offset += header.diskBytes(segment.blockBytes());
        lsn = header.end();
        link = header.checksum();
        epoch = header.epoch();
        last = header.kind();
        trimLsn = Layout.later(trimLsn, header.trimLsn());
        witnessed = Layout.later(witnessed, header.durable());
        acknowledged = Layout.later(acknowledged, header.acknowledged());
    }

    /** Rules 7 to 9: whether it follows what was accepted last. */
    private void checkChain(BatchHeader header) throws Fault.Broken {
        boolean opens = header.kind() == BatchHeader.Kind.OPEN;
        boolean epochFits = closed() ? opens && Layout.before(epoch, header.epoch()) : !opens && header.epoch() == epoch;
        if (!epochFits) {
            throw new Fault.Broken(Fault.EPOCH);
        }
        if (header.lsn() != lsn) {
            throw new Fault.Broken(Fault.LSN);
        }
        if (header.link() != link) {
            throw new Fault.Broken(Fault.LINK);
        }
    }

    /** What self-valid headers after this place say of what had been there. */
    record Witnesses(long acknowledged, boolean contradict, long durable) {}

    /**
     * Searches the rest of the segment for batch headers that claim more than what was found.
     *
     * @param older whether the segment is not the last one: all of it was synced before the next was started
     */
    Witnesses witnesses(boolean older) throws IOException {
        long said = lsn;
        for (long at = offset; at + Layout.HEADER_BYTES <= segment.dataEnd(); at += segment.blockBytes()) {
            BatchHeader header = file.selfValid(segment, at);
            if (header == null) {
                continue;
            }
            said = Layout.later(said, header.acknowledged());
            boolean allDurable = older || segment.durability() == Durability.POWER_LOSS;
            long durable = allDurable ? Layout.later(header.durable(), header.acknowledged()) : header.durable();
            if (Layout.before(lsn, durable) || (closed() && Layout.before(epoch, header.epoch()))) {
                return new Witnesses(said, true, durable);
            }
        }
        return new Witnesses(said, false, lsn);
    }

    /** Moves to the first batch of a segment whose header was lost; false if there is none. */
    boolean skipToFirst() throws IOException {
        return skipTo(offset, -1);
    }

    /** Moves to the next batch after this place that is valid by itself and no step back in the log; false if there is none. */
    boolean skipDamage(long limit) throws IOException {
        return skipTo(offset + segment.blockBytes(), limit);
    }

    private boolean skipTo(long start, long limit) throws IOException {
        BatchHeader found = SegmentFile.first(start, segment.dataEnd(), segment.blockBytes(), at -> {
            BatchHeader header = file.selfValid(segment, at);
            boolean further = header != null
                    && !Layout.before(header.lsn(), lsn)
                    && !Layout.before(limit, header.end())
                    && !Layout.before(header.epoch(), epoch);
            return further && file.isIntact(segment, at, header) ? header : null;
        });
        if (found != null) {
            // Whatever was before it; the place is the one it was written for.
            boolean opens = found.kind() == BatchHeader.Kind.OPEN;
            offset = found.offset();
            lsn = found.lsn();
            link = found.link();
            epoch = opens ? found.epoch() - 1 : found.epoch();
            last = opens ? BatchHeader.Kind.CLOSE : null;
        }
        return found != null;
    }
}
