/*
 * Is the log of one writing process.
 *
 *     append   critical downcall that copies the record ─► WOULD_BLOCK? a plain downcall that may wait
 *     commit   platform thread: a plain downcall, in which it may write the batch itself; virtual thread: a future
 *
 * Invariants: no critical downcall waits; an interrupt never closes the log; a closed log holds nothing of the library, and answers
 * from what was left when it ended; every call keeps the log reachable until it has returned.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A transaction log that this process writes.
 *
 * <pre>{@code
 * try (Log log = Log.open(Path.of("orders"))) {
 *     long lsn = log.append("order 1".getBytes(UTF_8));   // in memory, in order
 *     log.commit(lsn);                                    // on the disk: survives a power cut
 * }
 * }</pre>
 *
 * <p>Safe for any number of threads. An interrupt never closes the log: {@link #commit(long)} is not interruptible, as a lock is not,
 * {@link #commit(long, Duration)} and {@link #commitAsync} are. A virtual thread that commits waits for a future, so that its carrier
 * serves others meanwhile; opening, closing and reading hold the carrier, as reading a file does.
 *
 * <p>A log that is not closed ends as by a crash: what was committed is there when it is opened again.
 */
public final class Log implements AutoCloseable {
    /** Copies of records for calls that may wait: those cannot read arrays on the heap in place. */
    private static final int SCRATCH_BYTES = 64 << 10;
    private static final ThreadLocal<MemorySegment> SCRATCH =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(SCRATCH_BYTES));
    private static final ThreadLocal<MemorySegment> NUMBER =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(ValueLayout.JAVA_LONG));
    private static final int TRIES = 64;
    private static final int ROUNDS = 3;
    private static final int OWN_CLASS = 0;
    private static final long NO_TIMEOUT = -1;

    private enum Position {
        FIRST,
        APPENDED,
        DURABLE,
        PROCESS_CRASH,
        SYSTEM_CRASH
    }

    /** What is left of a log that was closed: its positions, its counters, and why it was not closed well, if so. */
    private record Left(long[] positions, LogStats stats, SeawallException failure) {}

    private final Handle handle;
    private final Opened opened;
    private final CommitFutures futures;
    private final ReentrantLock ending = new ReentrantLock();
    /** Set before the handle ends. */
    private volatile Left left;

    private Log(Handle handle, Path dir) throws SeawallException {
        this.handle = handle;
        opened = Opened.of(handle.segment());
        futures = new CommitFutures(this, dir.toString());
    }

    /**
     * Opens the log in a directory with the default options: locks it, finds out what is durable and makes the log ready. Without a log
     * there it makes one.
     *
     * @param dir the directory
     * @return the log
     * @throws LogLockedException another writer holds it
     * @throws LogDamagedException acknowledged data is damaged
     * @throws SeawallException it cannot be opened
     */
    public static Log open(Path dir) throws SeawallException {
        return open(dir, new LogOptions());
    }

    /**
     * The same with options.
     *
     * @param dir the directory
     * @param options the options
     * @return the log
     * @throws LogLockedException another writer holds it
     * @throws LogDamagedException acknowledged data is damaged
     * @throws SeawallException it cannot be opened, or an option is out of bounds
     */
    public static Log open(Path dir, LogOptions options) throws SeawallException {
        NativeLibrary.load();
        Handle opened = Handle.of("log", Native.LOG_FREE, (arena, log) ->
                options.use(made -> Native.call(Native.LOG_OPEN, Paths.text(arena, dir), made, log)));
        return new Log(opened, dir);
    }

    /** {@return what opening found: how the log had ended, and where it began} */
    public Opened opened() {
        return opened;
    }

    /** The handle, for streams. */
    Handle handle() {
        return handle;
    }

    /**
     * Appends a record, which is copied; in memory and in order then, not yet durable: see {@link #commit(long)}. Waits
     * only when the memory for records is full or no prepared segment is left; otherwise it allocates nothing.
     *
     * @param record its bytes
     * @return the LSN of its end
     * @throws DiskFullException there is no room for it; nothing was written and the log stays open
     * @throws LogFailedException the log has failed
     * @throws LogClosedException the log was closed
     * @throws SeawallException the record is too long
     */
    public long append(byte[] record) throws SeawallException {
        long end = tryAppend(MemorySegment.ofArray(record));
        // The segment above must not be used here: one that might escape would be allocated for every record.
        return end >= 0 ? end : appendRefused(LogRecord.NO_STREAM, MemorySegment.ofArray(record), MemorySegment.NULL, end);
    }

    /**
     * The same with a part of an array, for which it makes one small object.
     *
     * @param bytes the array
     * @param from where the record starts in it
     * @param length how many bytes it has
     * @return the LSN of its end
     * @throws SeawallException as {@link #append(byte[])}
     */
    public long append(byte[] bytes, int from, int length) throws SeawallException {
        return append(MemorySegment.ofArray(bytes).asSlice(from, length));
    }

    /**
     * The same with the bytes between position and limit of a buffer, which stay as they are. Makes one small object.
     *
     * @param record the buffer
     * @return the LSN of its end
     * @throws SeawallException as {@link #append(byte[])}
     */
    public long append(ByteBuffer record) throws SeawallException {
        return append(MemorySegment.ofBuffer(record));
    }

    /**
     * The same with the bytes of a segment, on the heap or outside.
     *
     * @param record the segment
     * @return the LSN of its end
     * @throws SeawallException as {@link #append(byte[])}
     */
    public long append(MemorySegment record) throws SeawallException {
        long end = tryAppend(record);
        return end >= 0 ? end : appendRefused(LogRecord.NO_STREAM, record, MemorySegment.NULL, end);
    }

    /**
     * The same, but where it would wait or take long it accepts nothing: when the memory is full, no prepared segment has room, another
     * thread is in the log just now, or the record fills a batch of its own.
     *
     * @param record its bytes
     * @return the LSN of its end
     * @throws SeawallException as {@link #append(byte[])}, and with {@link ErrorCode#WOULD_BLOCK}
     */
    public long tryAppend(byte[] record) throws SeawallException {
        return Native.checked(tryAppend(MemorySegment.ofArray(record)));
    }

    /** The call that only copies. It must be small, or a segment made for it is allocated for every record. */
    private long tryAppend(MemorySegment record) throws SeawallException {
        try {
            return (long) Native.LOG_TRY_APPEND.invokeExact(handle.segment(), record, record.byteSize());
        } catch (Throwable thrown) {
            throw handle.refused(thrown);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    long appendTo(int stream, MemorySegment record, MemorySegment sequence) throws SeawallException {
        long end = tryAppend(stream, record, sequence);
        return end >= 0 ? end : appendRefused(stream, record, sequence, end);
    }

    private long tryAppend(int stream, MemorySegment record, MemorySegment sequence) throws SeawallException {
        try {
            return (long) Native.STREAM_TRY_APPEND.invokeExact(handle.segment(), stream, record, record.byteSize(), sequence);
        } catch (Throwable thrown) {
            throw handle.refused(thrown);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The copying call returned an error: mostly that it would have had to wait. */
    private long appendRefused(int stream, MemorySegment record, MemorySegment sequence, long refusal) throws SeawallException {
        if (refusal != ErrorCode.WOULD_BLOCK.code()) {
            throw SeawallException.of(NativeError.last());
        }
        if (Thread.currentThread().isVirtual()) {
            long end = appendWithoutHolding(stream, record, sequence);
            if (end >= 0) {
                return end;
            }
        }
        return appendWaiting(stream, record, sequence);
    }

    /**
     * A virtual thread that waited inside the library would hold its carrier: it lets others run, and if the memory is full waits for
     * the future of what fills it. A record that does not get in like that, because it fills a batch of its own, gives -1.
     */
    private long appendWithoutHolding(int stream, MemorySegment record, MemorySegment sequence) throws SeawallException {
        for (int round = 0; round < ROUNDS; round++) {
            for (int attempt = 0; attempt < TRIES; attempt++) {
                Thread.yield();
                long end = stream == LogRecord.NO_STREAM ? tryAppend(record) : tryAppend(stream, record, sequence);
                if (end >= 0) {
                    return end;
                }
                if (end != ErrorCode.WOULD_BLOCK.code()) {
                    throw SeawallException.of(NativeError.last());
                }
            }
            Waits.join(commitAsync(appendedLsn()));
        }
        return -1;
    }

    /** The call that may wait, with a copy of the record outside the heap. */
    private long appendWaiting(int stream, MemorySegment record, MemorySegment sequence) throws SeawallException {
        long length = record.byteSize();
        boolean fits = length <= SCRATCH_BYTES && !Thread.currentThread().isVirtual();
        try (Arena arena = fits ? null : Arena.ofConfined()) {
            MemorySegment bytes = record.isNative() ? record : fits ? SCRATCH.get() : arena.allocate(Math.max(1, length));
            MemorySegment number = fits ? NUMBER.get() : arena.allocate(ValueLayout.JAVA_LONG);
            if (!record.isNative()) {
                MemorySegment.copy(record, 0, bytes, 0, length);
            }
            if (stream == LogRecord.NO_STREAM) {
                return Native.checked((long) Native.LOG_APPEND.invokeExact(handle.segment(), bytes, length));
            }
            long end = Native.checked((long) Native.STREAM_APPEND.invokeExact(handle.segment(), stream, bytes, length, number));
            MemorySegment.copy(number, 0, sequence, 0, ValueLayout.JAVA_LONG.byteSize());
            return end;
        } catch (Throwable thrown) {
            throw handle.refused(thrown);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Appends records, over several streams as well, and trims, truncates and removes streams: all becomes durable together or nothing.
     *
     * @param body adds the parts, in order, to the transaction that it is given
     * @param <E> what the body may throw
     * @return the LSN of its end, not yet durable; without parts the end of the log
     * @throws E what the body threw; nothing was done then
     * @throws SeawallException as {@link #append(byte[])}, {@link LogStream#trim} and {@link LogStream#truncate}; nothing was done then
     */
    public <E extends Exception> long transaction(Transaction.Body<E> body) throws E, SeawallException {
        // Shared, for the thread that may append in place of this one.
        try (Arena arena = Thread.currentThread().isVirtual() ? Arena.ofShared() : Arena.ofConfined()) {
            Transaction transaction = new Transaction(arena);
            body.build(transaction);
            MemorySegment parts = transaction.array();
            return Waits.elsewhere(() -> handle.call(Native.LOG_TRANSACTION, parts, (long) transaction.count()));
        }
    }

    /**
     * Returns when everything before an LSN is durable. Concurrent callers share one write. Not interruptible: an interrupt stays set
     * and the log open.
     *
     * @param lsn what an append returned
     * @throws LogFailedException a write or a sync failed
     * @throws LogClosedException the log was closed
     * @throws SeawallException nothing was appended there
     */
    public void commit(long lsn) throws SeawallException {
        if (isDurable(lsn)) {
            return;
        }
        if (Thread.currentThread().isVirtual()) {
            Waits.join(commitAsync(lsn));
        } else {
            commitHere(lsn);
        }
    }

    /**
     * The same for at most some time, and interruptible. A thread of the log writes the batch, which costs a hand-over.
     *
     * @param lsn what an append returned
     * @param timeout for how long to wait at most; 292 years and more are without end
     * @throws InterruptedException the thread was interrupted; the log stays open, and what was appended may still become durable
     * @throws LogTimeoutException the time is over; nothing was cancelled
     * @throws SeawallException as {@link #commit(long)}
     */
    public void commit(long lsn, Duration timeout) throws InterruptedException, SeawallException {
        try {
            commitAsync(lsn).get(Times.nanos(timeout), TimeUnit.NANOSECONDS);
        } catch (TimeoutException over) {
            throw SeawallException.of(NativeError.timedOut(lsn, timeout));
        } catch (ExecutionException failed) {
            throw Waits.unwrapped(failed.getCause());
        }
    }

    /**
     * Returns when everything before an LSN outlives a class, which may be less than the log promises and is then cheaper. Not
     * interruptible.
     *
     * @param lsn what an append returned
     * @param durability the class
     * @throws SeawallException as {@link #commit(long)}; the class is more than the log promises
     */
    public void commit(long lsn, Durability durability) throws SeawallException {
        if (!isDurable(lsn)) {
            Waits.elsewhere(() -> handle.call(Native.LOG_COMMIT, lsn, durability.code(), NO_TIMEOUT));
        }
    }

    /** Whether everything before an LSN is durable, also of a log that was closed. No log has an LSN of 2^63 or more. */
    boolean isDurable(long lsn) {
        return Long.compareUnsigned(lsn, durableLsn()) <= 0;
    }

    /** On this thread, which writes the batch itself if no other one does. */
    void commitHere(long lsn) throws SeawallException {
        int returned;
        try {
            returned = (int) Native.LOG_COMMIT.invokeExact(handle.segment(), lsn, OWN_CLASS, NO_TIMEOUT);
        } catch (Throwable thrown) {
            throw handle.refused(thrown);
        } finally {
            Reference.reachabilityFence(this);
        }
        Native.checked(returned);
    }

    /**
     * Requests that everything before an LSN becomes durable. Futures are completed in the order of their LSNs by one thread of the log,
     * on which dependents run that are not asynchronous: those must not wait. Cancelling a future cancels nothing else. After a failure
     * of the log all its futures get the same exception.
     *
     * @param lsn what an append returned
     * @return a future of the LSN
     */
    public CompletableFuture<Long> commitAsync(long lsn) {
        return futures.request(lsn);
    }

    /**
     * Appends a record and requests that it becomes durable.
     *
     * @param record its bytes
     * @return a future of the LSN of its end
     * @throws SeawallException as {@link #append(byte[])}
     */
    public CompletableFuture<Long> appendDurable(byte[] record) throws SeawallException {
        return commitAsync(append(record));
    }

    /**
     * A stream of the log, which is there with its first record.
     *
     * @param number a number below 2^24
     * @return the stream
     */
    public LogStream stream(int number) {
        return new LogStream(this, number);
    }

    /**
     * {@return the numbers of the streams that the log has, in ascending order}
     *
     * @throws SeawallException the log was closed
     */
    public int[] streams() throws SeawallException {
        int room = 64;
        while (true) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment numbers = arena.allocate(ValueLayout.JAVA_INT, room);
                long there = handle.call(Native.STREAM_LIST, numbers, (long) room);
                if (there <= room) {
                    return numbers.asSlice(0, there * ValueLayout.JAVA_INT.byteSize()).toArray(ValueLayout.JAVA_INT);
                }
                room = Math.toIntExact(there);
            }
        }
    }

    /**
     * Reads the durable records of the log and of its streams, and waits for more at the end.
     *
     * @param lsn where to begin: with the first record at or after it
     * @return a cursor
     * @throws TrimmedException the LSN was trimmed
     * @throws SeawallException it lies past the end, or the log cannot be read there
     */
    public Cursor read(long lsn) throws SeawallException {
        return Cursor.of((arena, cursor) -> handle.call(Native.LOG_READ, lsn, cursor));
    }

    /**
     * Reads the durable record that starts at an LSN, where the record before it ended.
     *
     * @param lsn the LSN
     * @return the record
     * @throws SeawallException no record starts there, or it was trimmed, is not durable, or is damaged
     */
    public LogRecord readAt(long lsn) throws SeawallException {
        return LogRecord.from(record -> handle.call(Native.LOG_READ_AT, lsn, record));
    }

    /**
     * Reads the durable record that ends at an LSN: so, one after the other, the log backwards.
     *
     * @param lsn the LSN
     * @return the record; null at the first LSN that is left
     * @throws SeawallException as {@link #readAt}
     */
    public LogRecord readBefore(long lsn) throws SeawallException {
        return LogRecord.from(record -> handle.call(Native.LOG_READ_BEFORE, lsn, record));
    }

    /**
     * Holds everything from an LSN on against trims.
     *
     * @param lsn the LSN
     * @return the pin, to be closed
     * @throws SeawallException the LSN was trimmed or lies past the end
     */
    public Pin pin(long lsn) throws SeawallException {
        return new Pin(Handle.pointer((arena, pin) -> handle.call(Native.LOG_PIN, lsn, pin)));
    }

    /**
     * Trims everything before an LSN, as far as it is durable and no pin or stream holds it.
     *
     * @param lsn the LSN
     * @return the first LSN that is left
     * @throws SeawallException the LSN lies past the end, or the log has failed or was closed
     */
    public long trim(long lsn) throws SeawallException {
        return handle.call(Native.LOG_TRIM, lsn);
    }

    /**
     * Cuts off every record that belongs to no stream and starts at or after an LSN. Takes effect at once; durable when everything
     * before the returned LSN is. LSNs are not used twice.
     *
     * @param lsn the LSN
     * @return the LSN to commit
     * @throws SeawallException the LSN was trimmed or lies past the end; as {@link #append(byte[])}
     */
    public long truncateAfter(long lsn) throws SeawallException {
        return handle.call(Native.LOG_TRUNCATE_AFTER, lsn);
    }

    /**
     * The LSN of the first record that was appended at or after a time, by the clock of then.
     *
     * @param time the time
     * @return the LSN
     * @throws SeawallException the log cannot be read
     */
    public long lsnAt(Instant time) throws SeawallException {
        return handle.call(Native.LOG_LSN_AT, Times.micros(time));
    }

    /** {@return the end of what is durable; never waits} */
    public long durableLsn() {
        try {
            return (long) Native.LOG_DURABLE.invokeExact(handle.segment(), Position.DURABLE.ordinal());
        } catch (Throwable thrown) {
            handle.refused(thrown);
            return left.positions()[Position.DURABLE.ordinal()];
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * {@return the end of what was appended}
     *
     * @throws SeawallException never for an open log
     */
    public long appendedLsn() throws SeawallException {
        return position(Position.APPENDED);
    }

    /**
     * {@return the first LSN that is left}
     *
     * @throws SeawallException never for an open log
     */
    public long firstLsn() throws SeawallException {
        return position(Position.FIRST);
    }

    /**
     * The end of what outlives a class: never before {@link #durableLsn}.
     *
     * @param durability the class
     * @return an LSN
     * @throws SeawallException never for an open log
     */
    public long lsnSurviving(Durability durability) throws SeawallException {
        return position(
                switch (durability) {
                    case PROCESS_CRASH -> Position.PROCESS_CRASH;
                    case SYSTEM_CRASH -> Position.SYSTEM_CRASH;
                    case POWER_LOSS -> Position.DURABLE;
                });
    }

    private long position(Position which) throws SeawallException {
        try {
            return Native.checked((long) Native.LOG_LSN.invokeExact(handle.segment(), which.ordinal()));
        } catch (Throwable thrown) {
            SeawallException refused = handle.refused(thrown);
            if (refused instanceof LogClosedException) {
                return left.positions()[which.ordinal()];
            }
            throw refused;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * {@return what the log has done since it was opened}
     *
     * @throws SeawallException never for an open log
     */
    public LogStats stats() throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment stats = arena.allocate(Structs.STATS);
            handle.call(Native.LOG_GET_STATS, stats, stats.byteSize());
            return LogStats.of(stats);
        } catch (LogClosedException closed) {
            return left.stats();
        }
    }

    /**
     * Copies everything that is durable now into another directory, which opens as the same log. Other threads append, commit and trim
     * meanwhile.
     *
     * @param to the directory; a backup that is there is brought up to date
     * @return what the copy holds
     * @throws SeawallException it cannot be written, or the log is damaged
     */
    public Report backup(Path to) throws SeawallException {
        return Report.from((arena, report) -> handle.call(Native.LOG_BACKUP, Paths.text(arena, to), report));
    }

    /**
     * Reads all of a log, past the page cache, and reports every damaged place. Needs no lock; a log that is being written may be reported
     * with a torn tail.
     *
     * @param dir its directory
     * @return what was found; damage is no exception here
     * @throws SeawallException the directory holds no log, or one of another format
     */
    public static Report verify(Path dir) throws SeawallException {
        NativeLibrary.load();
        return Report.from((arena, report) -> Native.call(Native.VERIFY, Paths.text(arena, dir), report));
    }

    /**
     * Copies a log, which any process may be writing, into another directory, which opens as the same log.
     *
     * @param from its directory
     * @param to the directory of the copy; a backup that is there is brought up to date
     * @return what the copy holds
     * @throws SeawallException it cannot be written, or the log is damaged
     */
    public static Report backup(Path from, Path to) throws SeawallException {
        NativeLibrary.load();
        return Report.from((arena, report) -> Native.call(Native.BACKUP, Paths.text(arena, from), Paths.text(arena, to), report));
    }

    /**
     * Commits everything and releases the log for other writers; closing it again does nothing. Other threads may be in calls: appends end
     * with {@link LogClosedException}, commits of what was appended are served, cursors end. Waits for the disk, and until the calls of other
     * threads have returned; not interruptible. Afterwards the log holds no files and no memory of the library, but what its open cursors
     * and pins need.
     *
     * @throws LogFailedException something could not be made durable; the log is released all the same
     * @throws SeawallException the log could not be closed
     */
    @Override
    public void close() throws SeawallException {
        SeawallException failure = null;
        try {
            handle.call(Native.LOG_CLOSE);
        } catch (SeawallException refused) {
            failure = refused;
        }
        futures.close();
        ending.lock();
        try {
            if (left == null) {
                left = new Left(positions(), stats(), failure);
            }
            handle.end();
        } finally {
            ending.unlock();
        }
        if (left.failure() != null) {
            throw left.failure();
        }
    }

    private long[] positions() throws SeawallException {
        long[] positions = new long[Position.values().length];
        for (Position which : Position.values()) {
            positions[which.ordinal()] = position(which);
        }
        return positions;
    }

    /** Lets the log go without closing it, as by a crash; nothing may come later: for tests. */
    void abandon() {
        futures.close();
        handle.end();
    }
}
