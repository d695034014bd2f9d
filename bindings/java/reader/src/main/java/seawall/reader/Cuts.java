/*
 * Knows which parts of the log itself are cut off: ranges of LSNs whose records without a tag are gone.
 *
 * Invariant: the ranges are in order and do not touch; a later cut that begins before an earlier one takes it in.
 */
package seawall.reader;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.TreeMap;

final class Cuts {
    /** From the first LSN of a range to its end. */
    private TreeMap<Long, Long> ranges = new TreeMap<>(Long::compareUnsigned);
    private boolean restated;

    /** A record at {@code at} cuts off what lies between {@code from} and itself. */
    void cut(long from, long at) {
        long start = from;
        while (!ranges.isEmpty() && !Layout.before(ranges.lastEntry().getValue(), start)) {
            long first = ranges.pollLastEntry().getKey();
            start = Layout.before(first, start) ? first : start;
        }
        if (Layout.before(start, at)) {
            ranges.put(start, at);
        }
    }

    /** A record states all cuts that are still needed; one that does not read as a list states nothing. */
    void restate(ByteBuffer payload) {
        ByteBuffer pairs = payload.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        if (pairs.remaining() % 16 != 0) {
            return;
        }
        TreeMap<Long, Long> stated = new TreeMap<>(Long::compareUnsigned);
        while (pairs.hasRemaining()) {
            long from = pairs.getLong();
            long to = pairs.getLong();
            boolean follows = stated.isEmpty() || Layout.before(stated.lastEntry().getValue(), from);
            if (!follows || !Layout.before(from, to)) {
                return;
            }
            stated.put(from, to);
        }
        ranges = stated;
        restated = true;
    }

    /** Whether a record stated all cuts at once. */
    boolean isRestated() {
        return restated;
    }

    /** Whether a record without a tag at {@code lsn} is cut off. */
    boolean hide(long lsn) {
        Map.Entry<Long, Long> range = ranges.floorEntry(lsn);
        return range != null && Layout.before(lsn, range.getValue());
    }
}
