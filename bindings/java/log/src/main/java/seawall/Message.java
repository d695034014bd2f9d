package seawall;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A message that a queue handed out: {@link #ack} it. Closed without that, it is given back. One that is forgotten stays out until its
 * queue is closed, or its time is over.
 */
public final class Message implements AutoCloseable {
    private final Queue queue;
    private final Queue.Letter letter;
    /** What the library gives it back by; null once that is used. */
    private final AtomicReference<MemorySegment> memory;

    Message(Queue queue, Queue.Letter letter, MemorySegment memory) {
        this.queue = queue;
        this.letter = letter;
        this.memory = new AtomicReference<>(memory);
    }

    /** {@return its number in the queue, which {@link Queue#put} returned} */
    public long id() {
        return letter.id();
    }

    /** {@return how often it was handed out, this time included, by any process} */
    public int attempt() {
        return letter.attempts();
    }

    /** {@return what was put} */
    public byte[] body() {
        return letter.body();
    }

    /**
     * Returns when it is durable that the message was processed: it is never handed out again.
     *
     * @throws IllegalStateException it was acknowledged, given back or closed before
     * @throws SeawallException as {@link Queue#put}; it may be handed out again then, and acknowledged again
     */
    public void ack() throws SeawallException {
        queue.ackAll(List.of(this));
    }

    /**
     * Gives it back: it is handed out again after the messages that wait now. Does nothing if another consumer has it, because the time
     * for it was over.
     *
     * @param delay it is not handed out before that is over
     * @throws IllegalStateException as {@link #ack}
     * @throws SeawallException as {@link Queue#put}
     */
    public void nack(Duration delay) throws SeawallException {
        queue.nack(this, delay);
    }

    /** Gives it back if it was neither acknowledged nor given back; does not wait for that. */
    @Override
    public void close() {
        MemorySegment left = memory.getAndSet(null);
        if (left != null) {
            Queue.free(left);
        }
    }

    MemorySegment take() {
        MemorySegment taken = memory.getAndSet(null);
        if (taken == null) {
            throw new IllegalStateException("message " + id() + " was acknowledged, given back or closed before");
        }
        return taken;
    }

    void keep(MemorySegment left) {
        memory.set(left);
    }
}
