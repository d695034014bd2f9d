package seawall;

/** The log was closed. */
public final class LogClosedException extends SeawallException {
    private static final long serialVersionUID = 1;

    LogClosedException(NativeError error) {
        super(error);
    }
}
