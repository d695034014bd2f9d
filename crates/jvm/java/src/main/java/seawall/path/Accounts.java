/*
 * Reads a thread's CPU time, wait for a CPU and allocated bytes, as the JVM and the kernel count them.
 *
 * Invariant: an uncounted value is -1, never 0.
 */
package seawall.path;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A thread's accounts; the difference of two is what happened between.
 *
 * @param userNs CPU time in user mode
 * @param systemNs CPU time in the kernel
 * @param waitNs time ready to run but waiting for a CPU
 */
record Accounts(long userNs, long systemNs, long waitNs) {
    private static final com.sun.management.ThreadMXBean THREADS = threads();
    private static final Path SCHEDSTAT = Path.of("/proc/thread-self/schedstat");

    private static com.sun.management.ThreadMXBean threads() {
        return ManagementFactory.getThreadMXBean() instanceof com.sun.management.ThreadMXBean bean ? bean : null;
    }

    /** Bytes that this thread has allocated on the heap so far; -1 if this JVM does not count them. Allocates none. */
    static long allocatedBytes() {
        return THREADS != null && THREADS.isThreadAllocatedMemorySupported() && THREADS.isThreadAllocatedMemoryEnabled()
                ? THREADS.getCurrentThreadAllocatedBytes()
                : -1;
    }

    /** The accounts so far. */
    static Accounts now() {
        if (THREADS == null || !THREADS.isCurrentThreadCpuTimeSupported()) {
            return new Accounts(-1, -1, waitedNs());
        }
        long user = THREADS.getCurrentThreadUserTime();
        return new Accounts(user, Math.max(0, THREADS.getCurrentThreadCpuTime() - user), waitedNs());
    }

    Accounts since(Accounts earlier) {
        return new Accounts(
                added(userNs, earlier.userNs), added(systemNs, earlier.systemNs), added(waitNs, earlier.waitNs));
    }

    private static long added(long now, long earlier) {
        return now < 0 || earlier < 0 ? -1 : Math.max(0, now - earlier);
    }

    /** The second of the three numbers that Linux keeps of a thread. */
    private static long waitedNs() {
        try {
            return Long.parseLong(Files.readString(SCHEDSTAT).split(" ")[1]);
        } catch (IOException | RuntimeException e) {
            return -1;
        }
    }
}
