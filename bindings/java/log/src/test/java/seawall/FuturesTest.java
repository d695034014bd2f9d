package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.consumer.RecordingStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests the futures of commits: their order, their end, and that a virtual thread which commits does not hold its carrier. */
class FuturesTest extends Fixture {
    private static final int THREADS = 64;
    private static final int ROUNDS = 10;

    @Test
    void futuresAreCompletedInTheOrderOfTheirLsnsByOneThread() throws Exception {
        List<String> threads = Collections.synchronizedList(new ArrayList<>());
        List<CompletableFuture<Void>> futures = Collections.synchronizedList(new ArrayList<>());
        try (Log log = openSmall()) {
            Workers writers = new Workers();
            for (int i = 0; i < 4; i++) {
                writers.start(() -> {
                    for (int record = 0; record < 200; record++) {
                        CompletableFuture<Long> future = log.commitAsync(log.append(new byte[50]));
                        boolean early = future.isDone();
                        futures.add(future.thenAccept(durable -> {
                            String thread = Thread.currentThread().getName();
                            if (!early && thread.startsWith("seawall-commits")) {
                                threads.add(thread);
                            }
                        }));
                    }
                });
            }
            writers.join();
            CompletableFuture.allOf(futures.toArray(CompletableFuture[]::new)).get();
            assertEquals(800, futures.size());
        }
        assertTrue(threads.size() > 100, "most commits are not done when they are requested: " + threads.size());
        assertEquals(1, threads.stream().distinct().count());
    }

    /** Within one thread of the caller's, later futures are never done before earlier ones. */
    @Test
    void noFutureOfAWriterIsDoneBeforeAnEarlierOne() throws Exception {
        try (Log log = openSmall()) {
            List<Long> order = Collections.synchronizedList(new ArrayList<>());
            List<CompletableFuture<?>> all = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                all.add(log.appendDurable(new byte[20]).thenAccept(order::add));
            }
            CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).get();
            List<Long> sorted = new ArrayList<>(order);
            Collections.sort(sorted);
            assertEquals(sorted, order);
            assertEquals(500, order.size());
        }
    }

    private interface Commit {
        void run(Log log, long lsn) throws Exception;
    }

    /** Batches that it took to commit a record of each virtual thread in each round. */
    private static long batches(Path dir, Commit commit) throws Exception {
        // No marks of an idle log among the batches.
        try (Log log = Log.open(dir, small().set("idle_mark_ns", Duration.ofHours(1).toNanos()))) {
            Workers workers = new Workers();
            for (int i = 0; i < THREADS; i++) {
                workers.start(Thread.ofVirtual(), () -> {
                    for (int round = 0; round < ROUNDS; round++) {
                        commit.run(log, log.append(new byte[100]));
                    }
                });
            }
            workers.join();
            assertEquals(THREADS * ROUNDS, log.stats().records());
            return log.stats().batches();
        }
    }

    /** There is one carrier: were it held for the length of a commit, every record would need a batch of its own. */
    @Test
    void virtualThreadsThatCommitShareBatchesOnOneCarrier() throws Exception {
        assertEquals("1", System.getProperty("jdk.virtualThreadScheduler.maxPoolSize"));
        long held = batches(dir.resolve("held"), Log::commitHere);
        long shared = batches(dir.resolve("shared"), Log::commit);
        assertTrue(held >= THREADS * ROUNDS, "commits that hold the carrier: " + held + " batches");
        assertTrue(shared * 4 < THREADS * ROUNDS, "commits by futures: " + shared + " batches");
    }

    /** A class whose initialisation waits: that holds the carrier, and shows that such events are seen. */
    private static final class Pinning {
        static final int ONCE = pin();

        private static int pin() {
            LockSupport.parkNanos(Duration.ofMillis(20).toNanos());
            return 1;
        }
    }

    /** How often the JVM reports a virtual thread as pinned during this work. */
    private static int pinned(Executable work) throws Exception {
        AtomicInteger pinned = new AtomicInteger();
        try (RecordingStream events = new RecordingStream()) {
            events.enable("jdk.VirtualThreadPinned").withoutThreshold();
            events.onEvent("jdk.VirtualThreadPinned", event -> pinned.incrementAndGet());
            events.startAsync();
            new Workers().start(work).join();
            events.stop();
        }
        return pinned.get();
    }

    @Test
    void theJvmReportsNoPinnedVirtualThread() throws Exception {
        assertEquals(0, pinned(() -> batches(dir, Log::commit)));
        int held = pinned(() -> Thread.ofVirtual().start(() -> assertEquals(1, Pinning.ONCE)).join());
        assertTrue(held > 0, "the events show a thread that does hold its carrier");
    }

    @Test
    void commitsOfAClassAndTransactionsLetOthersUseTheCarrier() throws Exception {
        long held = THREADS * ROUNDS;
        long shared = batches(dir.resolve("class"), (log, lsn) -> log.commit(lsn, Durability.POWER_LOSS));
        assertTrue(shared * 4 < held, "commits of a class: " + shared + " batches");
        // A transaction waits for the trim that another virtual thread makes, on the same carrier.
        try (Log log = Log.open(dir.resolve("full"), small().diskBytesMax(6 * (64 << 10), false))) {
            Workers workers = new Workers().start(Thread.ofVirtual(), () -> {
                for (int i = 0; i < 100; i++) {
                    log.commit(log.transaction(transaction -> transaction.append(new byte[6000])));
                }
            });
            Thread writer = workers.last();
            workers.start(Thread.ofVirtual(), () -> {
                while (writer.isAlive()) {
                    log.trim(log.durableLsn());
                    Thread.sleep(1);
                }
            });
            workers.join();
        }
    }

    /** More than the memory for records holds, so that appends must wait; the one carrier has to serve all of them. */
    @Test
    void virtualThreadsThatFillTheMemoryAreServed() throws Exception {
        try (Log log = openSmall()) {
            Workers workers = new Workers();
            for (int i = 0; i < 8; i++) {
                workers.start(Thread.ofVirtual(), () -> {
                    for (int record = 0; record < 100; record++) {
                        log.append(new byte[1000]);
                    }
                });
            }
            workers.join();
            log.commit(log.appendedLsn());
            assertEquals(800, log.stats().records());
        }
    }
}
