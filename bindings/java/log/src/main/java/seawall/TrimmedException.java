package seawall;

/** The record was trimmed; {@link #limit} is the first that is left. */
public final class TrimmedException extends SeawallException {
    private static final long serialVersionUID = 1;

    TrimmedException(NativeError error) {
        super(error);
    }
}
