package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.BufferedReader;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What a queue does by several handles, of which the first owns the log and the others ask it, and what is left of processes that are killed. */
class QueueTest extends Fixture {
    private static final LogOptions LOG = new LogOptions().segmentBytes(1 << 20);

    private static String shown(Message message) {
        return message.id() + " " + text(message.body()) + " " + message.attempt();
    }

    private static List<String> shown(List<Queue.Letter> letters) {
        return letters.stream().map(letter -> letter.id() + " " + text(letter.body()) + " " + letter.attempts()).toList();
    }

    @Test
    void messagesComeInOrderUntilTheyAreAcknowledgedAndFailuresBecomeDeadLetters() throws Exception {
        Queue.Options options = new Queue.Options(LOG, null, 2);
        try (Queue owner = Queue.open(dir, options);
                Queue other = Queue.open(dir, options)) {
            assertEquals(0, owner.put(bytes("a")));
            assertEquals(1, other.putAll(List.of(bytes("bad"), new byte[0]), Duration.ZERO));
            other.putAll(List.of(bytes("tomorrow")), Duration.ofDays(1));
            assertEquals(List.of("0 a 0", "1 bad 0"), shown(owner.peek(2)));
            List<Message> all = other.getAll(9, LONG);
            assertEquals(List.of("0 a 1", "1 bad 1", "2  1"), all.stream().map(QueueTest::shown).toList());
            assertEquals(new Queue.Stats(0, 3, 1, 0, 2, false), other.stats());
            assertEquals(new Queue.Stats(0, 3, 1, 0, 2, true), owner.stats());
            all.getFirst().ack();
            assertThrows(IllegalStateException.class, all.getFirst()::ack);
            all.get(1).nack(Duration.ZERO);
            all.get(2).close();
            Message bad = owner.get();
            Message empty = other.get(LONG);
            assertEquals("1 bad 2", shown(bad));
            bad.nack(Duration.ofDays(1));
            assertEquals(List.of("1 bad 2"), shown(other.deadLetters(9)));
            // With one that was given back before: refused, and the other one stays.
            assertThrows(IllegalStateException.class, () -> owner.ackAll(List.of(empty, bad)));
            assertEquals(1, other.stats().out());
            empty.close();
            assertEquals(List.of("1 bad 2", "2  2"), shown(other.deadLetters(9)));
            assertEquals(2, other.retryDeadLetters());
            assertEquals(0, other.dropDeadLetters());
            other.ackAll(other.getAll(1, LONG));
            assertEquals(List.of("5  0"), shown(owner.peek(9)));
            assertEquals(2, owner.purge());
            assertThrows(LogTimeoutException.class, () -> other.get(Duration.ofMillis(60)));
            refused(ErrorCode.INVALID_ARGUMENT, () -> other.getAll(0, LONG));
        }
    }

    @Test
    void timeThatIsOverInterruptsAndClosesEndAWait() throws Exception {
        Queue.Options options = new Queue.Options(LOG, Duration.ofMillis(20), 0);
        Queue queue = Queue.open(dir, options);
        queue.put(bytes("a"));
        Message late = queue.get();
        Message again = queue.get(LONG);
        assertEquals("0 a 2", shown(again));
        again.ack();
        late.close();
        BlockingQueue<Object> seen = new LinkedBlockingQueue<>();
        // There is one carrier: a virtual thread that held it would let no other one put.
        Workers consumers = new Workers().start(Thread.ofVirtual(), () -> {
            Message message = queue.get();
            message.ack();
            seen.add(shown(message));
        });
        new Workers().start(Thread.ofVirtual(), () -> queue.put(bytes("b"))).join();
        assertEquals("1 b 1", seen.poll(LONG.toMillis(), TimeUnit.MILLISECONDS));
        consumers.join();
        new Workers().start(() -> {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, queue::get);
        }).join();
        queue.put(bytes("c"));
        Message last = queue.get(LONG);
        Workers closed = new Workers().untilClosed(() -> queue.getAll(1, LONG).forEach(Message::close));
        queue.close();
        queue.close();
        closed.join();
        refused(ErrorCode.CLOSED, () -> queue.put(new byte[1]));
        refused(ErrorCode.CLOSED, queue::stats);
        refused(ErrorCode.CLOSED, last::ack);
        refused(ErrorCode.CLOSED, () -> last.nack(Duration.ZERO));
        last.close();
    }

    @Test
    void aLogThatIsNoQueueIsRefused() throws Exception {
        try (Log log = openSmall()) {
            log.commit(log.append(bytes("a record")));
        }
        assertEquals(dir, refused(ErrorCode.NOT_A_QUEUE, () -> Queue.open(dir)).path());
    }

    @Test
    void whatAKilledConsumerOrOwnerHadComesAgain() throws Exception {
        try (Queue queue = Queue.open(dir.resolve("ours"))) {
            queue.put(bytes("a"));
            Process consumer = jvm(Child.class, "consumer", dir.resolve("ours").toString()).start();
            killed(consumer, "a, attempt 1");
            try (Message message = queue.get(LONG)) {
                assertEquals("0 a 2", shown(message));
            }
        }
        Process owner = jvm(Child.class, "consumer", dir.resolve("theirs").toString()).start();
        try (BufferedReader printed = owner.inputReader(UTF_8)) {
            assertEquals("by the owner, attempt 1", printed.readLine());
            try (Queue queue = Queue.open(dir.resolve("theirs"))) {
                assertEquals(new Queue.Stats(0, 1, 0, 0, 2, false), queue.stats());
                owner.destroyForcibly().waitFor();
                Message message = queue.get(LONG);
                assertEquals("0 by the owner 2", shown(message));
                message.ack();
                assertEquals(1, queue.put(bytes("next")));
                assertEquals(new Queue.Stats(1, 0, 0, 0, 1, true), queue.stats());
            }
        } finally {
            owner.destroyForcibly();
        }
    }

    private static void killed(Process child, String expected) throws Exception {
        try (BufferedReader printed = child.inputReader(UTF_8)) {
            assertEquals(expected, printed.readLine());
        } finally {
            child.destroyForcibly().waitFor();
        }
    }
}
