/*
 * Lists the codes of the native interface; a test holds them against the library's own names.
 */
package seawall;

import java.util.Locale;

/** What kind of error happened: the same kinds, and the same names, in every language. */
public enum ErrorCode {
    /** The operating system refused an operation. */
    IO(-1),
    /** No space is left for another segment. Nothing was written and the log stays open: try again when there is space. */
    DISK_FULL(-2),
    /** The log takes as much of the disk as it may. Nothing was written: trim it, or open it with a larger bound. */
    DISK_CAP(-3),
    /** Another writer holds the log. */
    LOCKED(-4),
    /** A write or a sync failed earlier; what became of it is unknown. Open the log again to learn what is durable. */
    FAILED(-5),
    /** Acknowledged data is damaged. */
    CORRUPT(-6),
    /** A segment was written by a newer version. */
    NEWER_FORMAT(-7),
    /** A segment was written by an older version, in a format that this one does not read. */
    OLDER_FORMAT(-8),
    /** A segment uses a feature of the format that this library does not have. */
    UNKNOWN_FEATURE(-9),
    /** Segments of different logs lie in the directory. */
    FOREIGN_SEGMENT(-10),
    /** A foreign file in the directory has the name of a segment. */
    FOREIGN_FILE(-11),
    /** Another log was put at the path of the one that was followed. */
    OTHER_LOG(-12),
    /** The directory holds no log. */
    NOT_A_LOG(-13),
    /** The disk takes no writes as small as the log's blocks. */
    BLOCKS_TOO_SMALL(-14),
    /** The record or transaction is longer than the log accepts. */
    TOO_LONG(-15),
    /** A call that does not wait would have had to; nothing was accepted. */
    WOULD_BLOCK(-16),
    /** A wait ended without a result. Nothing was cancelled. */
    TIMED_OUT(-17),
    /** The LSN was trimmed. */
    TRIMMED(-18),
    /** No record starts, or ends, at the LSN. */
    NO_RECORD(-19),
    /** The LSN lies past the end of the log. */
    BEYOND_END(-20),
    /** A record of a stream was trimmed. */
    STREAM_TRIMMED(-21),
    /** A record of a stream is missing, as in a log that was salvaged with a gap. */
    STREAM_GAP(-22),
    /** A stream has no durable record of this number yet. */
    STREAM_END(-23),
    /** A commit requested a higher durability class than the log promises. */
    BEYOND_PROMISE(-24),
    /** An option lies outside its bounds. */
    INVALID_OPTION(-25),
    /** The log was closed. */
    CLOSED(-26),
    /** This process was forked off the one that opened the log. */
    FORKED(-27),
    /** An argument is not what the call takes; the message names it. */
    INVALID_ARGUMENT(-28),
    /** Another thread is in a call with the same cursor. */
    BUSY(-29),
    /** A mistake in the library itself; the message says where. */
    PANICKED(-30),
    /** The directory is that of a rebuild or a standby that is not finished: finish it, or take over. */
    REBUILDING(-31),
    /** An error that has no code in this version of the interface. */
    OTHER(-32);

    private final int code;

    ErrorCode(int code) {
        this.code = code;
    }

    /**
     * The number of the code in the native interface.
     *
     * @return a negative number
     */
    public int code() {
        return code;
    }

    /**
     * The name of the kind, the same in every language.
     *
     * @return small letters with underscores
     */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    static ErrorCode of(int code) {
        for (ErrorCode known : values()) {
            if (known.code == code) {
                return known;
            }
        }
        return OTHER;
    }
}
