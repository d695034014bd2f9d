package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.consumer.RecordingStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the futures of commits: their order, their end, and that a virtual thread which commits does not hold its carrier. */
class FuturesTest {
    private static final int THREADS = 64;
    private static final int ROUNDS = 10;

    @TempDir
    Path dir;

    @Test
    void futuresAreCompletedInTheOrderOfTheirLsnsByOneThread() throws Exception {
        List<Long> order = Collections.synchronizedList(new ArrayList<>());
        List<String> threads = Collections.synchronizedList(new ArrayList<>());
        try (Log log = Log.open(dir, LogTest.small())) {
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            List<Thread> writers = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                writers.add(Thread.ofPlatform().start(() -> {
                    try {
                        for (int record = 0; record < 200; record++) {
                            long lsn = log.append(new byte[50]);
                            CompletableFuture<Long> future = log.commitAsync(lsn);
                            boolean early = future.isDone();
                            CompletableFuture<Void> seen = future.thenAccept(durable -> {
                                if (!early && Thread.currentThread().getName().startsWith("seawall-commits")) {
                                    order.add(durable);
                                    threads.add(Thread.currentThread().getName());
                                }
                            });
                            synchronized (futures) {
                                futures.add(future);
                            }
                            assertFalse(seen.isCompletedExceptionally());
                        }
                    } catch (SeawallException refused) {
                        throw new IllegalStateException(refused);
                    }
                }));
            }
            for (Thread writer : writers) {
                writer.join();
            }
            CompletableFuture.allOf(futures.toArray(CompletableFuture[]::new)).get();
            assertEquals(800, futures.size());
        }
        assertTrue(order.size() > 100, "most commits are not done when they are requested: " + order.size());
        assertEquals(1, threads.stream().distinct().count());
    }

    /** Within one thread of the caller's, later futures are never done before earlier ones. */
    @Test
    void noFutureOfAWriterIsDoneBeforeAnEarlierOne() throws Exception {
        try (Log log = Log.open(dir, LogTest.small())) {
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
        AtomicReference<Throwable> problem = new AtomicReference<>();
        // No marks of an idle log among the batches.
        try (Log log = Log.open(dir, LogTest.small().set("idle_mark_ns", Duration.ofHours(1).toNanos()))) {
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                threads.add(Thread.ofVirtual().start(() -> {
                    try {
                        for (int round = 0; round < ROUNDS; round++) {
                            commit.run(log, log.append(new byte[100]));
                        }
                    } catch (Throwable thrown) {
                        problem.set(thrown);
                    }
                }));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(null, problem.get());
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

    @Test
    void theJvmReportsNoPinnedVirtualThread() throws Exception {
        AtomicInteger pinned = new AtomicInteger();
        try (RecordingStream events = new RecordingStream()) {
            events.enable("jdk.VirtualThreadPinned").withoutThreshold();
            events.onEvent("jdk.VirtualThreadPinned", event -> pinned.incrementAndGet());
            events.startAsync();
            batches(dir, Log::commit);
            events.stop();
        }
        assertEquals(0, pinned.get());
        try (RecordingStream events = new RecordingStream()) {
            events.enable("jdk.VirtualThreadPinned").withoutThreshold();
            events.onEvent("jdk.VirtualThreadPinned", event -> pinned.incrementAndGet());
            events.startAsync();
            Thread.ofVirtual().start(() -> assertEquals(1, Pinning.ONCE)).join();
            events.stop();
        }
        assertTrue(pinned.get() > 0, "the events show a thread that does hold its carrier");
    }

    @Test
    void commitsOfAClassAndTransactionsLetOthersUseTheCarrier() throws Exception {
        long held = THREADS * ROUNDS;
        long shared = batches(dir.resolve("class"), (log, lsn) -> log.commit(lsn, Durability.POWER_LOSS));
        assertTrue(shared * 4 < held, "commits of a class: " + shared + " batches");
        // A transaction waits for the trim that another virtual thread makes, on the same carrier.
        try (Log log = Log.open(dir.resolve("full"), LogTest.small().diskBytesMax(6 * (64 << 10), false))) {
            AtomicReference<Throwable> problem = new AtomicReference<>();
            Thread writer = Thread.ofVirtual().start(() -> {
                try {
                    for (int i = 0; i < 100; i++) {
                        log.commit(log.transaction(transaction -> transaction.append(new byte[6000])));
                    }
                } catch (Throwable thrown) {
                    problem.set(thrown);
                }
            });
            Thread trimmer = Thread.ofVirtual().start(() -> {
                try {
                    while (writer.isAlive()) {
                        log.trim(log.durableLsn());
                        Thread.sleep(1);
                    }
                } catch (Throwable thrown) {
                    problem.set(thrown);
                }
            });
            assertTrue(writer.join(LogTest.LONG), "the carrier was held");
            trimmer.join();
            assertEquals(null, problem.get());
        }
    }

    /** More than the memory for records holds, so that appends must wait; the one carrier has to serve all of them. */
    @Test
    void virtualThreadsThatFillTheMemoryAreServed() throws Exception {
        try (Log log = Log.open(dir, LogTest.small())) {
            List<Thread> threads = new ArrayList<>();
            AtomicReference<Throwable> problem = new AtomicReference<>();
            for (int i = 0; i < 8; i++) {
                threads.add(Thread.ofVirtual().start(() -> {
                    try {
                        for (int record = 0; record < 100; record++) {
                            log.append(new byte[1000]);
                        }
                    } catch (Throwable thrown) {
                        problem.set(thrown);
                    }
                }));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(null, problem.get());
            log.commit(log.appendedLsn());
            assertEquals(800, log.stats().records());
        }
    }
}
