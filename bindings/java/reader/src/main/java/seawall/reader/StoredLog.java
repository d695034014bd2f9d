/*
 * Opens the log in a directory for reading: decides where it ends, what of it is cut, and where the records of its streams lie.
 *
 *     the first place of the newest segment where no valid batch stands
 *       nothing behind it claims more          torn, or clean if the last batch is a close mark
 *       more was acknowledged, but never       lost: the durability class of the log permits that
 *         said to be durable
 *       more was durable                       damaged: refused
 *
 * Invariants: nothing is changed; every record that is handed out lies in a batch that is valid by all rules of the format; batches of
 * which nothing is wanted, those in front of the first LSN among them, are stepped over by their headers, as by the library.
 */
package seawall.reader;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.LongStream;
import seawall.reader.LogFormatException.Reason;

/**
 * A log that was written by Seawall, opened for reading.
 *
 * <p>Files are read through the page cache of the operating system. After a failed sync that can show what the disk never got;
 * {@code seawall log verify} and an opening by the library read past it.
 *
 * <p>Not safe for use by several threads at once; open one for each.
 */
public final class StoredLog implements AutoCloseable {
    static final String LOST_HEADER = "both copies of the segment header are damaged";

    /** Where a batch lies. */
    private record Batch(Segments.File file, long offset, BatchHeader header) {}

    private final Path dir;
    private final List<Segments.File> members;
    private final SegmentHeader newest;
    private final long first;
    private final long end;
    private final Tail tail;
    private final Cuts cuts = new Cuts();
    /** Null until they are asked for. */
    private TreeMap<Integer, StoredStream> streams;
    /** The first of {@link #members} whose tagged batches are known. */
    private int walked;
    private final TreeMap<Long, Batch> tagged = new TreeMap<>(Long::compareUnsigned);

    /**
     * Opens a log that no process has open, and judges its end as the next opening for writing will.
     *
     * @param dir its directory
     * @return the log
     * @throws LogFormatException the directory holds no log, or one that is damaged or of another format
     * @throws IOException a file could not be read
     */
    public static StoredLog open(Path dir) throws IOException {
        return new StoredLog(dir, false);
    }

    /**
     * Opens a log that a process may be writing: up to what its batches state as acknowledged, which is all but the last batch.
     *
     * @param dir its directory
     * @return the log as it is now
     * @throws LogFormatException the directory holds no log, or one that is damaged or of another format; also if the writer
     *     trimmed it meanwhile: then try again
     * @throws IOException a file could not be read
     */
    public static StoredLog openWhileWritten(Path dir) throws IOException {
        return new StoredLog(dir, true);
    }

    /**
     * Reads all of a log that no process has open, and reports every damaged place.
     *
     * @param dir its directory
     * @return what was found; damage is no exception here
     * @throws LogFormatException the directory holds no log, or one of another format
     * @throws IOException a file could not be read
     */
    public static Report verify(Path dir) throws IOException {
        return new Verifier(Segments.list(dir)).run();
    }

    private StoredLog(Path dir, boolean written) throws IOException {
        this.dir = dir;
        Segments found = Segments.list(dir);
        for (Segments.File file : found.files) {
            if (file.damage != null) {
                throw LogFormatException.damaged(file.damage);
            }
        }
        Segments.File last = found.newest();
        if (last == null) {
            refuseOrphans(found);
            throw LogFormatException.of(Reason.NOT_A_LOG, dir, "it holds no log");
        }
        List<Segments.File> behind = found.files.subList(found.files.indexOf(last) + 1, found.files.size());
        for (Segments.File file : found.files) {
            if (!file.isStarted() && Layout.before(file.number, last.number)) {
                throw file.damaged(0, 0, LOST_HEADER);
            }
        }
        members = found.chain();
        newest = last.header;
        try (SegmentFile file = new SegmentFile(last.path)) {
            BatchWalk walk = new BatchWalk(newest, file);
            Fault fault = walkToEnd(last, walk);
            tail = written ? null : judge(last, walk, fault, behind);
            end = written ? walk.acknowledged : walk.lsn;
            first = walk.trimLsn;
        }
        Segments.File oldest = members.get(0);
        if (Layout.before(first, oldest.header.firstLsn())) {
            String before = Long.toUnsignedString(oldest.header.previous());
            throw oldest.damaged(0, first, "segment " + before + " before this one is missing");
        }
        walked = members.size() - 1;
        replay(cutsFrom(), BatchHeader::cuts, new TreeMap<>(), cuts);
    }

    /** Walks the newest segment; gives why no further batch is valid. */
    private Fault walkToEnd(Segments.File file, BatchWalk walk) throws IOException {
        while (true) {
            long at = walk.offset;
            try {
                remember(file, at, walk.next());
            } catch (Fault.Broken broken) {
                return broken.fault;
            }
        }
    }

    private void remember(Segments.File file, long offset, BatchHeader header) {
        if (header.tagged()) {
            tagged.put(header.lsn(), new Batch(file, offset, header));
        }
    }

    private static Tail judge(Segments.File last, BatchWalk walk, Fault fault, List<Segments.File> behind) throws IOException {
        BatchWalk.Witnesses said = walk.witnesses(false);
        if (said.contradict()) {
            String what = fault.text + ", but a later batch says that LSN " + Long.toUnsignedString(said.durable()) + " was durable";
            throw last.damaged(walk.offset, walk.lsn, what);
        }
        boolean full = !walk.hasRoomToResume();
        if ((!walk.closed() || full) && !behind.isEmpty() && holdsBatch(behind.get(0), walk.segment)) {
            throw behind.get(0).damaged(0, walk.lsn, LOST_HEADER);
        }
        if (Layout.before(walk.lsn, said.acknowledged())) {
            return new Tail(Tail.Kind.LOST, walk.lsn, said.acknowledged());
        }
        return new Tail(walk.closed() ? Tail.Kind.CLEAN : Tail.Kind.TORN, walk.lsn, walk.lsn);
    }

    /** Whether a segment without a header holds a batch of its own number. */
    private static boolean holdsBatch(Segments.File file, SegmentHeader like) throws IOException {
        try (SegmentFile open = new SegmentFile(file.path)) {
            return SegmentFile.first(Layout.SMALLEST_BLOCK, file.bytes, Layout.SMALLEST_BLOCK, at -> {
                BatchHeader header = open.decoded(at);
                boolean ofLog = header != null && (like == null || header.identity().equals(like.identity()));
                return ofLog && header.segment() == file.number && header.offset() == at ? header : null;
            }) != null;
        }
    }

    static void refuseOrphans(Segments found) throws IOException {
        for (Segments.File file : found.files) {
            if (holdsBatch(file, null)) {
                throw file.damaged(0, 0, LOST_HEADER);
            }
        }
    }

    /** The segment from which on cuts are read: the newest one, if that begins with all of them, otherwise the one that it names. */
    private long cutsFrom() throws IOException {
        Batch begin = tagged.get(newest.firstLsn());
        Cuts begun = new Cuts();
        if (begin != null && begin.offset() == newest.dataStart() && begin.header().cuts()) {
            apply(begin, new TreeMap<>(), begun);
        }
        return begun.isRestated() ? newest.number() : newest.cutsFrom();
    }

    private TreeMap<Integer, StoredStream> known() throws IOException {
        if (streams == null) {
            TreeMap<Integer, StoredStream> found = new TreeMap<>();
            replay(newest.streamsFrom(), header -> true, found, new Cuts());
            streams = found;
        }
        return streams;
    }

    /** Applies the tagged records of the batches that are wanted, from a segment on, or of the newest one if that is 0. */
    private void replay(long from, Predicate<BatchHeader> wanted, TreeMap<Integer, StoredStream> streams, Cuts cuts) throws IOException {
        while (walked > 0 && from != 0 && !Layout.before(members.get(walked - 1).number, from)) {
            walkOlder(members.get(walked - 1), members.get(walked).header);
            walked--;
        }
        for (Batch batch : tagged.values()) {
            if (!Layout.before(end, batch.header().end()) && wanted.test(batch.header())) {
                apply(batch, streams, cuts);
            }
        }
    }

    private void walkOlder(Segments.File file, SegmentHeader next) throws IOException {
        try (SegmentFile open = new SegmentFile(file.path)) {
            BatchWalk walk = new BatchWalk(file.header, open);
            while (Layout.before(walk.lsn, next.firstLsn())) {
                BatchHeader header = header(file, walk);
                remember(file, walk.offset, header);
                walk.stepOver(header);
            }
        }
    }

    private static BatchHeader header(Segments.File file, BatchWalk walk) throws IOException {
        try {
            return walk.header();
        } catch (Fault.Broken broken) {
            throw file.damaged(walk.offset, walk.lsn, broken.fault.text);
        }
    }

    private void apply(Batch batch, TreeMap<Integer, StoredStream> streams, Cuts cuts) throws IOException {
        RawRecords records = records(batch);
        while (records.next()) {
            if (records.tag() != null) {
                StoredStream.apply(streams, cuts, records.tag(), records.recordLsn(), records.payload());
            }
        }
    }

    private static RawRecords records(Batch batch) throws IOException {
        try (SegmentFile open = new SegmentFile(batch.file().path)) {
            return records(batch, open);
        }
    }

    private static RawRecords records(Batch batch, SegmentFile open) throws IOException {
        BatchHeader header = batch.header();
        try {
            return new RawRecords(open.body(batch.file().header, batch.offset(), header), header.tagged(), header.lsn());
        } catch (Fault.Broken broken) {
            throw batch.file().damaged(batch.offset(), header.lsn(), broken.fault.text);
        }
    }

    /** {@return the identity of the log, chosen at random when it was made: 32 hexadecimal digits} */
    public String identity() {
        return newest.identity();
    }

    /** {@return the first LSN that is left} */
    public long firstLsn() {
        return first;
    }

    /** {@return the LSN at which what is shown ends} */
    public long endLsn() {
        return end;
    }

    /** {@return how the log ended; empty for a log that may be written} */
    public Optional<Tail> tail() {
        return Optional.ofNullable(tail);
    }

    /** {@return what acknowledged records outlive, as the last opening requested} */
    public Durability durability() {
        return newest.durability();
    }

    /** {@return how many segments make up the log, one or more} */
    public int segments() {
        return members.size();
    }

    /**
     * {@return the streams of the log, by their numbers, in an unmodifiable collection}
     *
     * @throws LogFormatException a batch that may hold one of their records is damaged
     * @throws IOException a file could not be read
     */
    public Collection<StoredStream> streams() throws IOException {
        return Collections.unmodifiableCollection(known().values());
    }

    /**
     * One stream.
     *
     * @param id its number
     * @return the stream, if the log has it
     * @throws IOException as {@link #streams}
     */
    public Optional<StoredStream> stream(int id) throws IOException {
        return Optional.ofNullable(known().get(id));
    }

    /**
     * Reads the records that were appended, those of streams among them, without what is cut off the log.
     *
     * @param from the LSN to begin at; the first record at or after it is the first one read
     * @return a reader up to {@link #endLsn}
     * @throws LogFormatException the LSN was trimmed, or lies past the end
     * @throws IOException a file could not be read
     */
    public RecordReader read(long from) throws IOException {
        if (Layout.before(from, first)) {
            throw refused(Reason.TRIMMED, "LSN %s was trimmed; the first one left is %s", from, first);
        }
        if (Layout.before(end, from)) {
            throw refused(Reason.BEYOND_END, "LSN %s lies past the end, %s", from, end);
        }
        int start = 0;
        for (int i = 0; i < members.size(); i++) {
            start = Layout.before(from, members.get(i).header.firstLsn()) ? start : i;
        }
        return new LogReader(start, from);
    }

    /**
     * Reads the records of one stream in the order of their sequence numbers.
     *
     * @param id the stream
     * @param sequence the sequence number to begin at
     * @return a reader up to the last record of the stream
     * @throws LogFormatException the sequence number was trimmed, or lies past the end, as all do in a stream that is not there
     * @throws IOException as {@link #streams}
     */
    public RecordReader readStream(int id, long sequence) throws IOException {
        StoredStream stream = known().getOrDefault(id, new StoredStream(id, 0));
        if (Layout.before(sequence, stream.first())) {
            throw refused(Reason.TRIMMED, "record %s of stream %s was trimmed; the first one left is %s", sequence, id, stream.first());
        }
        if (Layout.before(stream.next(), sequence)) {
            throw refused(Reason.BEYOND_END, "stream %s ends in front of record %s", id, stream.next());
        }
        return new StreamReader(stream, sequence);
    }

    /** What cannot be read of this log, with numbers in the message that have no sign. */
    private LogFormatException refused(Reason reason, String message, long... numbers) {
        return LogFormatException.of(reason, dir, message.formatted(LongStream.of(numbers).mapToObj(Long::toUnsignedString).toArray()));
    }

    @Override
    public void close() {
        // Files are open only while they are read; the method is there so that keeping them open later changes no caller.
    }

    private static LogRecord record(RawRecords at, long timeMicros) {
        Tag tag = at.tag();
        Instant time = timeMicros == 0 ? null : Instant.EPOCH.plus(timeMicros, ChronoUnit.MICROS);
        return new LogRecord(
                at.recordLsn(),
                at.recordEnd(),
                !at.more(),
                tag == null ? -1 : tag.stream(),
                tag == null ? OptionalLong.empty() : OptionalLong.of(tag.number()),
                time,
                at.payload());
    }

    private final class LogReader implements RecordReader {
        private final long from;
        private int member;
        private SegmentFile file;
        private BatchWalk walk;
        private RawRecords records;
        private long timeMicros;

        LogReader(int member, long from) throws IOException {
            this.from = from;
            enter(member);
        }

        private void enter(int next) throws IOException {
            close();
            member = next;
            file = new SegmentFile(members.get(next).path);
            walk = new BatchWalk(members.get(next).header, file);
        }

        @Override
        public LogRecord next() throws IOException {
            while (true) {
                while (records != null && records.next()) {
                    if (!Layout.before(records.recordLsn(), from) && isShown(records)) {
                        return record(records, timeMicros);
                    }
                }
                records = null;
                if (!nextBatch()) {
                    return null;
                }
            }
        }

        /** Steps to the next batch; over one that ends in front of the first record, by its header alone. */
        private boolean nextBatch() throws IOException {
            boolean isLast = member == members.size() - 1;
            long until = isLast ? end : members.get(member + 1).header.firstLsn();
            if (!Layout.before(walk.lsn, until)) {
                if (isLast) {
                    return false;
                }
                enter(member + 1);
                return true;
            }
            Batch batch = new Batch(members.get(member), walk.offset, header(members.get(member), walk));
            BatchHeader header = batch.header();
            if (!Layout.before(walk.lsn, from) || Layout.before(from, header.end())) {
                records = records(batch, file);
                timeMicros = header.timeMicros();
                if (Layout.before(until, header.end())) {
                    throw batch.file().damaged(0, until, "a batch reaches past the end of its part of the log");
                }
            }
            walk.stepOver(header);
            return true;
        }

        private boolean isShown(RawRecords at) {
            return at.tag() == null ? !cuts.hide(at.recordLsn()) : at.tag().kind() == Tag.Kind.DATA;
        }

        @Override
        public void close() throws IOException {
            if (file != null) {
                file.close();
            }
        }
    }

    private final class StreamReader implements RecordReader {
        private final StoredStream stream;
        private long sequence;
        private Batch held;
        private List<LogRecord> records = List.of();

        StreamReader(StoredStream stream, long sequence) {
            this.stream = stream;
            this.sequence = sequence;
        }

        @Override
        public LogRecord next() throws IOException {
            if (!Layout.before(sequence, stream.next())) {
                return null;
            }
            Long lsn = stream.place(sequence);
            if (lsn == null) {
                Long there = stream.numberFrom(sequence);
                throw refused(Reason.STREAM_GAP, "record %s of stream %s is missing; the next one that is there is %s",
                        sequence, stream.id(), there == null ? stream.next() : there);
            }
            load(tagged.floorEntry(lsn).getValue());
            for (LogRecord record : records) {
                if (record.lsn() == lsn) {
                    sequence++;
                    return record;
                }
            }
            throw held.file().damaged(held.offset(), lsn, "no record starts at this LSN");
        }

        private void load(Batch batch) throws IOException {
            if (batch.equals(held)) {
                return;
            }
            RawRecords walk = records(batch);
            List<LogRecord> read = new ArrayList<>();
            while (walk.next()) {
                read.add(record(walk, batch.header().timeMicros()));
            }
            held = batch;
            records = read;
        }

        @Override
        public void close() {
            records = List.of();
        }
    }
}
