package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.ThrowingConsumer;

/** Asserts that an append allocates nothing on the heap: a number that is exact, where one of nanoseconds would not be. */
class AllocationTest extends Fixture {
    private static final int APPENDS = 2_000;
    private static final int WINDOWS_MAX = 400;
    private static final int IN_A_ROW = 10;

    /** Appends in windows until {@link #IN_A_ROW} of them allocated nothing: before, the compiler has not done its work. */
    private static void assertNothing(Log log, String what, ThrowingConsumer<Log> append) throws Throwable {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        assertTrue(threads.isThreadAllocatedMemorySupported() && threads.isThreadAllocatedMemoryEnabled());
        int inARow = 0;
        long last = -1;
        for (int window = 0; window < WINDOWS_MAX && inARow < IN_A_ROW; window++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < APPENDS; i++) {
                append.accept(log);
            }
            last = threads.getCurrentThreadAllocatedBytes() - before;
            inARow = last == 0 ? inARow + 1 : 0;
            log.commit(log.appendedLsn());
        }
        assertEquals(IN_A_ROW, inARow, what + ": the last " + APPENDS + " appends allocated " + last + " bytes");
    }

    @Test
    void anAppendAllocatesNothing() throws Throwable {
        try (Log log = Log.open(dir);
                Arena arena = Arena.ofConfined()) {
            byte[] bytes = new byte[64];
            MemorySegment segment = arena.allocate(64);
            MemorySegment heap = MemorySegment.ofArray(bytes);
            assertNothing(log, "byte[]", open -> open.append(bytes));
            assertNothing(log, "MemorySegment", open -> open.append(segment));
            assertNothing(log, "MemorySegment on the heap", open -> open.append(heap));
        }
    }
}
