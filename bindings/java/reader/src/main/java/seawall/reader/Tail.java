package seawall.reader;

/**
 * How a log ended.
 *
 * @param kind which of the ways
 * @param from of a loss, the LSN of the first record that is gone; otherwise the end of the log
 * @param to of a loss, the end of what had been acknowledged; otherwise the end of the log
 */
public record Tail(Kind kind, long from, long to) {
    /** The ways in which a log ends. */
    public enum Kind {
        /** It had been closed. */
        CLEAN,
        /** It had not been closed: what was being written when it ended is lost unless it arrived whole. */
        TORN,
        /** Acknowledged records are gone, by an event that its durability class does not promise to outlive. */
        LOST
    }
}
