package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.function.Executable;

/** Is the program of the child JVMs that tests kill, whose calls tests make fail, or that could crash. */
final class Child {
    static final int WRITERS = 4;

    private Child() {}

    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[1]);
        switch (arguments[0]) {
            case "writers" -> writers(dir);
            case "fault" -> fault(dir);
            case "cursors" -> cursors(dir);
            case "consumer" -> consumer(dir);
            default -> load(dir);
        }
    }

    /** What each kind of opening says in a JVM that cannot load the library; the second says no less than the first. */
    private static void load(Path dir) {
        List<Executable> openings =
                List.of(() -> Log.open(dir), () -> Log.open(dir, Fixture.small()), () -> View.open(dir), () -> Log.verify(dir));
        for (Executable opening : openings) {
            try {
                opening.execute();
                System.out.println("loaded");
            } catch (Throwable thrown) {
                System.out.println(thrown);
            }
        }
    }

    /** One thread copies the bytes of a large record again and again, another closes the cursor and uses the memory for other things. */
    private static void cursors(Path dir) throws Exception {
        byte[] large = new byte[1_500_000];
        Arrays.fill(large, (byte) 7);
        long copied = 0;
        try (Log log = Log.open(dir)) {
            log.append(large);
            log.commit(log.append(large));
            for (int round = 0; round < 200; round++) {
                Cursor cursor = log.read(0);
                cursor.next();
                boolean shows = round % 2 == 1;
                MemorySegment shown = shows ? cursor.payload() : null;
                Thread closer = Thread.ofPlatform().start(() -> {
                    cursor.close();
                    try (Cursor other = log.read(0)) {
                        other.next();
                    } catch (SeawallException refused) {
                        throw new IllegalStateException(refused);
                    }
                });
                try {
                    while (true) {
                        byte[] bytes = shows ? shown.toArray(ValueLayout.JAVA_BYTE) : cursor.bytes();
                        if (!Arrays.equals(bytes, large)) {
                            System.out.println("other bytes");
                        }
                        copied++;
                    }
                } catch (IllegalStateException closed) {
                    // The JVM interrupts a copy out of what is shown, and says so.
                    Thread.interrupted();
                    closer.join();
                }
            }
        }
        System.out.println(copied > 0 ? "copied" : "nothing was copied");
    }

    /** Writers that print each record when it is acknowledged: LSN of its end, and its text. */
    private static void writers(Path dir) throws Exception {
        Log log = Log.open(dir, Fixture.small());
        for (int writer = 0; writer < WRITERS; writer++) {
            String name = "w" + writer;
            boolean async = writer % 2 == 1;
            Thread.ofPlatform().start(() -> {
                try {
                    for (int i = 0; ; i++) {
                        String text = name + "-" + i;
                        long lsn = log.append(text.getBytes(UTF_8));
                        if (async) {
                            log.commitAsync(lsn).get();
                        } else {
                            log.commit(lsn);
                        }
                        System.out.println(lsn + " " + text);
                    }
                } catch (Exception thrown) {
                    thrown.printStackTrace();
                    System.exit(1);
                }
            });
        }
    }

    /** Takes a message, prints it, and holds it for ever; an owner puts it before. */
    private static void consumer(Path dir) throws Exception {
        Queue queue = Queue.open(dir);
        if (queue.stats().isOwner()) {
            queue.put("by the owner".getBytes(UTF_8));
        }
        Message message = queue.get();
        System.out.println(new String(message.body(), UTF_8) + ", attempt " + message.attempt());
        Thread.sleep(Long.MAX_VALUE);
    }

    /** Commits a record, waits for a line, and prints what the commits after it come to. */
    private static void fault(Path dir) throws Exception {
        // No sync of the log's own is left that could fail before there are waiters to tell: no mark comes, the spare is there.
        LogOptions options = Fixture.small().method("buffered+fdatasync").set("engine", "portable");
        Log log = Log.open(dir, options.set("idle_mark_ns", TimeUnit.HOURS.toNanos(1)));
        log.commit(log.append("before".getBytes(UTF_8)));
        while (log.stats().segmentsFilled() == 0) {
            Thread.sleep(1);
        }
        System.out.println("ready");
        new BufferedReader(new InputStreamReader(System.in, UTF_8)).readLine();
        long first = log.append("first".getBytes(UTF_8));
        CompletableFuture<Long> one = log.commitAsync(first);
        CompletableFuture<Long> two = log.commitAsync(first);
        SeawallException thrown = failure(one);
        System.out.println("code " + thrown.code() + " cause " + thrown.causeCode() + " errno " + thrown.osError());
        System.out.println("same " + (failure(two) == thrown && failure(log.commitAsync(first)) == thrown));
        says("commit", () -> log.commit(first));
        says("append", () -> log.append("later".getBytes(UTF_8)));
        says("close", log::close);
    }

    private static void says(String call, Executable made) throws Exception {
        try {
            made.execute();
            System.out.println(call + " succeeded");
        } catch (LogFailedException failed) {
            System.out.println(call + " " + failed.code() + " errno " + failed.osError());
        } catch (Throwable other) {
            throw new IllegalStateException(other);
        }
    }

    private static SeawallException failure(CompletableFuture<Long> future) throws InterruptedException {
        try {
            throw new IllegalStateException("acknowledged: " + future.get());
        } catch (java.util.concurrent.ExecutionException failed) {
            return (SeawallException) failed.getCause();
        }
    }
}
