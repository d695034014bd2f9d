package seawall;

/**
 * How a log had ended.
 *
 * @param kind which of the ways
 * @param lostFrom of a loss, the LSN of the first record that is gone; otherwise 0
 * @param lostTo of a loss, the end of what had been acknowledged; otherwise 0
 */
public record Tail(Kind kind, long lostFrom, long lostTo) {
    /** The ways in which a log ends. */
    public enum Kind {
        /** There was no log. */
        NEW,
        /** It had been closed. */
        CLEAN,
        /** It had not been closed: what was being written when it ended is lost unless it arrived whole. */
        TORN,
        /** Acknowledged records are gone, by an event that its durability class does not promise to outlive. */
        LOST,
        /** It is being written. */
        WRITTEN
    }
}
