/*
 * Opens the log and its peers as writers of the benchmark: each appends a record, and durably if it is asked to.
 *
 *     downcall        the least that an append can cost: a critical downcall that copies the record into native memory
 *     seawall         Log.append, Log.commit
 *     seawall-async   Log.append, Log.commitAsync, and the writer waits for the future
 *     seawall-buffered   the first with one commit method, whatever a probe finds here: the method decides in whose cache the memory is
 *                     that the next records are copied to
 *     chronicle       Chronicle Queue: an appender for each thread, a sync after each record
 *     artemis         Artemis' journal on NIO with the timer that its broker has, which gathers records for 3.3 ms at most
 *     artemis-tuned   the same with a timer of about one flush
 *     file            FileChannel.write in turns, and force(false) by each thread
 *     queue-seawall   Queue.put, Queue.get, Message.ack
 *     queue-artemis   a record that is added, and deleted when it is acknowledged; queue-artemis-tuned likewise
 *     queue-chronicle an appender for each thread, one tailer, and a record in a second queue for each acknowledgement
 *     queue-file      two durable writes
 */
package seawall.bench;

import java.io.File;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.bytes.SyncMode;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import org.apache.activemq.artemis.core.io.nio.NIOSequentialFileFactory;
import org.apache.activemq.artemis.core.journal.impl.JournalImpl;
import seawall.Log;
import seawall.LogOptions;
import seawall.Queue;

record Peers(Supplier<Writer> writers, Act betweenBursts, Act end) implements AutoCloseable {
    /** What one thread writes with. */
    interface Writer extends AutoCloseable {
        /** Appends a record, and returns when it is durable if that is asked for. */
        void write(byte[] record, boolean durably) throws Throwable;

        @Override
        default void close() {}
    }

    interface Act {
        void run() throws Exception;
    }

    /** The log is trimmed to this many bytes, as that of the native program. */
    private static final long RETENTION_BYTES = 256L << 20;

    /** Opens a peer by its name, for writers that wait for each record to be durable, or for ones that never do. */
    static Peers open(String name, Path dir, boolean durably) throws Exception {
        Files.createDirectories(dir);
        return switch (name) {
            case "downcall" -> new Peers(Ring::new, () -> {}, () -> {});
            case "seawall" -> seawall(dir, new LogOptions(), false);
            case "seawall-async" -> seawall(dir, new LogOptions(), true);
            case "seawall-buffered" -> seawall(dir, new LogOptions().method("buffered+fdatasync"), false);
            case "chronicle" -> chronicle(dir, durably);
            // 1 s / 300, as its broker computes it for NIO, and about the time of a flush of this kind of disk.
            case "artemis" -> artemis(dir, 1_000_000_000 / 300);
            case "artemis-tuned" -> artemis(dir, 50_000);
            case "file" -> file(dir);
            case "queue-seawall" -> queue(dir);
            case "queue-artemis" -> artemisQueue(dir, 1_000_000_000 / 300);
            case "queue-artemis-tuned" -> artemisQueue(dir, 50_000);
            case "queue-chronicle" -> chronicleQueue(dir);
            case "queue-file" -> twice(file(dir));
            default -> throw new IllegalArgumentException("there is no peer " + name);
        };
    }

    /** A writer for the calling thread. */
    Writer writer() {
        return writers.get();
    }

    /** What is done between two bursts of appends, outside of what is measured. */
    void rest() throws Exception {
        betweenBursts.run();
    }

    @Override
    public void close() throws Exception {
        end.run();
    }

    /** A constant handle, which alone is compiled into its caller. */
    private static final class Ring implements Writer {
        private static final MethodHandle COPY = Linker.nativeLinker()
                .downcallHandle(
                        Linker.nativeLinker().defaultLookup().find("memcpy").orElseThrow(),
                        FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG),
                        Linker.Option.critical(true));

        private final MemorySegment ring = Arena.global().allocate(2L << 20);
        private long at;

        @Override
        public void write(byte[] record, boolean durably) throws Throwable {
            MemorySegment ignored =
                    (MemorySegment) COPY.invokeExact(ring.asSlice(at), MemorySegment.ofArray(record), (long) record.length);
            at = at + record.length < ring.byteSize() - record.length ? at + record.length : 0;
        }
    }

    private static Peers seawall(Path dir, LogOptions options, boolean async) throws IOException {
        Log log = Log.open(dir, options.retentionBytes(RETENTION_BYTES));
        Writer writer = (record, durably) -> {
            long lsn = log.append(record);
            if (durably && async) {
                log.commitAsync(lsn).get();
            } else if (durably) {
                log.commit(lsn);
            }
        };
        return new Peers(() -> writer, () -> log.commit(log.appendedLsn()), log::close);
    }

    private static Peers chronicle(Path dir, boolean durably) {
        // With the mode that a queue has by default, a sync does nothing.
        SyncMode mode = durably ? SyncMode.SYNC : SyncMode.NONE;
        ChronicleQueue queue = SingleChronicleQueueBuilder.binary(dir).blockSize(256 << 20).syncMode(mode).build();
        return new Peers(() -> new Excerpts(queue.createAppender(), Bytes.elasticByteBuffer(4096)), () -> {}, queue::close);
    }

    private record Excerpts(ExcerptAppender appender, Bytes<ByteBuffer> bytes) implements Writer {
        @Override
        public void write(byte[] record, boolean durably) {
            bytes.clear().write(record);
            appender.writeBytes(bytes);
            if (durably) {
                appender.sync();
            }
        }

        @Override
        public void close() {
            bytes.releaseLast();
            appender.close();
        }
    }

    private static Peers artemis(Path dir, int timeoutNanos) throws Exception {
        JournalImpl journal = journal(dir, timeoutNanos);
        AtomicLong ids = new AtomicLong();
        Writer writer = (record, durably) -> journal.appendAddRecord(ids.incrementAndGet(), (byte) 1, record, durably);
        return new Peers(() -> writer, () -> {}, journal::stop);
    }

    private static Peers artemisQueue(Path dir, int timeoutNanos) throws Exception {
        JournalImpl journal = journal(dir, timeoutNanos);
        AtomicLong ids = new AtomicLong();
        java.util.Queue<Long> waiting = new ConcurrentLinkedQueue<>();
        Writer writer = (record, durably) -> {
            long id = ids.incrementAndGet();
            journal.appendAddRecord(id, (byte) 1, record, durably);
            waiting.add(id);
            journal.appendDeleteRecord(waiting.remove(), durably);
        };
        return new Peers(() -> writer, () -> {}, journal::stop);
    }

    private static JournalImpl journal(Path dir, int timeoutNanos) throws Exception {
        var files = new NIOSequentialFileFactory(new File(dir.toString()), true, 490 << 10, timeoutNanos, 1, false);
        JournalImpl journal = new JournalImpl(10 << 20, 2, 10, 0, 0, files, "journal", "amq", 1);
        journal.start();
        journal.load(new ArrayList<>(), new ArrayList<>(), null, true);
        return journal;
    }

    private static Peers queue(Path dir) throws IOException {
        Queue queue = Queue.open(dir);
        Writer writer = (record, durably) -> {
            queue.put(record);
            queue.get().ack();
        };
        return new Peers(() -> writer, () -> {}, queue::close);
    }

    private static Peers chronicleQueue(Path dir) {
        ChronicleQueue messages = SingleChronicleQueueBuilder.binary(dir.resolve("messages")).blockSize(256 << 20).syncMode(SyncMode.SYNC).build();
        ChronicleQueue acknowledged = SingleChronicleQueueBuilder.binary(dir.resolve("acks")).blockSize(256 << 20).syncMode(SyncMode.SYNC).build();
        ExcerptTailer tailer = messages.createTailer();
        tailer.singleThreadedCheckDisabled(true);
        Supplier<Writer> writers = () -> {
            Excerpts put = new Excerpts(messages.createAppender(), Bytes.elasticByteBuffer(4096));
            Excerpts ack = new Excerpts(acknowledged.createAppender(), Bytes.elasticByteBuffer(4096));
            byte[] index = new byte[8];
            return (record, durably) -> {
                put.write(record, durably);
                synchronized (tailer) {
                    if (!tailer.readBytes(put.bytes().clear())) {
                        throw new IllegalStateException("no message is there");
                    }
                }
                ack.write(index, durably);
            };
        };
        return new Peers(writers, () -> {}, () -> {
            messages.close();
            acknowledged.close();
        });
    }

    /** A put and an acknowledgement. */
    private static Peers twice(Peers peers) {
        Supplier<Writer> writers = () -> {
            Writer writer = peers.writer();
            return (record, durably) -> {
                writer.write(record, durably);
                writer.write(record, durably);
            };
        };
        return new Peers(writers, () -> {}, peers::close);
    }

    private static Peers file(Path dir) throws IOException {
        FileChannel file = FileChannel.open(
                dir.resolve("file"), StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
        Supplier<Writer> writers = () -> {
            ByteBuffer buffer = ByteBuffer.allocateDirect(64 << 10);
            return (record, durably) -> {
                buffer.clear().put(record).flip();
                synchronized (file) {
                    file.write(buffer);
                }
                if (durably) {
                    file.force(false);
                }
            };
        };
        return new Peers(writers, () -> {}, file::close);
    }
}
