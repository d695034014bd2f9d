/*
 * Holds a handle of the native library, which is freed once: when asked to, or when it is unreachable. A call holds off its end.
 *
 * The handle is a segment of a shared arena, whose end frees it. The JVM keeps an arena alive while one of its segments is an
 * argument of a downcall, and refuses later ones: so no call is ever made with a freed handle, whichever thread ends it.
 *
 * Invariant: no memory of the library is read through the arena: a thread whose read its end interrupts would also find its
 * interrupt status set. It is read by a call, or under a lock that the end takes.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.locks.LockSupport;

final class Handle {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final long LOOK_AGAIN_NANOS = 50_000;

    private final String name;
    private final Arena arena;
    private final MemorySegment segment;
    /** No call begins any more: otherwise those of busy threads could put off the end for ever. */
    private volatile boolean ending;

    /** A call that leaves a handle at the address that it is given. */
    interface Making {
        long make(Arena arena, MemorySegment pointer) throws SeawallException;
    }

    /** A call that is given a structure of the library. */
    interface Using {
        long make(MemorySegment at) throws SeawallException;
    }

    /** Makes a handle that {@code free} frees; {@code name} is what its user calls it. */
    static Handle of(String name, MethodHandle free, Making making) throws SeawallException {
        return new Handle(name, free, pointer(making));
    }

    /** What a call leaves at the address that it is given. */
    static MemorySegment pointer(Making making) throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment pointer = arena.allocate(ValueLayout.ADDRESS);
            Native.checked(making.make(arena, pointer));
            return pointer.get(ValueLayout.ADDRESS, 0);
        }
    }

    private Handle(String name, MethodHandle free, MemorySegment address) {
        this.name = name;
        Arena shared = Arena.ofShared();
        arena = shared;
        segment = address.reinterpret(1, shared, ended -> Native.call(free, MemorySegment.ofAddress(ended.address())));
        // A handle that is unreachable is in no call: every call keeps it reachable until it has returned.
        CLEANER.register(this, () -> close(shared));
    }

    /** What calls are made with. The caller keeps this reachable until the call has returned. */
    MemorySegment segment() throws SeawallException {
        if (ending) {
            throw closed();
        }
        return segment;
    }

    /**
     * For an owner that makes calls under a lock of its own, which its end takes: calls {@code function} with {@code handle} once, when
     * asked to, or when {@code owner} is unreachable. Costs no handshake of all threads, as the end of a shared arena does.
     */
    static Cleaner.Cleanable free(Object owner, MethodHandle function, MemorySegment handle) {
        return CLEANER.register(owner, () -> Native.call(function, handle));
    }

    /** Calls a function that is not called often; its first argument is the handle. Throws the error that it returns. */
    long call(MethodHandle function, Object... arguments) throws SeawallException {
        Object[] all = new Object[arguments.length + 1];
        all[0] = segment();
        System.arraycopy(arguments, 0, all, 1, arguments.length);
        try {
            return Native.checked(Native.call(function, all));
        } catch (IllegalStateException thrown) {
            throw refused(thrown);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** What a call threw that was made with the handle: that it had ended, or something else, which is thrown on. */
    SeawallException refused(Throwable thrown) {
        if (thrown instanceof SeawallException refused) {
            return refused;
        }
        if (thrown instanceof IllegalStateException && !arena.scope().isAlive()) {
            return closed();
        }
        throw Native.unexpected(thrown);
    }

    SeawallException closed() {
        return SeawallException.of(NativeError.here(ErrorCode.CLOSED, 0, "the " + name + " was closed"));
    }

    /** Frees the handle as soon as no call is in progress with it; the second time it does nothing. */
    void end() {
        ending = true;
        end(arena);
    }

    /** Closes a shared arena as soon as nothing uses it. */
    static void end(Arena arena) {
        boolean interrupted = false;
        while (!close(arena)) {
            LockSupport.parkNanos(LOOK_AGAIN_NANOS);
            interrupted |= Thread.interrupted();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Whether it has ended now; if not, calls are in progress. */
    private static boolean close(Arena arena) {
        try {
            if (arena.scope().isAlive()) {
                arena.close();
            }
        } catch (IllegalStateException inUse) {
            return !arena.scope().isAlive();
        }
        return true;
    }
}
