package seawall;

/** A write or a sync failed, now or earlier; its outcome is unknown. Nothing more is acknowledged: open the log again to learn what is durable. */
public final class LogFailedException extends SeawallException {
    private static final long serialVersionUID = 1;

    LogFailedException(NativeError error) {
        super(error);
    }
}
