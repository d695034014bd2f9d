package seawall;

import java.io.IOException;
import java.nio.file.Path;

/** An operation on a log failed. Subclasses stand for the kinds that programs handle; {@link #code} names every kind. */
public class SeawallException extends IOException {
    private static final long serialVersionUID = 1;

    private final NativeError error;

    SeawallException(NativeError error) {
        super(error.message());
        this.error = error;
    }

    /** {@return what kind of error it is} */
    public ErrorCode code() {
        return error.code();
    }

    /** {@return of {@link ErrorCode#FAILED} the code of the first failure, otherwise {@link #code}} */
    public ErrorCode causeCode() {
        return error.cause();
    }

    /** {@return the error number of the operating system ({@code errno}), 0 if there is none} */
    public int osError() {
        return error.osError();
    }

    /** {@return the path of the file or directory, null if the error is about none} */
    public Path path() {
        return Paths.of(error.path());
    }

    /** {@return the number that was named, such as an LSN or a length; 0 if the error has none} */
    public long at() {
        return error.at();
    }

    /** {@return the number that would have done, such as the first LSN left or the longest length; 0 if the error has none} */
    public long limit() {
        return error.limit();
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
            case TIMED_OUT -> new LogTimeoutException(error);
            default -> new SeawallException(error);
        };
    }
}
