package seawall;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;

/** Holds everything from an LSN on, so that no trim takes it, until it is closed. Any thread may close it. */
public final class Pin implements AutoCloseable {
    private final Cleaner.Cleanable free;

    Pin(MemorySegment handle) {
        free = Handle.free(this, Native.PIN_FREE, handle);
    }

    /** Lets go what the pin holds. */
    @Override
    public void close() {
        free.clean();
    }
}
