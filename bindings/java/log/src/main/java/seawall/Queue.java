/*
 * Is a queue that several processes share.
 *
 * Invariants: a wait is made of slices of 50 ms at most, between which the thread looks whether it was interrupted; what waits inside the
 * library is called by another thread for a virtual one; a message that a call did not take, because it failed, gets its memory back.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

/**
 * A durable queue in one directory, for any number of producers and consumers in any processes of the machine: the first one that opens it
 * owns its log and serves the others, and another one takes over when it ends.
 *
 * <pre>{@code
 * try (Queue queue = Queue.open(Path.of("jobs"))) {          // in each process
 *     queue.put("resize picture 1".getBytes(UTF_8));         // durable
 *     try (Message message = queue.get()) {                  // waits for one; given back if it is not acknowledged
 *         resize(message.body());
 *         message.ack();                                     // durable: never handed out again
 *     }
 * }
 * }</pre>
 *
 * <p>Safe for any number of threads. A virtual thread that waits holds no carrier.
 */
public final class Queue implements AutoCloseable {
    private final Handle handle;

    private Queue(Handle handle) {
        this.handle = handle;
    }

    /**
     * How a queue is opened.
     *
     * @param log options of the log, for when this process owns it
     * @param redeliverAfter a message that was got and not acknowledged after that is handed out again; null: only when it is given back, or
     *     its process is gone
     * @param maxAttempts a message that was handed out so often becomes a dead letter in place of coming again; 0: never
     */
    public record Options(LogOptions log, Duration redeliverAfter, int maxAttempts) {}

    /**
     * A message that is only shown, because it waits or was tried too often.
     *
     * @param id its number in the queue
     * @param attempts how often it was handed out
     * @param body what was put
     */
    public record Letter(long id, int attempts, byte[] body) {}

    /**
     * What a queue holds now.
     *
     * @param waiting messages that could be handed out
     * @param out messages that are out at consumers
     * @param delayed messages that are delayed
     * @param dead dead letters
     * @param handles how often the queue is open, in all processes
     * @param isOwner whether this process owns the log
     */
    public record Stats(long waiting, long out, long delayed, long dead, long handles, boolean isOwner) {}

    /**
     * Opens the queue in a directory, or makes one: messages come again only when they are given back or their process is gone, however
     * often.
     *
     * @param dir the directory
     * @return the queue
     * @throws SeawallException as {@link #open(Path, Options)}
     */
    public static Queue open(Path dir) throws SeawallException {
        return open(dir, new Options(new LogOptions(), null, 0));
    }

    /**
     * The same with options.
     *
     * @param dir the directory
     * @param options the options
     * @return the queue
     * @throws SeawallException as {@link Log#open(Path, LogOptions)}; the directory has a log that is not a queue's; the process that owns the
     *     queue does not answer
     */
    public static Queue open(Path dir, Options options) throws SeawallException {
        NativeLibrary.load();
        long after = options.redeliverAfter() == null ? -1 : Times.nanos(options.redeliverAfter());
        return new Queue(Handle.of("queue", Native.QUEUE_FREE, (arena, queue) -> options.log().use(log ->
                Native.call(Native.QUEUE_OPEN, Paths.text(arena, dir), log, after, options.maxAttempts(), queue))));
    }

    /**
     * Puts a message; returns when it is durable. Threads and processes that put at once share a write.
     *
     * @param body its bytes
     * @return its number
     * @throws LogClosedException the queue was closed
     * @throws SeawallException as {@link Log#append(byte[])}; the process that owns the queue refused or did not answer
     */
    public long put(byte[] body) throws SeawallException {
        return putAll(List.of(body), Duration.ZERO);
    }

    /**
     * Puts messages, all or none; returns when they are durable.
     *
     * @param bodies the bytes of each
     * @param delay they are not handed out before that is over
     * @return the number of the first one, which those of the others follow
     * @throws SeawallException as {@link #put}
     */
    public long putAll(List<byte[]> bodies, Duration delay) throws SeawallException {
        try (Arena arena = arena()) {
            MemorySegment array = array(arena, Structs.BYTES, bodies.size());
            for (int i = 0; i < bodies.size(); i++) {
                byte[] body = bodies.get(i);
                MemorySegment at = at(array, Structs.BYTES, i);
                at.set(ValueLayout.ADDRESS, Structs.offset(Structs.BYTES, "data"), arena.allocateFrom(ValueLayout.JAVA_BYTE, body));
                at.set(ValueLayout.JAVA_LONG, Structs.offset(Structs.BYTES, "bytes"), body.length);
            }
            return Waits.elsewhere(() -> handle.call(Native.QUEUE_PUT, array, (long) bodies.size(), Times.nanos(delay)));
        }
    }

    /**
     * Waits for the next message.
     *
     * @return the message
     * @throws InterruptedException the thread was interrupted; the queue stays open
     * @throws SeawallException as {@link #put}
     */
    public Message get() throws InterruptedException, SeawallException {
        return get(ChronoUnit.FOREVER.getDuration());
    }

    /**
     * The same for at most some time.
     *
     * @param timeout for how long to wait
     * @return the message
     * @throws LogTimeoutException no message came
     * @throws InterruptedException the thread was interrupted; the queue stays open
     * @throws SeawallException as {@link #put}
     */
    public Message get(Duration timeout) throws InterruptedException, SeawallException {
        List<Message> found = getAll(1, timeout);
        if (found.isEmpty()) {
            throw SeawallException.of(NativeError.here(ErrorCode.TIMED_OUT, 0, "no message came within " + timeout));
        }
        return found.getFirst();
    }

    /**
     * The next messages: this consumer's share of those that wait, among all that do.
     *
     * @param messagesMax how many at most, 1 or more
     * @param timeout for how long to wait for one
     * @return the messages, none if none came
     * @throws InterruptedException the thread was interrupted; the queue stays open
     * @throws SeawallException as {@link #put}
     */
    public List<Message> getAll(int messagesMax, Duration timeout) throws InterruptedException, SeawallException {
        long end = System.nanoTime() + Math.min(Times.nanos(timeout), Long.MAX_VALUE / 2);
        try (Arena arena = arena()) {
            MemorySegment array = array(arena, Structs.MESSAGE, messagesMax);
            while (true) {
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                long slice = Math.clamp(end - System.nanoTime(), 0, Cursor.SLICE_NANOS);
                try {
                    long found = Waits.elsewhere(() -> handle.call(Native.QUEUE_GET, slice, array, (long) messagesMax));
                    if (found > 0 || slice == 0) {
                        List<Message> messages = new ArrayList<>();
                        for (int i = 0; i < found; i++) {
                            MemorySegment at = at(array, Structs.MESSAGE, i);
                            messages.add(new Message(this, letter(at), new Structs.At(at, Structs.MESSAGE).getPointer("memory")));
                        }
                        return messages;
                    }
                } catch (LogTimeoutException over) {
                    // The next slice.
                }
            }
        }
    }

    /**
     * Acknowledges messages together: returns when it is durable that they are never handed out again.
     *
     * @param messages the messages
     * @throws IllegalStateException one was acknowledged, given back or closed before; the others stay as they are
     * @throws SeawallException as {@link #put}; they may be handed out again then, and acknowledged again
     */
    public void ackAll(List<Message> messages) throws SeawallException {
        spend(messages, Native.QUEUE_ACK, messages.size());
    }

    void nack(Message message, Duration delay) throws SeawallException {
        spend(List.of(message), Native.QUEUE_NACK, Times.nanos(delay));
    }

    /** Hands messages to a call, which takes them if it succeeds. */
    private void spend(List<Message> messages, MethodHandle function, long number) throws SeawallException {
        try (Arena arena = arena()) {
            MemorySegment array = array(arena, Structs.MESSAGE, messages.size());
            try {
                for (int i = 0; i < messages.size(); i++) {
                    at(array, Structs.MESSAGE, i).set(ValueLayout.ADDRESS, Structs.offset(Structs.MESSAGE, "memory"), messages.get(i).take());
                }
                Waits.elsewhere(() -> handle.call(function, array, number));
            } finally {
                for (int i = 0; i < messages.size(); i++) {
                    MemorySegment left = new Structs.At(at(array, Structs.MESSAGE, i), Structs.MESSAGE).getPointer("memory");
                    if (left.address() != 0) {
                        messages.get(i).keep(left);
                    }
                }
            }
        }
    }

    static void free(MemorySegment memory) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment message = arena.allocate(Structs.MESSAGE);
            message.set(ValueLayout.ADDRESS, Structs.offset(Structs.MESSAGE, "memory"), memory);
            Native.call(Native.MESSAGE_FREE, message);
        }
    }

    /**
     * The first messages that wait; they stay.
     *
     * @param messagesMax how many at most, 1 or more
     * @return the messages
     * @throws SeawallException as {@link #put}
     */
    public List<Letter> peek(int messagesMax) throws SeawallException {
        return letters(Native.QUEUE_PEEK, messagesMax);
    }

    /**
     * The messages that were tried too often, in the order in which that happened; they stay.
     *
     * @param messagesMax how many at most, 1 or more
     * @return the messages
     * @throws SeawallException as {@link #put}
     */
    public List<Letter> deadLetters(int messagesMax) throws SeawallException {
        return letters(Native.QUEUE_DEAD_LETTERS, messagesMax);
    }

    private List<Letter> letters(MethodHandle function, int messagesMax) throws SeawallException {
        try (Arena arena = arena()) {
            MemorySegment array = array(arena, Structs.MESSAGE, messagesMax);
            long found = Waits.elsewhere(() -> handle.call(function, array, (long) messagesMax));
            List<Letter> letters = new ArrayList<>();
            for (int i = 0; i < found; i++) {
                MemorySegment at = at(array, Structs.MESSAGE, i);
                letters.add(letter(at));
                Native.call(Native.MESSAGE_FREE, at);
            }
            return letters;
        }
    }

    /**
     * Puts all dead letters into the queue again, as new messages.
     *
     * @return how many
     * @throws SeawallException as {@link #put}
     */
    public long retryDeadLetters() throws SeawallException {
        return Waits.elsewhere(() -> handle.call(Native.QUEUE_RETRY_DEAD_LETTERS));
    }

    /**
     * Removes all dead letters.
     *
     * @return how many
     * @throws SeawallException as {@link #put}
     */
    public long dropDeadLetters() throws SeawallException {
        return Waits.elsewhere(() -> handle.call(Native.QUEUE_DROP_DEAD_LETTERS));
    }

    /**
     * Removes all messages that wait or are delayed, not those that are out.
     *
     * @return how many
     * @throws SeawallException as {@link #put}
     */
    public long purge() throws SeawallException {
        return Waits.elsewhere(() -> handle.call(Native.QUEUE_PURGE));
    }

    /**
     * {@return what the queue holds now}
     *
     * @throws SeawallException as {@link #put}
     */
    public Stats stats() throws SeawallException {
        try (Arena arena = arena()) {
            MemorySegment memory = arena.allocate(Structs.QUEUE_STATS);
            Waits.elsewhere(() -> handle.call(Native.QUEUE_GET_STATS, memory, memory.byteSize()));
            Structs.At at = new Structs.At(memory, Structs.QUEUE_STATS);
            return new Stats(at.getLong("waiting"), at.getLong("out"), at.getLong("delayed"), at.getLong("dead"), at.getLong("handles"),
                    at.getLong("is_owner") == 1);
        }
    }

    /**
     * Leaves the queue: what is out here waits again, and calls of other threads end with {@link LogClosedException}. An owner makes
     * everything durable first. Does nothing the second time.
     *
     * @throws SeawallException something could not be made durable; the queue is released all the same
     */
    @Override
    public void close() throws SeawallException {
        try {
            handle.call(Native.QUEUE_CLOSE);
        } catch (LogClosedException before) {
            // The second time.
        } finally {
            handle.end();
        }
    }

    /** For calls that another thread makes if this one is virtual. */
    private static Arena arena() {
        return Thread.currentThread().isVirtual() ? Arena.ofShared() : Arena.ofConfined();
    }

    private static MemorySegment array(Arena arena, StructLayout layout, int count) {
        return arena.allocate(layout, Math.max(1, count));
    }

    private static MemorySegment at(MemorySegment array, StructLayout layout, int at) {
        return array.asSlice(at * layout.byteSize(), layout);
    }

    private static Letter letter(MemorySegment memory) {
        Structs.At at = new Structs.At(memory, Structs.MESSAGE);
        byte[] body = at.getPointer("data").reinterpret(at.getLong("bytes")).toArray(ValueLayout.JAVA_BYTE);
        return new Letter(at.getLong("id"), at.getInt("attempts"), body);
    }
}
