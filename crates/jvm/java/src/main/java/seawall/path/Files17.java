/*
 * Writes through RandomAccessFile and FileChannel, the classes of JDK 17; later JDKs run the same.
 *
 * Invariant: between the call of write and its return lie only the calls that the row names.
 */
package seawall.path;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Writers on files and channels. */
final class Files17 {
    private Files17() {}

    /** Seek, then write. */
    static final class Seek implements Writer {
        private final RandomAccessFile file;
        private final byte[] record;
        private final boolean sync;

        Seek(Path path, String mode, Record record, boolean sync) throws IOException {
            this.file = new RandomAccessFile(path.toFile(), mode);
            this.record = record.heap;
            this.sync = sync;
        }

        @Override
        public void write(long position) throws IOException {
            file.seek(position);
            file.write(record);
            if (sync) {
                file.getFD().sync();
            }
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }

    /** Write behind the end; the position is not asked for. */
    static final class AtEnd implements Writer {
        private final RandomAccessFile file;
        private final byte[] record;

        AtEnd(Path path, Record record) throws IOException {
            this.file = new RandomAccessFile(path.toFile(), "rw");
            this.record = record.heap;
            file.seek(file.length());
        }

        @Override
        public void write(long position) throws IOException {
            file.write(record);
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }

    /** Write at a position, then force. */
    static final class At implements Writer {
        private final FileChannel channel;
        private final ByteBuffer record;
        private final Ways.Force force;

        At(FileChannel channel, ByteBuffer record, Ways.Force force) {
            this.channel = channel;
            this.record = record;
            this.force = force;
        }

        @Override
        public void write(long position) throws IOException {
            Writer.whole(channel.write(record.clear(), position), record.capacity());
            if (force != Ways.Force.NONE) {
                channel.force(force == Ways.Force.ALL);
            }
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }

    /** Write where the last write ended. */
    static final class Onward implements Writer {
        private final FileChannel channel;
        private final ByteBuffer record;

        Onward(FileChannel channel, ByteBuffer record) {
            this.channel = channel;
            this.record = record;
        }

        @Override
        public void write(long position) throws IOException {
            Writer.whole(channel.write(record.clear()), record.capacity());
        }

        @Override
        public void rewind() throws IOException {
            channel.position(0);
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }

    /** Append. */
    static final class Growing implements Writer {
        private final FileChannel channel;
        private final ByteBuffer record;

        Growing(FileChannel channel, ByteBuffer record) {
            this.channel = channel;
            this.record = record;
        }

        @Override
        public void write(long position) throws IOException {
            Writer.whole(channel.write(record.clear()), record.capacity());
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }
}
