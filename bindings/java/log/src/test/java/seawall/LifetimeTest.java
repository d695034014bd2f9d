package seawall;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Tests that what is closed holds nothing, and that nothing reads memory of the library behind its end, whichever thread closes. */
class LifetimeTest extends Fixture {
    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");

    /** What the open descriptors of this process lead to; one that is closed meanwhile is left out. */
    private static List<String> descriptors() throws Exception {
        List<String> found = new ArrayList<>();
        try (Stream<Path> open = Files.list(DESCRIPTORS)) {
            for (Path one : open.toList()) {
                try {
                    found.add(Files.readSymbolicLink(one).toString());
                } catch (NoSuchFileException gone) {
                    continue;
                }
            }
        }
        return found;
    }

    private static long anonymousKib() throws Exception {
        String line = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(one -> one.startsWith("RssAnon")).findAny().orElseThrow();
        return Long.parseLong(line.replaceAll("[^0-9]", ""));
    }

    /** The objects stay reachable, so that no collection frees what they hold. */
    @Test
    void aClosedLogHoldsNoDescriptorAndNoMemory() throws Exception {
        Assumptions.assumeTrue(Files.exists(DESCRIPTORS), "this system does not list descriptors: they were not counted");
        List<Object> closed = new ArrayList<>();
        List<String> before = List.of();
        long beforeKib = 0;
        for (int i = 0; i < 30; i++) {
            if (i == 10) {
                before = descriptors();
                beforeKib = anonymousKib();
            }
            Log log = Log.open(dir.resolve("log"));
            LogStream stream = log.stream(1);
            stream.append(new byte[100]);
            log.commit(log.append(new byte[100]));
            try (Cursor cursor = log.read(0);
                    Pin pin = log.pin(0)) {
                assertTrue(cursor.next());
                assertEquals(100, stream.get(0).bytes().length);
            }
            View view = View.open(dir.resolve("log"));
            view.close();
            log.close();
            closed.addAll(List.of(log, stream, view));
        }
        String folder = dir.toRealPath().toString();
        List<String> now = descriptors();
        // The last thread of a log ends a moment after its lock is free.
        for (int looks = 0; looks < 1000 && now.stream().anyMatch(one -> one.startsWith(folder)); looks++) {
            Thread.sleep(10);
            now = descriptors();
        }
        assertEquals(List.of(), now.stream().filter(one -> one.startsWith(folder)).toList());
        // Those without a path: 20 logs hold 20 and more. What other tests left may be collected meanwhile.
        assertTrue(now.size() < before.size() + 10, before + " before, now " + now);
        // Each had at least two buffers of 2 MiB: 20 of them held 80 MiB.
        long grown = anonymousKib() - beforeKib;
        assertTrue(grown < 64 << 10, grown + " KiB");
        assertEquals(90, closed.size());
    }

    @Test
    void aClosedLogAnswersFromWhatWasLeft() throws Exception {
        Log log = openSmall();
        long end = log.append(new byte[10]);
        LogStream stream = log.stream(3);
        stream.append(new byte[1]);
        CompletableFuture<Long> future = log.commitAsync(log.appendedLsn());
        Cursor cursor = log.read(0);
        Pin pin = log.pin(0);
        log.close();
        log.close();
        assertTrue(future.get() > end, "what was requested before is served");
        assertEquals(List.of(0L, log.appendedLsn()), List.of(log.firstLsn(), log.durableLsn()));
        assertTrue(log.appendedLsn() > end);
        assertEquals(log.durableLsn(), log.lsnSurviving(Durability.PROCESS_CRASH));
        assertEquals(2, log.stats().records());
        log.commit(end);
        log.commit(end, Durability.PROCESS_CRASH);
        assertEquals(end, log.commitAsync(end).get());
        List<Executable> closed = List.of(
                () -> log.append(new byte[1]), () -> log.append(new byte[4 << 20]), () -> log.tryAppend(new byte[1]),
                () -> stream.append(new byte[1]), () -> stream.get(0), () -> stream.read(0), () -> stream.first(), () -> log.streams(),
                () -> log.read(0), () -> log.readAt(0), () -> log.readBefore(end), () -> log.pin(0), () -> log.trim(0),
                () -> log.truncateAfter(0), () -> log.lsnAt(Instant.EPOCH), () -> log.backup(dir.resolve("copy")),
                () -> log.commit(1L << 40), () -> log.commit(1L << 40, Durability.PROCESS_CRASH), () -> log.commitAsync(1L << 40).get(),
                () -> log.transaction(transaction -> transaction.append(new byte[1])));
        closed.forEach(call -> refused(ErrorCode.CLOSED, call));
        assertTrue(cursor.next(), "a cursor hands out what is durable");
        cursor.close();
        pin.close();
        pin.close();
    }

    @Test
    void anyThreadClosesOrMovesACursorAndItsBytesAreShownUntilThen() throws Exception {
        try (Log log = openSmall()) {
            log.append(bytes("one"));
            log.commit(log.append(bytes("two")));
            Cursor cursor = log.read(0);
            assertThrows(IllegalStateException.class, cursor::lsn);
            assertTrue(cursor.next());
            MemorySegment one = cursor.payload();
            assertSame(one, cursor.payload());
            assertTrue(one.isReadOnly());
            assertEquals('o', one.get(JAVA_BYTE, 0));
            LogRecord kept = cursor.record();
            new Workers().start(() -> assertTrue(cursor.next())).join();
            assertThrows(IllegalStateException.class, () -> one.get(JAVA_BYTE, 0));
            assertEquals("one", text(kept.bytes()));
            assertArrayEquals(bytes("two"), cursor.bytes());
            MemorySegment two = cursor.payload();
            new Workers().start(() -> assertEquals('t', two.get(JAVA_BYTE, 0))).join();
            new Workers().start(cursor::close).join();
            for (Executable read : List.<Executable>of(
                    () -> two.get(JAVA_BYTE, 0), cursor::bytes, cursor::record, cursor::payload, cursor::lsn)) {
                assertThrows(IllegalStateException.class, read);
            }
            assertThrows(LogClosedException.class, cursor::next);
            cursor.close();
        }
    }

    /** In a child, which a read after the end may crash; its allocator gives the memory of large records back to the system at once. */
    @Test
    void noCopyOfARecordReadsFreedMemory() throws Exception {
        List<String> options = List.of(NATIVE_ACCESS, "-XX:ErrorFile=" + dir.resolve("crash.log"));
        ProcessBuilder command = jvm(options, Child.class, "cursors", dir.resolve("log").toString());
        command.environment().put("MALLOC_MMAP_THRESHOLD_", "131072");
        Process child = command.redirectErrorStream(true).start();
        assertEquals("copied\n", printed(child));
        assertEquals(0, child.waitFor());
    }

    @Test
    void anyThreadClosesAViewThatOthersAreUsing() throws Exception {
        openSmall().close();
        for (int round = 0; round < 50; round++) {
            View view = View.open(dir);
            Workers users = new Workers().untilClosed(view::renew).untilClosed(view::state);
            Thread.sleep(0, 200_000);
            assertTimeoutPreemptively(LONG, view::close);
            users.join();
        }
    }

    /** Calls of every kind run into the close; each is served or refused. */
    @Test
    void aLogMayBeClosedUnderAnyCall() throws Exception {
        for (int round = 0; round < 15; round++) {
            Log log = openSmall();
            List<Executable> calls = List.of(
                    () -> log.commit(log.append(new byte[100])), () -> log.stream(1).append(new byte[3]),
                    () -> log.commitAsync(log.append(new byte[9])).get(), () -> log.read(log.firstLsn()).close(),
                    () -> log.stream(1).first(), () -> log.streams(), () -> log.trim(log.durableLsn()));
            Workers users = new Workers();
            calls.forEach(users::untilClosed);
            Thread.sleep(3);
            assertTimeoutPreemptively(LONG, log::close);
            users.join();
        }
    }
}
