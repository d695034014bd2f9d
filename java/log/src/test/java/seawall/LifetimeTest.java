package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests that what is closed holds nothing, and that nothing reads memory of the library behind its end, whichever thread closes. */
class LifetimeTest {
    @TempDir
    Path dir;

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
        Log log = Log.open(dir, LogTest.small());
        long end = log.append(new byte[10]);
        log.stream(3).append(new byte[1]);
        Log other = log;
        log.close();
        log.close();
        assertEquals(List.of(0L, log.appendedLsn()), List.of(log.firstLsn(), log.durableLsn()));
        assertTrue(log.appendedLsn() > end);
        assertEquals(log.durableLsn(), log.safeLsn(Durability.PROCESS_CRASH));
        assertEquals(2, log.stats().records());
        log.commit(end);
        log.commit(end, Durability.PROCESS_CRASH);
        List<Executable> refused = List.of(
                () -> log.append(new byte[1]), () -> other.tryAppend(new byte[1]), () -> log.stream(3).append(new byte[1]),
                () -> log.stream(3).get(0), () -> log.stream(3).read(0), () -> log.stream(3).first(), () -> log.streams(),
                () -> log.read(0), () -> log.readAt(0), () -> log.readBefore(end), () -> log.pin(0), () -> log.trim(0),
                () -> log.truncateAfter(0), () -> log.lsnAt(java.time.Instant.EPOCH), () -> log.backup(dir.resolve("copy")),
                () -> log.commit(1L << 40), () -> log.commit(1L << 40, Durability.PROCESS_CRASH),
                () -> log.transaction(transaction -> transaction.append(new byte[1])));
        for (int i = 0; i < refused.size(); i++) {
            assertThrows(LogClosedException.class, refused.get(i), "call " + i);
        }
    }

    private static void onAnotherThread(Executable work) throws Exception {
        AtomicReference<Throwable> problem = new AtomicReference<>();
        Thread thread = Thread.ofPlatform().start(() -> {
            try {
                work.execute();
            } catch (Throwable thrown) {
                problem.set(thrown);
            }
        });
        thread.join();
        assertEquals(null, problem.get());
    }

    @Test
    void anyThreadClosesOrMovesACursorWhileItsBytesAreShown() throws Exception {
        try (Log log = Log.open(dir, LogTest.small())) {
            log.append("one".getBytes(UTF_8));
            log.commit(log.append("two".getBytes(UTF_8)));
            Cursor cursor = log.read(0);
            assertTrue(cursor.next());
            MemorySegment one = cursor.payload();
            onAnotherThread(() -> assertTrue(cursor.next()));
            assertThrows(IllegalStateException.class, () -> one.get(ValueLayout.JAVA_BYTE, 0));
            assertArrayEquals("two".getBytes(UTF_8), cursor.bytes());
            MemorySegment two = cursor.payload();
            onAnotherThread(() -> assertEquals('t', two.get(ValueLayout.JAVA_BYTE, 0)));
            onAnotherThread(cursor::close);
            assertThrows(IllegalStateException.class, () -> two.get(ValueLayout.JAVA_BYTE, 0));
            for (Executable read : List.<Executable>of(cursor::bytes, cursor::record, cursor::payload, cursor::lsn)) {
                assertThrows(IllegalStateException.class, read);
            }
            assertThrows(LogClosedException.class, cursor::next);
        }
    }

    /** In a child, which a read behind the end may crash; its allocator gives the memory of large records back to the system at once. */
    @Test
    void noCopyOfARecordReadsFreedMemory() throws Exception {
        List<String> options = List.of("--enable-native-access=ALL-UNNAMED", "-XX:ErrorFile=" + dir.resolve("crash.log"));
        ProcessBuilder command = Child.command(options, "cursors", dir.resolve("log").toString());
        command.environment().put("MALLOC_MMAP_THRESHOLD_", "131072");
        Process child = command.redirectErrorStream(true).start();
        String printed = new String(child.getInputStream().readAllBytes(), UTF_8);
        assertEquals("copied\n", printed);
        assertEquals(0, child.waitFor());
    }

    @Test
    void anyThreadClosesAViewThatOthersAreUsing() throws Exception {
        Log.open(dir, LogTest.small()).close();
        assertTimeoutPreemptively(LogTest.LONG, () -> {
            for (int round = 0; round < 50; round++) {
                View view = View.open(dir);
                List<Thread> users = new ArrayList<>();
                AtomicReference<Throwable> problem = new AtomicReference<>();
                for (int user = 0; user < 2; user++) {
                    users.add(Thread.ofPlatform().start(() -> {
                        try {
                            while (true) {
                                view.state();
                                view.renew();
                            }
                        } catch (LogClosedException closed) {
                            return;
                        } catch (Throwable thrown) {
                            problem.set(thrown);
                        }
                    }));
                }
                Thread.sleep(0, 200_000);
                view.close();
                for (Thread user : users) {
                    user.join();
                }
                assertEquals(null, problem.get());
            }
        });
    }

    /** Calls of every kind run into the close; each is served or refused. */
    @Test
    void aLogMayBeClosedUnderAnyCall() throws Exception {
        assertTimeoutPreemptively(LogTest.LONG, () -> {
            for (int round = 0; round < 15; round++) {
                Log log = Log.open(dir, LogTest.small());
                List<Executable> calls = List.of(
                        () -> log.commit(log.append(new byte[100])), () -> log.stream(1).append(new byte[3]), () -> log.commitAsync(log.append(new byte[9])).get(),
                        () -> log.read(log.firstLsn()).close(), () -> log.stream(1).first(), () -> log.streams(), () -> log.trim(log.durableLsn()));
                List<Thread> users = new ArrayList<>();
                AtomicReference<Throwable> problem = new AtomicReference<>();
                for (Executable call : calls) {
                    users.add(Thread.ofPlatform().start(() -> {
                        try {
                            while (true) {
                                call.execute();
                            }
                        } catch (LogClosedException closed) {
                            return;
                        } catch (java.util.concurrent.ExecutionException failed) {
                            if (!(failed.getCause() instanceof LogClosedException)) {
                                problem.set(failed);
                            }
                        } catch (Throwable thrown) {
                            problem.set(thrown);
                        }
                    }));
                }
                Thread.sleep(3);
                log.close();
                for (Thread user : users) {
                    user.join();
                }
                if (problem.get() != null) {
                    throw new AssertionError(problem.get());
                }
            }
        });
    }
}
