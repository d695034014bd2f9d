package seawall;

/** Another writer, of this process or another, holds the log. */
public final class LogLockedException extends SeawallException {
    private static final long serialVersionUID = 1;

    LogLockedException(NativeError error) {
        super(error);
    }
}
