/*
 * Knows which parts of the log itself are cut off: ranges of LSNs whose records without a tag are gone.
 *
 * Invariant: the ranges are in order and do not touch; a later cut that begins before an earlier one takes it in.
 */
package seawall.reader;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

final class Cuts {
    private record Range(long from, long to) {}

    private List<Range> ranges = new ArrayList<>();
    private boolean restated;

    /** A record at {@code at} cuts off what lies between {@code from} and itself. */
    void cut(long from, long at) {
        long start = from;
        while (!ranges.isEmpty() && !Layout.before(ranges.get(ranges.size() - 1).to(), start)) {
            Range last = ranges.remove(ranges.size() - 1);
            start = Layout.before(last.from(), start) ? last.from() : start;
        }
        if (Layout.before(start, at)) {
            ranges.add(new Range(start, at));
        }
    }

    /** A record states all cuts that are still needed; one that does not read as a list states nothing. */
    void restate(ByteBuffer payload) {
        ByteBuffer pairs = payload.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        if (pairs.remaining() % 16 != 0) {
            return;
        }
        List<Range> stated = new ArrayList<>();
        while (pairs.hasRemaining()) {
            Range range = new Range(pairs.getLong(), pairs.getLong());
            boolean follows = stated.isEmpty() || Layout.before(stated.get(stated.size() - 1).to(), range.from());
            if (!follows || !Layout.before(range.from(), range.to())) {
                return;
            }
            stated.add(range);
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
        int low = 0;
        int high = ranges.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (Layout.before(lsn, ranges.get(middle).from())) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low > 0 && Layout.before(lsn, ranges.get(low - 1).to());
    }
}
