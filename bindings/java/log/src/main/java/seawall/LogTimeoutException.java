package seawall;

/**
 * A wait for a commit or a record was over before there was a result. Nothing was cancelled: wait again. {@link #at} is the LSN of the
 * commit, or the one after which a cursor waited; {@link #limit} is for how long, in nanoseconds.
 */
public final class LogTimeoutException extends SeawallException {
    private static final long serialVersionUID = 1;

    LogTimeoutException(NativeError error) {
        super(error);
    }
}
