package seawall;

/** What an acknowledged record outlives. */
public enum Durability {
    /** The end of the process. */
    PROCESS_CRASH,
    /** A panic or reset of the machine. */
    SYSTEM_CRASH,
    /** A power cut. */
    POWER_LOSS;

    int code() {
        return ordinal() + 1;
    }
}
