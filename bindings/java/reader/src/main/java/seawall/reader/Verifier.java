/*
 * Reads every batch of a log and reports each damaged place.
 *
 * After a damaged batch the walk goes on at the next batch that is valid by itself and no step back in the log, so that one bad
 * block costs one batch. A segment without a header is walked from its first intact batch.
 *
 * Invariant: damage to one segment costs no record of another.
 */
package seawall.reader;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import seawall.reader.LogFormatException.Reason;

final class Verifier {
    private static final long NO_LIMIT = -1;

    /**
     * A file that holds, or held, a part of the log.
     *
     * @param header made up from the first intact batch if the file lost its own; null if there is no batch to walk
     * @param wrong what is wrong with it as a whole, or null
     */
    private record Part(Segments.File file, SegmentHeader header, String wrong) {
        boolean madeUp() {
            return file.header == null;
        }

        /** Whether it is walked from its first batch on. */
        boolean isWhole() {
            return header != null && (!madeUp() || file.firstBatchAt == header.dataStart());
        }
    }

    private final Segments found;
    private final List<Damage> damage = new ArrayList<>();
    /** Segments after the newest with a header that lost theirs. */
    private final List<Part> lostBehind = new ArrayList<>();
    private SegmentHeader newest;
    private long segments;
    private long spares;
    private long first;
    private long end;
    private long records;
    private long bytes;
    private long batches;
    private long epoch;
    private long witnessed;
    private Tail tail;

    Verifier(Segments found) {
        this.found = found;
    }

    Report run() throws IOException {
        for (Segments.File file : found.files) {
            newest = file.header != null ? file.header : newest;
        }
        boolean headerLeft = newest != null;
        newest = headerLeft ? newest : madeUpFromAny();
        List<Part> parts = parts();
        ArrayDeque<Part> chain = chain(parts);
        epoch = newest.epoch();
        Part oldest = chain.peekFirst();
        end = oldest == null ? 0 : oldest.header.firstLsn();
        for (int i = 0; i < parts.size(); i++) {
            Part part = parts.get(i);
            if (part.wrong != null) {
                long at = part.file.damage == null ? 0 : part.file.damage.offset();
                damage.add(new Damage(part.file.path, at, part.header == null ? end : part.header.firstLsn(), part.wrong));
            }
            if (part == chain.peekFirst()) {
                chain.removeFirst();
                segment(part, i + 1 < parts.size() ? parts.get(i + 1) : null, chain.peekFirst());
            }
        }
        for (Part part : lostBehind) {
            behind(part);
        }
        if (oldest != null && Layout.before(first, oldest.header.firstLsn())) {
            missingFront(oldest);
        }
        damage.sort(Comparator.comparing(Damage::path).thenComparing(Damage::offset, Long::compareUnsigned));
        return new Report(
                newest.identity(),
                epoch,
                newest.blockBytes(),
                segments,
                spares,
                first,
                end,
                records,
                bytes,
                batches,
                headerLeft ? newest.durability() : null,
                tail == null ? new Tail(Tail.Kind.TORN, end, end) : tail,
                witnessed,
                List.copyOf(damage),
                List.copyOf(found.foreign));
    }

    /** Every file that holds, or held, a part of the log, up to the newest with a header; counts those that wait to be started. */
    private List<Part> parts() throws IOException {
        List<Part> parts = new ArrayList<>();
        boolean waiting = false;
        for (Segments.File file : found.files) {
            if (file.isStarted()) {
                parts.add(new Part(file, file.header, null));
                continue;
            }
            boolean misfit = file.damage != null;
            boolean behind = !misfit && Layout.before(newest.number(), file.number);
            if (behind && waiting) {
                spares++;
                continue;
            }
            SegmentHeader header = file.header != null ? shortened(file) : firstBatch(file, like(file));
            Part part = new Part(file, header, misfit ? file.damage.what() : StoredLog.LOST_HEADER);
            if (!behind) {
                parts.add(part);
            } else if (header != null || holdsHeader(file, like(file))) {
                lostBehind.add(part);
            } else {
                // Segments are started in order: after one that was not, there is none.
                waiting = true;
                spares++;
            }
        }
        return parts;
    }

    /** A segment after the newest with a header that had been started: it lost its own. */
    private void behind(Part part) throws IOException {
        damage.add(new Damage(part.file.path, 0, end, part.wrong));
        tail = null;
        if (part.header != null) {
            segments++;
            segment(part, null, null);
        }
    }

    /** A header for a file that is shorter or longer than its header says: as far as the file goes. */
    private static SegmentHeader shortened(Segments.File file) {
        long there = wholeBlocks(file, file.header.blockBytes());
        return Layout.before(there, file.header.segmentBytes()) ? file.header.withBytes(there) : file.header;
    }

    private SegmentHeader like(Segments.File file) {
        return made(newest.blockBytes(), file, newest.identity(), newest.epoch(), newest.firstLsn(), newest.trimLsn(), 0, newest.durability());
    }

    private static SegmentHeader made(int block, Segments.File file, BatchHeader first, Durability durability) {
        return made(block, file, first.identity(), first.epoch(), first.lsn(), first.trimLsn(), first.link(), durability);
    }

    private static SegmentHeader made(
            int block, Segments.File file, String identity, long epoch, long lsn, long trim, int link, Durability durability) {
        long bytes = file.damage == null ? file.bytes : wholeBlocks(file, block);
        return new SegmentHeader(block, identity, epoch, file.number, bytes, lsn, trim, 0, link, durability, 0, 0);
    }

    /** As far as a file of another length than its header says goes: batches end before the last block. */
    private static long wholeBlocks(Segments.File file, long block) {
        return (file.bytes + block - 1) / block * block + block;
    }

    private static boolean holdsHeader(Segments.File file, SegmentHeader like) throws IOException {
        try (SegmentFile open = new SegmentFile(file.path)) {
            return SegmentFile.first(like.dataStart(), file.bytes, like.blockBytes(), at -> open.selfValid(like, at)) != null;
        }
    }

    /** The header of a segment that lost its own, as its first intact batch tells it; null if it has none. */
    private static SegmentHeader firstBatch(Segments.File file, SegmentHeader like) throws IOException {
        try (SegmentFile open = new SegmentFile(file.path)) {
            BatchHeader first = SegmentFile.first(like.dataStart(), file.bytes, like.blockBytes(), at -> {
                BatchHeader header = open.selfValid(like, at);
                return header != null && open.isIntact(like, at, header) ? header : null;
            });
            file.firstBatchAt = first == null ? 0 : first.offset();
            return first == null ? null : made(like.blockBytes(), file, first, like.durability());
        }
    }

    /** For a log none of whose segments has a header: what the newest intact batch tells, in the strictest class. */
    private SegmentHeader madeUpFromAny() throws IOException {
        for (int i = found.files.size() - 1; i >= 0; i--) {
            Segments.File file = found.files.get(i);
            try (SegmentFile open = new SegmentFile(file.path)) {
                SegmentHeader made = SegmentFile.first(
                        Layout.SMALLEST_BLOCK, file.bytes, Layout.SMALLEST_BLOCK, at -> madeUpFrom(open, file, at));
                if (made != null) {
                    return made;
                }
            }
        }
        StoredLog.refuseOrphans(found);
        for (Segments.File file : found.files) {
            if (file.damage != null) {
                throw LogFormatException.damaged(file.damage);
            }
        }
        throw LogFormatException.of(Reason.NOT_A_LOG, found.dir, "it holds no log");
    }

    private static SegmentHeader madeUpFrom(SegmentFile open, Segments.File file, long at) throws IOException {
        BatchHeader header = open.decoded(at);
        for (int block = Layout.LARGEST_BLOCK; header != null && block >= Layout.SMALLEST_BLOCK; block /= 2) {
            SegmentHeader made = made(block, file, header, Durability.POWER_LOSS);
            if (at % block == 0 && open.selfValid(made, at) != null && open.isIntact(made, at, header)) {
                return made;
            }
        }
        return null;
    }

    /** The parts that are walked, oldest first: reports those that are missing, leaves out those that a recovery gave up. */
    private ArrayDeque<Part> chain(List<Part> parts) throws IOException {
        ArrayDeque<Part> chain = new ArrayDeque<>();
        for (int i = parts.size() - 1; i >= 0; i--) {
            Part part = parts.get(i);
            if (part.header != null && (chain.isEmpty() || joins(part, chain.peekFirst()))) {
                chain.addFirst(part);
            }
        }
        segments += chain.size();
        return chain;
    }

    private boolean joins(Part part, Part newer) throws LogFormatException {
        SegmentHeader header = part.header;
        SegmentHeader next = newer.header;
        if (!header.identity().equals(next.identity())) {
            throw LogFormatException.of(Reason.FOREIGN_SEGMENT, part.file.path, "it belongs to another log than the newest segment");
        }
        // A segment that lost its header does not name the one before it.
        boolean skipped = !newer.madeUp() && Layout.before(next.previous(), header.number());
        if (skipped && part.madeUp() || header.firstLsn() == next.firstLsn() && (skipped || newer.madeUp())) {
            return false;
        }
        String what = null;
        if (!newer.madeUp() && header.number() != next.previous()) {
            boolean there = found.files.stream().anyMatch(file -> file.number == next.previous());
            what = there ? null : "segment " + Long.toUnsignedString(next.previous()) + " is missing after this one";
        } else if (Layout.before(next.firstLsn(), header.firstLsn()) || header.blockBytes() != next.blockBytes()) {
            what = "its header contradicts the one after it";
        }
        if (what != null) {
            damage.add(new Damage(part.file.path, 0, header.firstLsn(), what));
        }
        return true;
    }

    /**
     * Walks one part.
     *
     * @param following the file after it, whatever is left of that, or null
     * @param next the next part that is walked, or null
     */
    private void segment(Part part, Part following, Part next) throws IOException {
        boolean adjoins = next != null
                && (next.madeUp() ? next.isWhole() && following == next : next.header.previous() == part.file.number);
        try (SegmentFile open = new SegmentFile(part.file.path)) {
            BatchWalk walk = new BatchWalk(part.header, open);
            boolean atStart = !part.madeUp() || walk.skipToFirst();
            while (atStart) {
                if (next != null && next.header.link() == walk.link && !Layout.before(walk.lsn, next.header.firstLsn())) {
                    break;
                }
                try {
                    count(walk.next());
                } catch (Fault.Broken broken) {
                    if (!goesOn(part, following == null, adjoins ? next : null, next, walk, broken.fault)) {
                        break;
                    }
                }
            }
            first = Layout.later(first, walk.trimLsn);
            epoch = Layout.later(epoch, walk.epoch);
            witnessed = Layout.later(witnessed, walk.witnessed);
            end = walk.lsn;
            if (following == null && walk.closed()) {
                tail = new Tail(Tail.Kind.CLEAN, end, end);
            }
        }
    }

    private void count(BatchHeader header) {
        batches++;
        records += header.records();
        bytes += header.bodyLength() - header.records() * Layout.RECORD_HEAD_BYTES;
    }

    /** Judges a place without a valid batch; whether the walk goes on after it. */
    private boolean goesOn(Part part, boolean isLast, Part adjoining, Part next, BatchWalk walk, Fault fault) throws IOException {
        boolean missing;
        if (adjoining != null) {
            missing = Layout.before(walk.lsn, adjoining.header.firstLsn());
        } else {
            BatchWalk.Witnesses said = walk.witnesses(!isLast);
            missing = said.contradict();
            if (!missing && Layout.before(walk.lsn, said.acknowledged())) {
                tail = new Tail(Tail.Kind.LOST, walk.lsn, said.acknowledged());
            }
        }
        if (!missing) {
            if (adjoining != null) {
                report(part, walk, "the chain to segment " + Long.toUnsignedString(adjoining.file.number) + " is broken: " + fault.text);
            }
            return false;
        }
        report(part, walk, fault.text);
        return walk.skipDamage(next == null ? NO_LIMIT : next.header.firstLsn());
    }

    private void report(Part part, BatchWalk walk, String what) {
        damage.add(new Damage(part.file.path, walk.offset, walk.lsn, what));
    }

    private void missingFront(Part oldest) {
        String name = Layout.segmentName(oldest.header.previous());
        boolean known = damage.stream().anyMatch(place -> place.path().endsWith(name));
        if (!known) {
            String what = oldest.header.previous() == 0
                    ? "what lies before this segment is missing"
                    : "segment " + Long.toUnsignedString(oldest.header.previous()) + " before this one is missing";
            damage.add(new Damage(oldest.file.path, 0, first, what));
        }
    }
}
