package seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

/** Tests of the log what the table of cases, which every language runs, cannot say: forms of appends, threads, exceptions, reports. */
class LogTest extends Fixture {
    @Test
    void whatIsAppendedInAnyFormIsReadBackAfterReopening() throws Exception {
        try (Log log = Log.open(dir);
                Arena arena = Arena.ofConfined()) {
            assertEquals(Tail.Kind.NEW, log.opened().tail().kind());
            log.append(bytes("array"));
            log.append(bytes("part of an array"), 0, 4);
            ByteBuffer heap = ByteBuffer.wrap(bytes("..heap")).position(2);
            log.append(heap);
            assertEquals(2, heap.position());
            log.append(ByteBuffer.wrap(bytes("read-only")).asReadOnlyBuffer());
            log.append(ByteBuffer.allocateDirect(6).put(bytes("direct")).flip());
            log.append(arena.allocateFrom("native").asSlice(0, 6));
            log.append(new byte[0]);
            // Longer than a batch, so that the copying call refuses it.
            long end = log.append(bytes("x".repeat(3 << 20)));
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
        try (Log log = openSmall()) {
            long end = log.transaction(transaction -> transaction
                    .append(bytes("debit"))
                    .append(7, bytes("of a stream"))
                    .append(ByteBuffer.wrap(bytes("credit"))));
            assertThrows(IllegalStateException.class, () -> log.transaction(transaction -> {
                transaction.append(bytes("never"));
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
                assertEquals(end, refused(ErrorCode.TIMED_OUT, () -> cursor.next(Duration.ofMillis(1))).at());
            }
            assertEquals(end, log.<RuntimeException>transaction(transaction -> {}));
        }
    }

    @Test
    void whatWasTrimmedIsRefusedWithWhatIsLeft() throws Exception {
        try (Log log = openSmall()) {
            LogStream stream = log.stream(3);
            for (int i = 0; i < 3; i++) {
                assertEquals(i, stream.append(ByteBuffer.wrap(bytes("record " + i))).sequence());
            }
            log.commit(stream.trim(1));
            assertEquals("record 1", text(stream.get(1).bytes()));
            assertEquals(1, ((TrimmedException) refused(ErrorCode.STREAM_TRIMMED, () -> stream.get(0))).limit());
            log.commit(stream.remove());
            long end = log.appendedLsn();
            try (Pin pin = log.pin(0)) {
                assertEquals(0, log.trim(end));
                assertEquals(0, log.stats().pinnedLsn());
            }
            assertEquals(end, log.trim(end));
            assertEquals(end, assertThrows(TrimmedException.class, () -> log.read(0)).limit());
            assertEquals(end, log.lsnAt(Instant.EPOCH));
        }
    }

    @Test
    void aFollowerGetsWhatIsCommittedLaterAndEndsWithTheLog() throws Exception {
        for (Thread.Builder kind : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
            Path at = dir.resolve(kind.getClass().getSimpleName());
            Log log = Log.open(at, small());
            List<String> followed = new ArrayList<>();
            CountDownLatch waited = new CountDownLatch(1);
            CountDownLatch two = new CountDownLatch(2);
            Workers follower = new Workers().start(kind, () -> {
                try (Cursor cursor = log.read(0)) {
                    assertThrows(LogTimeoutException.class, () -> cursor.next(Duration.ofMillis(1)));
                    waited.countDown();
                    while (cursor.next(LONG)) {
                        followed.add(text(cursor.bytes()));
                        two.countDown();
                    }
                }
            });
            waited.await();
            log.commit(log.append(bytes("one")));
            log.commit(log.append(bytes("two")));
            two.await();
            log.close();
            follower.join();
            assertEquals(List.of("one", "two"), followed);
        }
    }

    @Test
    void anInterruptEndsAWaitAndLeavesTheLogOpen() throws Exception {
        try (Log log = openSmall();
                Cursor cursor = log.read(0)) {
            Workers waiter = new Workers().start(() -> assertThrows(InterruptedException.class, () -> cursor.next(LONG)));
            waiter.last().interrupt();
            waiter.join();
            long end = log.append(bytes("one"));
            Thread.currentThread().interrupt();
            log.commit(end);
            assertTrue(Thread.interrupted(), "a commit that is not interruptible keeps the interrupt");
            assertTrue(log.durableLsn() >= end);
            long next = log.append(bytes("two"));
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
        try (Log log = openSmall()) {
            LogLockedException refusal = assertThrows(LogLockedException.class, () -> Log.open(dir, small()));
            assertEquals(ErrorCode.LOCKED, refusal.code());
            assertTrue(refusal.path().startsWith(dir), refusal::toString);
            log.commit(log.append(bytes("one")));
            try (View view = View.open(dir)) {
                assertEquals(Tail.Kind.WRITTEN, view.state().tail().kind());
                assertEquals(true, view.state().writer().orElseThrow());
                Cursor follower = view.read(0, true);
                log.commit(log.append(bytes("two")));
                assertTrue(follower.next(LONG));
                assertTrue(follower.next(LONG));
                assertEquals("two", text(follower.bytes()));
                log.close();
                assertFalse(follower.next(LONG));
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
    void aLogWithoutRoomSaysSoAndStaysOpen() throws Exception {
        try (Log log = Log.open(dir, small().diskBytesMax(6 * (64 << 10), true))) {
            DiskFullException full = assertThrows(DiskFullException.class, () -> {
                while (true) {
                    log.commit(log.append(new byte[4096]));
                }
            });
            assertEquals(ErrorCode.DISK_CAP, full.code());
            log.trim(log.durableLsn());
            log.commit(log.append(new byte[100]));
        }
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
    }

    @Test
    void commitsOfALowerClassAndStatsAreServed() throws Exception {
        try (Log log = openSmall()) {
            long end = log.append(bytes("one"));
            log.commit(end, Durability.PROCESS_CRASH);
            assertTrue(log.lsnSurviving(Durability.PROCESS_CRASH) >= end);
            log.commit(end, Durability.POWER_LOSS);
            assertTrue(log.lsnSurviving(Durability.POWER_LOSS) >= end);
            LogStats stats = log.stats();
            assertEquals(1, stats.records());
            assertEquals(end, stats.appendedLsn());
            assertEquals(-1, stats.pinnedLsn());
            assertTrue(stats.batches() >= 1 && stats.writeNanos().count() >= 1 && stats.batchRecords().max() >= 1, stats::toString);
        }
    }
}
