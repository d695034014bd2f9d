/*
 * Opens the log and its peers as writers of the benchmarks: each appends a record, and durably if it is asked to.
 *
 *     seawall         Log.append, Log.commit
 *     seawall-async   Log.append, Log.commitAsync, and the writer waits for the future
 *     seawall-buffered   the first with one commit method, whatever a probe finds here: the method decides in whose cache the memory is
 *                     that the next records are copied to
 *     chronicle       Chronicle Queue: an appender for each thread, a sync after each record
 *     artemis         Artemis' journal on NIO with the timer that its broker has, which gathers records for 3.3 ms at most
 *     artemis-tuned   the same with a timer of about one flush
 *     file            FileChannel.write in turns, and force(false) by each thread
 */
package seawall.bench;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.bytes.SyncMode;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import org.apache.activemq.artemis.core.io.nio.NIOSequentialFileFactory;
import org.apache.activemq.artemis.core.journal.RecordInfo;
import org.apache.activemq.artemis.core.journal.impl.JournalImpl;
import seawall.Log;
import seawall.LogOptions;

interface Peers extends AutoCloseable {
    /** What one thread writes with. */
    interface Writer extends AutoCloseable {
        /** Appends a record, and returns when it is durable if that is asked for. */
        void write(byte[] record, boolean durably) throws Exception;

        @Override
        default void close() {}
    }

    /** A writer for the calling thread. */
    Writer writer();

    @Override
    void close() throws Exception;

    /** The log is trimmed to so many bytes, as that of the native program. */
    long RETENTION_BYTES = 256L << 20;

    /** Opens a peer by its name, for writers that wait for each record to be durable, or for ones that never do. */
    static Peers open(String name, Path dir, boolean durably) throws Exception {
        Files.createDirectories(dir);
        return switch (name) {
            case "seawall" -> new Seawall(dir, new LogOptions(), false);
            case "seawall-async" -> new Seawall(dir, new LogOptions(), true);
            case "seawall-buffered" -> new Seawall(dir, new LogOptions().method("buffered+fdatasync"), false);
            case "chronicle" -> new Chronicle(dir, durably);
            // 1 s / 300, as its broker computes it for NIO, and about the time of a flush of this kind of disk.
            case "artemis" -> new Artemis(dir, 1_000_000_000 / 300);
            case "artemis-tuned" -> new Artemis(dir, 50_000);
            case "file" -> new Channel(dir);
            default -> throw new IllegalArgumentException("there is no peer " + name);
        };
    }

    /** This project's log. */
    final class Seawall implements Peers {
        final Log log;
        private final boolean async;

        Seawall(Path dir, LogOptions options, boolean async) throws IOException {
            log = Log.open(dir, options.retentionBytes(RETENTION_BYTES));
            this.async = async;
        }

        @Override
        public Writer writer() {
            return (record, durably) -> {
                long lsn = log.append(record);
                if (durably && async) {
                    log.commitAsync(lsn).get();
                } else if (durably) {
                    log.commit(lsn);
                }
            };
        }

        @Override
        public void close() throws IOException {
            log.close();
        }
    }

    /** Chronicle Queue. */
    final class Chronicle implements Peers {
        private final ChronicleQueue queue;

        Chronicle(Path dir, boolean durably) {
            // With the mode that a queue has by default, a sync does nothing.
            SyncMode mode = durably ? SyncMode.SYNC : SyncMode.NONE;
            queue = SingleChronicleQueueBuilder.binary(dir).blockSize(256 << 20).syncMode(mode).build();
        }

        @Override
        public Writer writer() {
            ExcerptAppender appender = queue.createAppender();
            Bytes<ByteBuffer> bytes = Bytes.elasticByteBuffer(4096);
            return new Writer() {
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
            };
        }

        @Override
        public void close() {
            queue.close();
        }
    }

    /** The journal of Artemis. */
    final class Artemis implements Peers {
        private static final byte TYPE = 1;
        private static final int FILE_BYTES = 10 << 20;
        private static final int BUFFER_BYTES = 490 << 10;

        private final NIOSequentialFileFactory files;
        private final JournalImpl journal;
        private final AtomicLong ids = new AtomicLong();

        Artemis(Path dir, int timeoutNanos) throws Exception {
            files = new NIOSequentialFileFactory(new File(dir.toString()), true, BUFFER_BYTES, timeoutNanos, 1, false);
            journal = new JournalImpl(FILE_BYTES, 2, 10, 0, 0, files, "journal", "amq", 1);
            journal.start();
            List<RecordInfo> none = new ArrayList<>();
            journal.load(none, new ArrayList<>(), null, true);
        }

        @Override
        public Writer writer() {
            return (record, durably) -> journal.appendAddRecord(ids.incrementAndGet(), TYPE, record, durably);
        }

        @Override
        public void close() {
            journal.stop();
        }
    }

    /** A file and its force. */
    final class Channel implements Peers {
        private final FileChannel file;

        Channel(Path dir) throws IOException {
            file = FileChannel.open(
                    dir.resolve("file"), StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
        }

        @Override
        public Writer writer() {
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
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
