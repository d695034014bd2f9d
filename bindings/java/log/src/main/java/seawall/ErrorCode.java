package seawall;

import java.util.Locale;

/** What kind of error happened: the same kinds, names and numbers in every language, in the order of the native interface. */
public enum ErrorCode {
    /** The operating system refused an operation. */
    IO,
    /** No space is left for another segment. Nothing was written and the log stays open: try again when there is space. */
    DISK_FULL,
    /** The log takes as much of the disk as it may. Nothing was written: trim it, or open it with a larger bound. */
    DISK_CAP,
    /** Another writer holds the log. */
    LOCKED,
    /** A write or a sync failed earlier; its outcome is unknown. Open the log again to learn what is durable. */
    FAILED,
    /** Acknowledged data is damaged. */
    CORRUPT,
    /** A segment was written by a newer version. */
    NEWER_FORMAT,
    /** A segment was written by an older version, in a format that this one does not read. */
    OLDER_FORMAT,
    /** A segment uses a feature of the format that this library does not have. */
    UNKNOWN_FEATURE,
    /** Segments of different logs lie in the directory. */
    FOREIGN_SEGMENT,
    /** A foreign file in the directory has the name of a segment. */
    FOREIGN_FILE,
    /** Another log was put at the path of the one that was followed. */
    OTHER_LOG,
    /** The directory holds no log. */
    NOT_A_LOG,
    /** The disk takes no writes as small as the log's blocks. */
    BLOCKS_TOO_SMALL,
    /** The record or transaction is longer than the log accepts. */
    TOO_LONG,
    /** A call that does not wait would have had to; nothing was accepted. */
    WOULD_BLOCK,
    /** A wait ended without a result. Nothing was cancelled. */
    TIMED_OUT,
    /** The LSN was trimmed. */
    TRIMMED,
    /** No record starts, or ends, at the LSN. */
    NO_RECORD,
    /** The LSN lies past the end of the log. */
    BEYOND_END,
    /** A record of a stream was trimmed. */
    STREAM_TRIMMED,
    /** A record of a stream is missing, as in a log that was salvaged with a gap. */
    STREAM_GAP,
    /** A stream has no durable record of this number yet. */
    STREAM_END,
    /** A commit requested a higher durability class than the log promises. */
    BEYOND_PROMISE,
    /** An option lies outside its bounds. */
    INVALID_OPTION,
    /** The log was closed. */
    CLOSED,
    /** This process was forked off the one that opened the log. */
    FORKED,
    /** An argument is not what the call takes; the message names it. */
    INVALID_ARGUMENT,
    /** Another thread is in a call with the same cursor. */
    BUSY,
    /** A mistake in the library itself; the message says where. */
    PANICKED,
    /** The directory is that of a rebuild or a standby that is not finished: finish it, or take over. */
    REBUILDING,
    /** An error that has no code in this version of the interface. */
    OTHER,
    /** The process that owns the queue refused, with an error that has no code here. */
    QUEUE_OWNER,
    /** The directory has a log that is not a queue's. */
    NOT_A_QUEUE,
    /** A record of the log is not one of a queue. */
    FOREIGN_RECORD,
    /** The queue has never handed out this message. */
    NO_MESSAGE,
    /** The process that owns the queue does not answer. What was put may be stored. */
    NO_ANSWER,
    /** The process that owns the queue speaks another version of the protocol. */
    QUEUE_VERSION;

    /** {@return the number of the code in the native interface, which is negative} */
    public int code() {
        return -1 - ordinal();
    }

    /** {@return the name of the kind, the same in every language, in small letters with underscores} */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    static ErrorCode of(int code) {
        return code < 0 && code >= -values().length ? values()[-1 - code] : OTHER;
    }
}
