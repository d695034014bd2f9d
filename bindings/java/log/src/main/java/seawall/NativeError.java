/*
 * Reads the last error of a thread out of the native library.
 *
 * Invariant: read right after the call that failed, with nothing in between that could move a virtual thread to another carrier.
 */
package seawall;

import java.io.Serializable;
import java.time.Duration;

record NativeError(ErrorCode code, ErrorCode cause, int osError, long at, long limit, String message, byte[] path)
        implements Serializable {
    static NativeError last() {
        Structs.At error = new Structs.At(Native.errorLast().reinterpret(Structs.ERROR.byteSize()), Structs.ERROR);
        return new NativeError(
                ErrorCode.of(error.getInt("code")),
                ErrorCode.of(error.getInt("cause")),
                error.getInt("os_error"),
                error.getLong("at"),
                error.getLong("limit"),
                error.getText("message"),
                error.getPath("path"));
    }

    /** One that arose on this side of the interface. */
    static NativeError here(ErrorCode code, long at, String message) {
        return new NativeError(code, code, 0, at, 0, message, null);
    }

    /** What the library says of a wait that is over, for one that was made of several calls, or of none. */
    static NativeError timedOut(long lsn, Duration timeout) {
        String message = "timed out after " + timeout + " waiting for LSN " + lsn + "; nothing was cancelled: wait for it again";
        return new NativeError(ErrorCode.TIMED_OUT, ErrorCode.TIMED_OUT, 0, lsn, Times.nanos(timeout), message, null);
    }
}
