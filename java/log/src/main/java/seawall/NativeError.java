/*
 * Reads the last error of a thread out of the native library.
 *
 * Invariant: read right behind the call that failed, with nothing in between that could move a virtual thread to another carrier.
 */
package seawall;

import java.lang.foreign.MemorySegment;

/** An error as the library tells it. */
record NativeError(ErrorCode code, ErrorCode cause, int osError, long at, long limit, String message, byte[] path) {

    static NativeError last() {
        MemorySegment error = Native.errorLast().reinterpret(Structs.ERROR.byteSize());
        return new NativeError(
                ErrorCode.of(Structs.getInt(error, Structs.ERROR, "code")),
                ErrorCode.of(Structs.getInt(error, Structs.ERROR, "cause")),
                Structs.getInt(error, Structs.ERROR, "os_error"),
                Structs.getLong(error, Structs.ERROR, "at"),
                Structs.getLong(error, Structs.ERROR, "limit"),
                Structs.getText(error, Structs.ERROR, "message"),
                Structs.getPath(error, Structs.ERROR, "path"));
    }

    /** One that arose on this side of the interface. */
    static NativeError here(ErrorCode code, long at, String message) {
        return new NativeError(code, code, 0, at, 0, message, null);
    }
}
