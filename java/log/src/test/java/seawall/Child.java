/*
 * Is the program of the child JVMs that tests kill, or whose calls tests make fail.
 */
package seawall;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The modes {@code writers} and {@code fault}. */
final class Child {
    static final int WRITERS = 4;

    private Child() {}

    /** A child JVM with the class path and the library of this one. */
    static Process start(String... arguments) throws java.io.IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.add("-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Child.class.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[1]);
        if (arguments[0].equals("writers")) {
            writers(dir);
        } else {
            fault(dir);
        }
    }

    /** Writers that print each record when it is acknowledged: LSN of its end, and its text. */
    private static void writers(Path dir) throws Exception {
        Log log = Log.open(dir, LogTest.small());
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

    /** Commits a record, waits for a line, and prints what the commits after it come to. */
    private static void fault(Path dir) throws Exception {
        Log log = Log.open(dir, LogTest.small().method("buffered+fdatasync").set("engine", "portable"));
        log.commit(log.append("before".getBytes(UTF_8)));
        System.out.println("ready");
        new BufferedReader(new InputStreamReader(System.in, UTF_8)).readLine();
        long first = log.append("first".getBytes(UTF_8));
        CompletableFuture<Long> one = log.commitAsync(first);
        CompletableFuture<Long> two = log.commitAsync(first);
        SeawallException thrown = failure(one);
        System.out.println("code " + thrown.code() + " cause " + thrown.causeCode() + " errno " + thrown.osError());
        System.out.println("same " + (failure(two) == thrown && failure(log.commitAsync(first)) == thrown));
        try {
            log.commit(first);
            System.out.println("acknowledged");
        } catch (LogFailedException failed) {
            System.out.println("commit " + failed.code() + " errno " + failed.osError());
        }
        try {
            log.append("later".getBytes(UTF_8));
            System.out.println("appended");
        } catch (LogFailedException failed) {
            System.out.println("append " + failed.code());
        }
        try {
            log.close();
            System.out.println("closed");
        } catch (LogFailedException failed) {
            System.out.println("close " + failed.code());
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
