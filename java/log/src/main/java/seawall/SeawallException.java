/*
 * Carries an error of the native library: its code, its file, and the error number of the operating system.
 */
package seawall;

import java.io.IOException;
import java.nio.file.Path;

/** An operation on a log failed. Subclasses stand for the kinds that programs handle; {@link #code} names every kind. */
public class SeawallException extends IOException {
    private static final long serialVersionUID = 1;

    private final ErrorCode code;
    private final ErrorCode causeCode;
    private final int osError;
    private final long at;
    private final long limit;
    private final byte[] path;

    SeawallException(NativeError error) {
        super(error.message());
        this.code = error.code();
        this.causeCode = error.cause();
        this.osError = error.osError();
        this.at = error.at();
        this.limit = error.limit();
        this.path = error.path();
    }

    /**
     * What kind of error it is.
     *
     * @return the code
     */
    public ErrorCode code() {
        return code;
    }

    /**
     * Of {@link ErrorCode#FAILED} the code of the first failure, otherwise {@link #code}.
     *
     * @return the code of the cause
     */
    public ErrorCode causeCode() {
        return causeCode;
    }

    /**
     * The error number of the operating system ({@code errno}).
     *
     * @return the number, 0 if there is none
     */
    public int osError() {
        return osError;
    }

    /**
     * The file or directory.
     *
     * @return its path, null if the error is about none
     */
    public Path path() {
        return Paths.of(path);
    }

    /**
     * The number that was named, such as an LSN or a length.
     *
     * @return the number, 0 if the error has none
     */
    public long at() {
        return at;
    }

    /**
     * The number that would have done, such as the first LSN left or the longest length.
     *
     * @return the number, 0 if the error has none
     */
    public long limit() {
        return limit;
    }

    /** The exception of an error, of the class of its kind. */
    static SeawallException of(NativeError error) {
        return switch (error.code()) {
            case LOCKED -> new LogLockedException(error);
            case FAILED -> new LogFailedException(error);
            case CLOSED -> new LogClosedException(error);
            case CORRUPT -> new LogDamagedException(error);
            case DISK_FULL, DISK_CAP -> new DiskFullException(error);
            case TRIMMED, STREAM_TRIMMED -> new TrimmedException(error);
            case TIMED_OUT -> new CommitTimeoutException(error);
            default -> new SeawallException(error);
        };
    }
}
