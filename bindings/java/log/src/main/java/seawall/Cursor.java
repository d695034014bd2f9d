/*
 * Reads the records of a log, of a stream or of a view, one after the other.
 *
 * The bytes of a record lie in the memory that they were read into, until the next call; what shows them is a view in a shared arena
 * that the next call closes, so that a late access is an exception and never a read of other memory.
 *
 * Invariants: whatever reads that memory, or moves the cursor, holds the lock; a wait is made of slices of 50 ms at most, between which the thread looks whether it was interrupted and whether the
 * cursor was closed; a virtual thread does not wait inside the library, but polls.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;

/**
 * Hands out durable records in order, and waits for more at the end.
 *
 * <p>For one thread at a time, which need not be the same one each time; any thread may close it.
 */
public final class Cursor implements AutoCloseable {
    static final long SLICE_NANOS = 50_000_000;
    private static final long POLL_NANOS_MIN = 100_000;
    private static final long POLL_NANOS_MAX = 5_000_000;
    private static final long LSN = Structs.offset(Structs.RECORD, "lsn");
    private static final long END = Structs.offset(Structs.RECORD, "end");
    private static final long DATA = Structs.offset(Structs.RECORD, "data");
    private static final long BYTES = Structs.offset(Structs.RECORD, "bytes");
    private static final long SEQ = Structs.offset(Structs.RECORD, "seq");
    private static final long STREAM = Structs.offset(Structs.RECORD, "stream");
    private static final long FLAGS = Structs.offset(Structs.RECORD, "flags");

    private final MemorySegment handle;
    private final Cleaner.Cleanable free;
    private final Arena memory = Arena.ofAuto();
    private final MemorySegment record = memory.allocate(Structs.RECORD);
    private final ReentrantLock inCall = new ReentrantLock();
    private volatile boolean there;
    private volatile boolean closed;
    private Arena shown;
    private MemorySegment payload;

    private Cursor(MemorySegment handle) {
        this.handle = handle;
        free = Handle.free(this, Native.CURSOR_FREE, handle);
    }

    static Cursor of(Handle.Making making) throws SeawallException {
        return new Cursor(Handle.pointer(making));
    }

    /**
     * Steps to the next record if it is durable; does not wait for one.
     *
     * @return false if there is none now
     * @throws SeawallException the record was trimmed, is damaged, or could not be read
     */
    public boolean next() throws SeawallException {
        return check(step(0));
    }

    /**
     * Steps to the next record, for which it waits.
     *
     * @param timeout for how long to wait at most
     * @return false if there will be no record: the log was closed, or the writer that the cursor ends with has ended
     * @throws LogTimeoutException the time is over; a later call goes on where this one stopped
     * @throws InterruptedException the thread was interrupted; the cursor and its log stay open, and a later call goes on
     * @throws SeawallException the record was trimmed, is damaged, or could not be read, or the log has failed
     */
    public boolean next(Duration timeout) throws InterruptedException, SeawallException {
        long end = System.nanoTime() + Math.min(Times.nanos(timeout), Long.MAX_VALUE / 2);
        long pause = POLL_NANOS_MIN;
        boolean polls = Thread.currentThread().isVirtual();
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            long left = end - System.nanoTime();
            int found = step(0);
            if (found == 0) {
                // Only a call that waits tells that there will be none; a virtual thread waits no longer than it must for that.
                found = step(polls ? 1 : Math.max(1, Math.min(left, SLICE_NANOS)));
            }
            if (found == ErrorCode.TIMED_OUT.code()) {
                if (left <= 0) {
                    throw SeawallException.of(NativeError.timedOut(NativeError.last().at(), timeout));
                }
                if (polls) {
                    LockSupport.parkNanos(Math.min(pause, left));
                    pause = Math.min(pause * 2, POLL_NANOS_MAX);
                }
                continue;
            }
            return check(found);
        }
    }

    private boolean check(int found) throws SeawallException {
        return Native.checked(found) == 1;
    }

    /** One call; what it returned. */
    private int step(long timeoutNanos) throws SeawallException {
        if (!inCall.tryLock()) {
            throw SeawallException.of(NativeError.here(
                    ErrorCode.BUSY, 0, "another thread is in a call with this cursor: a cursor is for one thread at a time"));
        }
        try {
            if (closed) {
                throw SeawallException.of(NativeError.here(ErrorCode.CLOSED, 0, "the cursor was closed"));
            }
            hide();
            int found = (int) Native.CURSOR_NEXT.invokeExact(handle, timeoutNanos, record);
            there = found == 1;
            return found;
        } catch (SeawallException refused) {
            throw refused;
        } catch (Throwable thrown) {
            throw Native.unexpected(thrown);
        } finally {
            inCall.unlock();
        }
    }

    private void hide() {
        if (shown != null) {
            Handle.end(shown);
            shown = null;
            payload = null;
        }
        there = false;
    }

    private MemorySegment current() {
        if (!there) {
            throw new IllegalStateException(closed ? "the cursor was closed" : "the cursor is at no record: call next first");
        }
        return record;
    }

    /** What {@code look} finds in the bytes of the record, which stay meanwhile. */
    private <T> T held(Function<MemorySegment, T> look) {
        inCall.lock();
        try {
            return look.apply(current());
        } finally {
            inCall.unlock();
        }
    }

    /** {@return where the record starts} */
    public long lsn() {
        return current().get(ValueLayout.JAVA_LONG, LSN);
    }

    /** {@return where the record ends, exclusive: what its append returned} */
    public long endLsn() {
        return current().get(ValueLayout.JAVA_LONG, END);
    }

    /** {@return whether the record is the last one of its transaction, as one by itself is} */
    public boolean endsTransaction() {
        return (current().get(ValueLayout.JAVA_INT, FLAGS) & LogRecord.ENDS_TRANSACTION) != 0;
    }

    /** {@return the number of the record's stream, or {@link LogRecord#NO_STREAM}} */
    public int stream() {
        return current().get(ValueLayout.JAVA_INT, STREAM);
    }

    /** {@return the sequence number of the record in its stream, 0 for a record of the log itself} */
    public long sequence() {
        return current().get(ValueLayout.JAVA_LONG, SEQ);
    }

    /**
     * The bytes of the record where they lie, without a copy: until the next call of {@code next} or {@code close}, by whichever thread; an
     * access after that is an {@link IllegalStateException}. A thread that copies from it at that moment may find its interrupt status set,
     * too, as the JVM ends its copy like that. To end the view the JVM asks all of its threads, which takes it 20 microseconds or more:
     * below some 100 KB {@link #bytes} is faster.
     *
     * @return a read-only view
     */
    public MemorySegment payload() {
        return held(at -> {
            if (shown == null) {
                shown = Arena.ofShared();
                payload = data(at).reinterpret(shown, null).asReadOnly();
            }
            return payload;
        });
    }

    private static MemorySegment data(MemorySegment at) {
        return at.get(ValueLayout.ADDRESS, DATA).reinterpret(at.get(ValueLayout.JAVA_LONG, BYTES));
    }

    /** {@return a copy of the bytes of the record} */
    public byte[] bytes() {
        return held(at -> data(at).toArray(ValueLayout.JAVA_BYTE));
    }

    /** {@return the record with a copy of its bytes, which stays} */
    public LogRecord record() {
        return held(LogRecord::of);
    }

    /** Frees what the cursor holds. A thread that waits in {@link #next(Duration)} gets {@link LogClosedException}, in 50 ms at most. */
    @Override
    public void close() {
        closed = true;
        inCall.lock();
        try {
            hide();
            free.clean();
        } finally {
            inCall.unlock();
        }
    }
}
