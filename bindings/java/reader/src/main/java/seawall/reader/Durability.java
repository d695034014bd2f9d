package seawall.reader;

/** What an acknowledged record of a log outlives. */
public enum Durability {
    /** The end of the process. */
    PROCESS_CRASH,
    /** A panic or reset of the machine. */
    SYSTEM_CRASH,
    /** A power cut. */
    POWER_LOSS;

    static Durability of(int code) {
        return code >= 1 && code <= values().length ? values()[code - 1] : null;
    }
}
