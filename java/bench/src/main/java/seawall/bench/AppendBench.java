/*
 * Measures an append in memory, beside the least that it can cost and beside the peers.
 *
 * Appends come in bursts that fit into one batch, between which the log is committed outside the measured time: an endless run of
 * appends would measure the disk.
 */
package seawall.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@OperationsPerInvocation(AppendBench.BURST)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 3, time = 1)
@Fork(value = 1, jvmArgsAppend = {"--enable-native-access=ALL-UNNAMED"})
public class AppendBench {
    static final int BURST = 1500;

    /** A directory on the disk that is measured, from -Dseawall.bench.dir. */
    static Path dir() throws java.io.IOException {
        return Files.createTempDirectory(Path.of(System.getProperty("seawall.bench.dir")), "append");
    }

    static void remove(Path dir) throws java.io.IOException {
        try (var files = Files.walk(dir)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    @State(Scope.Thread)
    public static class Journal {
        @Param({"64", "1024"})
        int bytes;

        @Param({"seawall", "seawall-buffered", "chronicle", "artemis", "file"})
        String peer;

        byte[] record;
        private Path dir;
        private Peers open;
        Peers.Writer writer;

        @Setup(Level.Trial)
        public void open() throws Exception {
            record = new byte[bytes];
            dir = dir();
            open = Peers.open(peer, dir, false);
            writer = open.writer();
        }

        @Setup(Level.Invocation)
        public void commit() throws Exception {
            if (open instanceof Peers.Seawall seawall) {
                seawall.log.commit(seawall.log.appendedLsn());
            }
        }

        @TearDown(Level.Trial)
        public void close() throws Exception {
            writer.close();
            open.close();
            remove(dir);
        }
    }

    @Benchmark
    public void append(Journal journal) throws Exception {
        for (int i = 0; i < BURST; i++) {
            journal.writer.write(journal.record, false);
        }
    }

    @State(Scope.Thread)
    public static class Ring {
        private static final MethodHandle COPY = Linker.nativeLinker()
                .downcallHandle(
                        Linker.nativeLinker().defaultLookup().find("memcpy").orElseThrow(),
                        FunctionDescriptor.of(
                                ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG),
                        Linker.Option.critical(true));

        @Param({"64", "1024"})
        int bytes;

        byte[] record;
        private MemorySegment ring;
        private long at;

        @Setup(Level.Trial)
        public void make() {
            record = new byte[bytes];
            ring = Arena.global().allocate(2L << 20);
        }

        void copy() throws Throwable {
            MemorySegment ignored =
                    (MemorySegment) COPY.invokeExact(ring.asSlice(at), MemorySegment.ofArray(record), (long) bytes);
            at = at + bytes < ring.byteSize() - bytes ? at + bytes : 0;
        }
    }

    /** The least: a critical downcall that copies the record into native memory. */
    @Benchmark
    public void downcall(Ring ring) throws Throwable {
        for (int i = 0; i < BURST; i++) {
            ring.copy();
        }
    }
}
