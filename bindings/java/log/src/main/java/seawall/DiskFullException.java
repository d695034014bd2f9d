package seawall;

/** There is no room for another segment, on the disk or under the bound of the log. Nothing was written and the log stays open. */
public final class DiskFullException extends SeawallException {
    private static final long serialVersionUID = 1;

    DiskFullException(NativeError error) {
        super(error);
    }
}
