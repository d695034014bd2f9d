/*
 * The measurements of one block.
 *
 * Invariant: histograms grow as needed, so that nothing is clipped; they begin at a minute, so that nothing is allocated
 * while a write is timed.
 */
package seawall.path;

import org.HdrHistogram.Histogram;

/** A block's figures. */
final class Sample {
    private static final long EXPECTED_MAX_NS = 60_000_000_000L;
    private static final int DIGITS = 3;

    /** From the call to its return. */
    final Histogram service;
    /** From arrival to return; filled only on a schedule. */
    final Histogram response;
    /** Leaving one file for the next: close, open, and for mappings touching every page. */
    final Histogram roll;
    /** From the first write to the end of the last, nanoseconds. */
    long elapsedNs;
    /** Bytes that the writes allocated on the heap; -1 if this JVM does not count them. */
    long allocatedBytes;
    /** The thread's accounts over the block. */
    Accounts times;

    Sample() {
        this(DIGITS);
    }

    Sample(int digits) {
        service = histogram(digits);
        response = histogram(digits);
        roll = histogram(digits);
    }

    private static Histogram histogram(int digits) {
        Histogram histogram = new Histogram(1, EXPECTED_MAX_NS, digits);
        histogram.setAutoResize(true);
        return histogram;
    }
}
