package seawall;

/** A wait ended without a result. Nothing was cancelled: what was appended may still become durable. */
public final class CommitTimeoutException extends SeawallException {
    private static final long serialVersionUID = 1;

    CommitTimeoutException(NativeError error) {
        super(error);
    }
}
