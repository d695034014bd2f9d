/*
 * Frees the handles of the native library when nothing can use them any more.
 *
 * A log may be closed while other threads are in calls with it, and the memory of a freed handle may be used for something else
 * by then. So a closed log keeps its handle, whose calls then say that it is closed, until the object is unreachable; every call
 * keeps the object reachable until it has returned.
 */
package seawall;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;

/** The cleaner of all handles. */
final class Handles {
    private static final Cleaner CLEANER = Cleaner.create();

    private Handles() {}

    /** Calls {@code function} with {@code handle} once: when asked to, or when {@code owner} is unreachable. */
    static Cleaner.Cleanable free(Object owner, MethodHandle function, MemorySegment handle) {
        return CLEANER.register(owner, () -> Native.call(function, handle));
    }
}
