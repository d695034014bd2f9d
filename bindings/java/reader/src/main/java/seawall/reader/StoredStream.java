/*
 * Is the state of one stream: which sequence numbers it still has, and at which LSN the record of each lies.
 *
 * Invariant: the state is the effect of the stream's tagged records in the order of their LSNs, and of nothing else.
 */
package seawall.reader;

import java.nio.ByteBuffer;
import java.util.TreeMap;

/** One stream of a log. */
public final class StoredStream {
    private final int id;
    private long first;
    private long next;
    /** Sequence numbers, as numbers without sign, to the LSNs of their records. */
    private final TreeMap<Long, Long> places = new TreeMap<>(Long::compareUnsigned);

    StoredStream(int id, long number) {
        this.id = id;
        this.first = number;
        this.next = number;
    }

    /** {@return the number of the stream, below 2^24} */
    public int id() {
        return id;
    }

    /** {@return the sequence number of the first record that is left, or that of the next record if there is none} */
    public long first() {
        return first;
    }

    /** {@return the sequence number of the next record: how many records the stream had, without those that were cut} */
    public long next() {
        return next;
    }

    /** Where record {@code number} lies; null if it is missing. */
    Long place(long number) {
        return places.get(number);
    }

    /** The first number from {@code number} on of which there is a record; null if there is none. */
    Long numberFrom(long number) {
        return places.ceilingKey(number);
    }

    void put(long number, long lsn) {
        // A rewritten record may be older than all that are left in the segments after that.
        first = first == next || Layout.before(number, first) ? number : first;
        next = Layout.later(next, number + 1);
        places.put(number, lsn);
    }

    void trim(long number) {
        first = number;
        next = Layout.later(next, number);
        places.headMap(number, false).clear();
    }

    void cut(long number) {
        first = Layout.before(number, first) ? number : first;
        next = number;
        places.tailMap(number, true).clear();
    }

    void stateEmpty(long number) {
        first = number;
        next = number;
        places.clear();
    }

    /** The effect of a tagged record at {@code lsn} on the streams and cuts of a log. */
    static void apply(TreeMap<Integer, StoredStream> streams, Cuts cuts, Tag tag, long lsn, ByteBuffer payload) {
        int id = tag.stream();
        long number = tag.number();
        switch (tag.kind()) {
            case DATA, COPY -> streams.computeIfAbsent(id, StoredStream::fresh).put(number, lsn);
            case STREAM_TRIM -> {
                if (number == Tag.REMOVES) {
                    streams.remove(id);
                } else {
                    streams.computeIfAbsent(id, key -> new StoredStream(key, number)).trim(number);
                }
            }
            case STREAM_CUT -> streams.computeIfAbsent(id, key -> new StoredStream(key, number)).cut(number);
            case STREAM_STATE -> streams.computeIfAbsent(id, key -> new StoredStream(key, number)).stateEmpty(number);
            case LOG_CUT -> cuts.cut(number, lsn);
            case LOG_CUTS -> cuts.restate(payload);
        }
    }

    private static StoredStream fresh(int id) {
        return new StoredStream(id, 0);
    }
}
