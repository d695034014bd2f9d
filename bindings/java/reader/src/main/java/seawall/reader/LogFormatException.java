package seawall.reader;

import java.io.IOException;
import java.nio.file.Path;

/** The log cannot be read as it is. */
public final class LogFormatException extends IOException {
    private static final long serialVersionUID = 1;

    /** What is wrong. */
    public enum Reason {
        /** The directory holds no log. */
        NOT_A_LOG,
        /** Acknowledged data is damaged; {@link LogFormatException#damage} says where. */
        DAMAGED,
        /** A segment was written by a later version. */
        NEWER_FORMAT,
        /** A segment was written by a build before the first release. */
        OLDER_FORMAT,
        /** A segment uses a feature of the format that this reader does not know. */
        UNKNOWN_FEATURE,
        /** Segments of different logs lie in the directory. */
        FOREIGN_SEGMENT,
        /** The LSN or sequence number was trimmed. */
        TRIMMED,
        /** The LSN or sequence number lies past the end. */
        BEYOND_END,
        /** A record of a stream is missing, as in a log that was salvaged with a gap. */
        STREAM_GAP
    }

    private final Reason reason;
    private final transient Path path;
    private final transient Damage damage;

    private LogFormatException(Reason reason, Path path, Damage damage, String message) {
        super(message);
        this.reason = reason;
        this.path = path;
        this.damage = damage;
    }

    static LogFormatException of(Reason reason, Path path, String message) {
        return new LogFormatException(reason, path, null, path + ": " + message);
    }

    static LogFormatException damaged(Damage damage) {
        return new LogFormatException(Reason.DAMAGED, damage.path(), damage, "the log is damaged: " + damage);
    }

    /** {@return what is wrong} */
    public Reason reason() {
        return reason;
    }

    /** {@return the path of the file or directory} */
    public Path path() {
        return path;
    }

    /** {@return the damaged place, null for every other reason} */
    public Damage damage() {
        return damage;
    }
}
