package seawall;

/** Acknowledged data is damaged. {@link #path} is the segment, {@link #at} the LSN and {@link #limit} the place in the segment. */
public final class LogDamagedException extends SeawallException {
    private static final long serialVersionUID = 1;

    LogDamagedException(NativeError error) {
        super(error);
    }
}
