/*
 * Reads one segment's file: headers through a window, batches whole, and what a header claims only after its checksum was right.
 *
 * Invariant: no memory is taken for a length that only a header claims; the checksum is computed piece by piece first.
 */
package seawall.reader;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.zip.CRC32C;

final class SegmentFile implements AutoCloseable {
    private static final int WINDOW_BYTES = 1 << 20;

    private final FileChannel file;
    private final byte[] window;
    private long windowAt;
    private int windowFilled;

    SegmentFile(Path path) throws IOException {
        this.file = FileChannel.open(path, StandardOpenOption.READ);
        this.window = new byte[(int) Math.min(WINDOW_BYTES, Math.max(file.size(), Layout.LARGEST_BLOCK))];
    }

    private boolean within(long at, int length) {
        return at >= windowAt && at + length <= windowAt + windowFilled;
    }

    private void fill(long at) throws IOException {
        windowAt = at;
        windowFilled = 0;
        ByteBuffer into = ByteBuffer.wrap(window);
        while (into.hasRemaining()) {
            int read = file.read(into, at + windowFilled);
            if (read <= 0) {
                return;
            }
            windowFilled += read;
        }
    }

    /** What a search looks for at the start of a block; null: not here. */
    interface Look<T> {
        T at(long offset) throws IOException;
    }

    /** The first that is found at the blocks from {@code from} on, as far as a header fits before {@code end}; null if nothing is. */
    static <T> T first(long from, long end, int blockBytes, Look<T> look) throws IOException {
        T found = null;
        for (long at = from; found == null && at + Layout.HEADER_BYTES <= end; at += blockBytes) {
            found = look.at(at);
        }
        return found;
    }

    /** The bytes of the header at {@code at}, which need not be one; fewer if the file ends before. */
    byte[] header(long at) throws IOException {
        if (!within(at, Layout.HEADER_BYTES)) {
            fill(at);
        }
        int from = (int) (at - windowAt);
        return Arrays.copyOfRange(window, from, Math.max(from, Math.min(from + Layout.HEADER_BYTES, windowFilled)));
    }

    /** The header of a batch at {@code at}, whatever place it was written for; null if there is none. */
    BatchHeader decoded(long at) throws IOException {
        try {
            return BatchHeader.decode(header(at));
        } catch (Fault.Broken none) {
            return null;
        }
    }

    /** The header at {@code at} that is valid by itself, by rules 1 to 6; null if there is none. */
    BatchHeader selfValid(SegmentHeader in, long at) throws IOException {
        try {
            BatchHeader header = BatchHeader.decode(header(at));
            header.checkPlace(in, at);
            return header;
        } catch (Fault.Broken none) {
            return null;
        }
    }

    /** Whether the batch of a header that is valid by itself is so as well: rules 10 to 12. */
    boolean isIntact(SegmentHeader in, long at, BatchHeader header) throws IOException {
        try {
            header.checkClaims();
            body(in, at, header);
            return true;
        } catch (Fault.Broken broken) {
            return false;
        }
    }

    /** Rules 11 and 12: the records of the batch at {@code at}. */
    byte[] body(SegmentHeader in, long at, BatchHeader header) throws IOException, Fault.Broken {
        long left = header.diskBytes(in.blockBytes()) - Layout.HEADER_BYTES;
        long from = at + Layout.HEADER_BYTES;
        CRC32C sum = new CRC32C();
        while (left > 0) {
            int piece = (int) Math.min(left, window.length);
            if (!within(from, piece)) {
                fill(from);
            }
            int start = (int) (from - windowAt);
            if (windowFilled - start < piece) {
                throw new Fault.Broken(Fault.BODY);
            }
            sum.update(window, start, piece);
            from += piece;
            left -= piece;
        }
        if ((int) sum.getValue() != header.bodyChecksum()) {
            throw new Fault.Broken(Fault.BODY);
        }
        byte[] body = new byte[(int) header.bodyLength()];
        ByteBuffer into = ByteBuffer.wrap(body);
        long place = at + Layout.HEADER_BYTES;
        while (into.hasRemaining()) {
            long next = place + into.position();
            if (within(next, into.remaining())) {
                into.put(window, (int) (next - windowAt), into.remaining());
            } else if (file.read(into, next) <= 0) {
                throw new Fault.Broken(Fault.BODY);
            }
        }
        RawRecords.check(header, body);
        return body;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
