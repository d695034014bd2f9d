package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the log as its callers use it: appends in every form, commits, transactions, streams, cursors, trims, cuts, views, errors. */
class LogTest {
    @TempDir
    Path dir;

    /** A minute: what a wait of a test lasts only when the test fails. */
    static final Duration LONG = Duration.ofMinutes(1);

    static LogOptions small() {
        return new LogOptions().segmentBytes(64 << 10).blockBytes(512).batchBytes(8 << 10).memoryBytes(64 << 10);
    }

    static List<String> texts(Cursor cursor) throws SeawallException {
        List<String> texts = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) {
                texts.add(new String(cursor.bytes(), UTF_8));
            }
        }
        return texts;
    }

    @Test
    void whatIsAppendedInAnyFormIsReadBackAfterReopening() throws Exception {
        try (Log log = Log.open(dir);
                Arena arena = Arena.ofConfined()) {
            assertEquals(Tail.Kind.NEW, log.opened().tail().kind());
            log.append("array".getBytes(UTF_8));
            log.append("part of an array".getBytes(UTF_8), 0, 4);
            ByteBuffer heap = ByteBuffer.wrap("..heap".getBytes(UTF_8)).position(2);
            log.append(heap);
            assertEquals(2, heap.position());
            log.append(ByteBuffer.wrap("read-only".getBytes(UTF_8)).asReadOnlyBuffer());
            log.append(ByteBuffer.allocateDirect(6).put("direct".getBytes(UTF_8)).flip());
            log.append(arena.allocateFrom("native").asSlice(0, 6));
            log.append(new byte[0]);
            // Longer than a batch, so that the copying call refuses it.
            long end = log.append("x".repeat(3 << 20).getBytes(UTF_8));
            assertEquals(end, log.appendedLsn());
            log.commit(end);
            assertTrue(log.durableLsn() >= end);
        }
        try (Log log = Log.open(dir, new LogOptions().create(false))) {
            assertEquals(Tail.Kind.CLEAN, log.opened().tail().kind());
            assertEquals(2, log.opened().epoch());
            List<String> texts = texts(log.read(0));
            assertEquals("x".repeat(3 << 20), texts.removeLast());
            assertEquals(List.of("array", "part", "heap", "read-only", "direct", "native", ""), texts);
        }
    }

    @Test
    void aTransactionIsThereWholeOrNotAtAll() throws Exception {
        try (Log log = Log.open(dir, small())) {
            long end = log.transaction(transaction -> transaction
                    .append("debit".getBytes(UTF_8))
                    .append(7, "of a stream".getBytes(UTF_8))
                    .append(ByteBuffer.wrap("credit".getBytes(UTF_8))));
            assertThrows(IllegalStateException.class, () -> log.transaction(transaction -> {
                transaction.append("never".getBytes(UTF_8));
                throw new IllegalStateException("changed its mind");
            }));
            assertEquals(end, log.appendedLsn());
            log.commit(end);
            try (Cursor cursor = log.read(0)) {
                assertTrue(cursor.next());
                assertFalse(cursor.endsTransaction());
                assertEquals(LogRecord.NO_STREAM, cursor.stream());
                assertTrue(cursor.next());
                assertEquals(7, cursor.stream());
                assertTrue(cursor.next());
                assertTrue(cursor.endsTransaction());
                assertEquals(end, cursor.endLsn());
                assertFalse(cursor.next());
                assertFalse(cursor.hasEnded());
            }
            assertEquals(end, log.<RuntimeException>transaction(transaction -> {}));
        }
    }

    @Test
    void streamsKeepTheirNumbersThroughTrimsCutsAndRemoval() throws Exception {
        try (Log log = Log.open(dir, small())) {
            LogStream stream = log.stream(3);
            for (int i = 0; i < 6; i++) {
                LogStream.Appended appended = stream.append(("record " + i).getBytes(UTF_8));
                assertEquals(i, appended.sequence());
                log.stream(9).append(ByteBuffer.wrap(new byte[] {(byte) i}));
            }
            stream.trim(1);
            log.commit(stream.truncate(4));
            assertEquals(1, stream.first());
            assertEquals(4, stream.next());
            assertArrayEquals(new int[] {3, 9}, log.streams());
            assertEquals(List.of("record 1", "record 2", "record 3"), texts(stream.read(1)));
            assertEquals("record 2", new String(stream.get(2).bytes(), UTF_8));
            assertEquals(ErrorCode.STREAM_TRIMMED, assertThrows(TrimmedException.class, () -> stream.get(0)).code());
            assertEquals(ErrorCode.STREAM_END, assertThrows(SeawallException.class, () -> stream.get(4)).code());
            log.commit(stream.remove());
            assertArrayEquals(new int[] {9}, log.streams());
            assertThrows(IllegalArgumentException.class, () -> log.stream(1 << 24));
        }
    }

    @Test
    void trimsPinsAndCutsMoveTheEndsOfTheLog() throws Exception {
        try (Log log = Log.open(dir, small())) {
            List<Long> ends = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                ends.add(log.append(("record " + i).getBytes(UTF_8)));
            }
            log.commit(ends.getLast());
            assertEquals("record 3", new String(log.readAt(ends.get(2)).bytes(), UTF_8));
            assertEquals("record 3", new String(log.readBefore(ends.get(3)).bytes(), UTF_8));
            assertNull(log.readBefore(0));
            assertEquals(ErrorCode.NO_RECORD, assertThrows(SeawallException.class, () -> log.readAt(1)).code());
            try (Pin pin = log.pin(ends.get(1))) {
                assertEquals(ends.get(1), log.trim(ends.get(4)));
                assertEquals(ends.get(1), log.stats().pinnedLsn());
            }
            assertEquals(ends.get(4), log.trim(ends.get(4)));
            assertEquals(ends.get(4), log.firstLsn());
            TrimmedException trimmed = assertThrows(TrimmedException.class, () -> log.read(0));
            assertEquals(ends.get(4), trimmed.limit());
            log.commit(log.truncateAfter(ends.get(6)));
            assertEquals(List.of("record 5", "record 6"), texts(log.read(log.firstLsn())));
            assertEquals(log.firstLsn(), log.lsnAt(Instant.EPOCH));
            assertEquals(ErrorCode.BEYOND_END, assertThrows(SeawallException.class, () -> log.commit(1L << 40)).code());
            assertEquals(
                    ErrorCode.BEYOND_END,
                    assertInstance(assertThrows(ExecutionException.class, () -> log.commitAsync(1L << 40).get())).code());
        }
    }

    private static SeawallException assertInstance(ExecutionException failed) {
        return (SeawallException) failed.getCause();
    }

    @Test
    void aViewOfTheBytesEndsWithTheStepToTheNextRecord() throws Exception {
        try (Log log = Log.open(dir, small())) {
            log.append("one".getBytes(UTF_8));
            log.commit(log.append("two".getBytes(UTF_8)));
            Cursor cursor = log.read(0);
            assertThrows(IllegalStateException.class, cursor::lsn);
            assertTrue(cursor.next());
            MemorySegment one = cursor.payload();
            assertSame(one, cursor.payload());
            assertTrue(one.isReadOnly());
            assertEquals('o', one.get(java.lang.foreign.ValueLayout.JAVA_BYTE, 0));
            LogRecord kept = cursor.record();
            assertTrue(cursor.next());
            assertThrows(IllegalStateException.class, () -> one.get(java.lang.foreign.ValueLayout.JAVA_BYTE, 0));
            assertEquals("one", new String(kept.bytes(), UTF_8));
            MemorySegment two = cursor.payload();
            cursor.close();
            assertThrows(IllegalStateException.class, () -> two.get(java.lang.foreign.ValueLayout.JAVA_BYTE, 0));
            assertThrows(LogClosedException.class, cursor::next);
            cursor.close();
        }
    }

    @Test
    void aFollowerGetsWhatIsCommittedLaterAndEndsWithTheLog() throws Exception {
        for (boolean virtual : new boolean[] {false, true}) {
            Path at = dir.resolve("log-" + virtual);
            Log log = Log.open(at, small());
            List<String> followed = new ArrayList<>();
            AtomicReference<Throwable> problem = new AtomicReference<>();
            CountDownLatch two = new CountDownLatch(2);
            Thread follower = (virtual ? Thread.ofVirtual() : Thread.ofPlatform()).start(() -> {
                try (Cursor cursor = log.read(0)) {
                    while (cursor.next(LONG)) {
                        followed.add(new String(cursor.bytes(), UTF_8));
                        two.countDown();
                    }
                    assertTrue(cursor.hasEnded());
                } catch (Throwable thrown) {
                    problem.set(thrown);
                }
            });
            log.commit(log.append("one".getBytes(UTF_8)));
            log.commit(log.append("two".getBytes(UTF_8)));
            two.await();
            log.close();
            follower.join();
            assertNull(problem.get());
            assertEquals(List.of("one", "two"), followed);
        }
    }

    @Test
    void anInterruptEndsAWaitAndLeavesTheLogOpen() throws Exception {
        try (Log log = Log.open(dir, small());
                Cursor cursor = log.read(0)) {
            AtomicReference<Throwable> ended = new AtomicReference<>();
            Thread waiter = Thread.ofPlatform().start(() -> {
                try {
                    cursor.next(LONG);
                } catch (Throwable thrown) {
                    ended.set(thrown);
                }
            });
            waiter.interrupt();
            waiter.join();
            assertTrue(ended.get() instanceof InterruptedException, () -> String.valueOf(ended.get()));
            long end = log.append("one".getBytes(UTF_8));
            Thread.currentThread().interrupt();
            log.commit(end);
            assertTrue(Thread.interrupted(), "a commit that is not interruptible keeps the interrupt");
            assertTrue(log.durableLsn() >= end);
            long next = log.append("two".getBytes(UTF_8));
            Thread.currentThread().interrupt();
            boolean interrupted = false;
            try {
                log.commit(next, LONG);
            } catch (InterruptedException expected) {
                interrupted = true;
            }
            assertTrue(interrupted != Thread.interrupted(), "it was interrupted, or done before and the interrupt is kept");
            log.commit(next, LONG);
            assertEquals(List.of("one", "two"), texts(log.read(0)));
        }
    }

    @Test
    void twoWritersAreRefusedAndAViewIsNot() throws Exception {
        try (Log log = Log.open(dir, small())) {
            LogLockedException refusal = assertThrows(LogLockedException.class, () -> Log.open(dir, small()));
            assertEquals(ErrorCode.LOCKED, refusal.code());
            assertTrue(refusal.path().startsWith(dir), refusal::toString);
            log.commit(log.append("one".getBytes(UTF_8)));
            try (View view = View.open(dir)) {
                assertEquals(Tail.Kind.WRITTEN, view.state().tail().kind());
                assertEquals(true, view.state().writer().orElseThrow());
                Cursor follower = view.read(0, true);
                log.commit(log.append("two".getBytes(UTF_8)));
                assertTrue(follower.next(LONG));
                assertTrue(follower.next(LONG));
                assertEquals("two", new String(follower.bytes(), UTF_8));
                log.close();
                assertFalse(follower.next(LONG));
                assertTrue(follower.hasEnded());
                assertTrue(view.renew());
                assertEquals(Tail.Kind.CLEAN, view.state().tail().kind());
                assertEquals(Durability.POWER_LOSS, view.state().durability());
            }
        }
        View closed = View.open(dir);
        closed.close();
        closed.close();
        assertThrows(LogClosedException.class, closed::state);
        Log.open(dir, small()).close();
    }

    @Test
    void everyCallAfterCloseIsDefined() throws Exception {
        Log log = Log.open(dir, small());
        long end = log.append("one".getBytes(UTF_8));
        LogStream stream = log.stream(1);
        stream.append(new byte[1]);
        CompletableFuture<Long> future = log.commitAsync(log.appendedLsn());
        Cursor cursor = log.read(0);
        Pin pin = log.pin(0);
        log.close();
        log.close();
        assertTrue(future.get() > end, "what was requested before is served");
        assertThrows(LogClosedException.class, () -> log.append(new byte[1]));
        assertThrows(LogClosedException.class, () -> log.append(new byte[4 << 20]));
        assertThrows(LogClosedException.class, () -> stream.append(new byte[1]));
        assertThrows(LogClosedException.class, () -> log.transaction(transaction -> transaction.append(new byte[1])));
        assertThrows(LogClosedException.class, () -> log.trim(end));
        assertThrows(LogClosedException.class, () -> log.truncateAfter(0));
        log.commit(end);
        assertThrows(SeawallException.class, () -> log.commit(end + 1000));
        assertThrows(ExecutionException.class, () -> log.commitAsync(end + 1000).get());
        assertEquals(end, log.commitAsync(end).get());
        assertEquals(2, log.stats().records());
        assertTrue(log.durableLsn() > end);
        assertTrue(cursor.next(), "a cursor hands out what is durable");
        cursor.close();
        pin.close();
        pin.close();
    }

    @Test
    void aLogWithoutRoomSaysSoAndStaysOpen() throws Exception {
        LogOptions capped = small().diskBytesMax(6 * (64 << 10), true);
        try (Log log = Log.open(dir, capped)) {
            DiskFullException full = assertThrows(DiskFullException.class, () -> {
                while (true) {
                    log.commit(log.append(new byte[4096]));
                }
            });
            assertEquals(ErrorCode.DISK_CAP, full.code());
            log.trim(log.durableLsn());
            log.commit(log.append(new byte[100]));
        }
        assertEquals(
                ErrorCode.TOO_LONG,
                assertThrows(SeawallException.class, () -> {
                            try (Log log = Log.open(dir, capped.recordBytesMax(10))) {
                                log.append(new byte[11]);
                            }
                        })
                        .code());
    }

    @Test
    void verifyAndBackupsTellWhatTheyFound() throws Exception {
        try (Log log = Log.open(dir.resolve("log"), small())) {
            for (int i = 0; i < 20; i++) {
                log.commit(log.append(new byte[300]));
            }
            Report copied = log.backup(dir.resolve("copy"));
            assertEquals(20, copied.records());
            assertTrue(copied.copied() > 0);
        }
        Report report = Log.verify(dir.resolve("log"));
        assertTrue(report.isSound());
        assertEquals(20, report.records());
        assertEquals(Tail.Kind.CLEAN, report.tail().kind());
        assertEquals(Durability.POWER_LOSS, report.durability());
        assertEquals(512, report.blockBytes());
        Files.writeString(dir.resolve("log/notes.txt"), "foreign");
        Path segment = dir.resolve("log/00000000000000000001.seg");
        damage(segment, 512 + 140);
        report = Log.verify(dir.resolve("log"));
        assertEquals(List.of("notes.txt"), report.foreignFiles());
        assertEquals(1, report.damage().size());
        assertEquals(segment, report.damage().getFirst().path());
        assertEquals(512, report.damage().getFirst().offset());
        assertEquals(19, report.records());
        LogDamagedException damaged = assertThrows(LogDamagedException.class, () -> Log.open(dir.resolve("log"), small()));
        assertEquals(segment, damaged.path());
        assertEquals(20, Log.backup(dir.resolve("copy"), dir.resolve("again")).records());
        assertEquals(
                ErrorCode.NOT_A_LOG,
                assertThrows(SeawallException.class, () -> Log.open(Files.createDirectory(dir.resolve("none")), new LogOptions().create(false)))
                        .code());
    }

    static void damage(Path segment, int at) throws IOException {
        byte[] bytes = Files.readAllBytes(segment);
        bytes[at] ^= 0x40;
        Files.write(segment, bytes);
    }

    @Test
    void commitsOfALowerClassAndStatsAreServed() throws Exception {
        try (Log log = Log.open(dir, small())) {
            long end = log.append("one".getBytes(UTF_8));
            log.commit(end, Durability.PROCESS_CRASH);
            assertTrue(log.safeLsn(Durability.PROCESS_CRASH) >= end);
            log.commit(end, Durability.POWER_LOSS);
            assertTrue(log.safeLsn(Durability.POWER_LOSS) >= end);
            LogStats stats = log.stats();
            assertEquals(1, stats.records());
            assertEquals(end, stats.appendedLsn());
            assertEquals(-1, stats.pinnedLsn());
            assertTrue(stats.batches() >= 1 && stats.writeNanos().count() >= 1 && stats.batchRecords().max() >= 1, stats::toString);
        }
        try (Log log = Log.open(dir.resolve("weak"), small().durability(Durability.PROCESS_CRASH))) {
            long end = log.append("one".getBytes(UTF_8));
            SeawallException refusal = assertThrows(SeawallException.class, () -> log.commit(end, Durability.POWER_LOSS));
            assertEquals(ErrorCode.BEYOND_PROMISE, refusal.code());
        }
    }
}
