/*
 * Writes small logs byte by byte, as the description of the format draws them, for the tests of the reader.
 *
 * It shares nothing with the decoders but the description: offsets stand here a second time.
 */
package seawall.reader;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.zip.CRC32C;

final class SampleLog {
    static final int BLOCK = 512;
    static final int SEGMENT = 64 << 10;
    static final byte[] ID = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    final Path dir;
    final byte[] identity;
    byte[] segment;
    long number;
    long previous;
    int offset;
    long lsn;
    long trim;
    int link;
    long epoch = 1;
    int durability = 3;
    long streamsFrom;
    long cutsFrom;
    /** What the next batch says was durable and acknowledged; -1: everything before it. */
    long durable = -1;
    long acknowledged = -1;

    private final ByteArrayOutputStream body = new ByteArrayOutputStream();
    private int records;
    private int flags;

    SampleLog(Path dir) throws IOException {
        this(dir, ID);
    }

    SampleLog(Path dir, byte[] identity) throws IOException {
        this.dir = dir;
        this.identity = identity;
        Files.write(dir.resolve("LOCK"), new byte[0]);
    }

    /** Starts the next segment where the log is. */
    SampleLog start() {
        return start(number + 1, number);
    }

    SampleLog start(long started, long before) {
        number = started;
        previous = before;
        segment = new byte[SEGMENT];
        for (int copy = 0; copy < 2; copy++) {
            ByteBuffer out = at(copy == 0 ? 0 : SEGMENT - BLOCK);
            out.put("SWLS".getBytes(StandardCharsets.US_ASCII)).putShort((short) 1).putShort((short) BLOCK).put(identity);
            out.putLong(epoch).putLong(number).putLong(SEGMENT).putLong(lsn).putLong(trim).putLong(previous).putInt(link);
            out.putInt(copy).putShort((short) durability).putShort((short) 0).putInt(0).putLong(streamsFrom).putLong(cutsFrom);
            seal(copy == 0 ? 0 : SEGMENT - BLOCK);
        }
        offset = BLOCK;
        return this;
    }

    private ByteBuffer at(int place) {
        return ByteBuffer.wrap(segment).order(ByteOrder.LITTLE_ENDIAN).position(place);
    }

    private int seal(int place) {
        int sum = crc(segment, place, 124);
        at(place + 124).putInt(sum);
        return sum;
    }

    static int crc(byte[] bytes, int from, int length) {
        CRC32C sum = new CRC32C();
        sum.update(bytes, from, length);
        return (int) sum.getValue();
    }

    SampleLog record(String text) {
        return record(text, false);
    }

    SampleLog record(String text, boolean more) {
        byte[] payload = text.getBytes(StandardCharsets.UTF_8);
        head(payload.length | (more ? 1 << 31 : 0));
        body.writeBytes(payload);
        return this;
    }

    private void head(int word) {
        body.writeBytes(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(word).array());
        records++;
    }

    SampleLog tagged(int kind, int stream, long number, byte[] payload) {
        head(payload.length | 1 << 30);
        body.writeBytes(ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putInt(stream | kind << 24).putLong(number).array());
        body.writeBytes(payload);
        flags |= kind >= 6 ? 3 : 1;
        return this;
    }

    SampleLog ofStream(int stream, long number, String text) {
        return tagged(1, stream, number, text.getBytes(StandardCharsets.UTF_8));
    }

    /** The LSN of the record that is appended next. */
    long here() {
        return lsn + body.size();
    }

    /** Writes what was gathered as one batch. */
    SampleLog batch() {
        return write(1);
    }

    SampleLog mark() {
        return write(2);
    }

    SampleLog close() {
        return write(3);
    }

    SampleLog open() {
        epoch++;
        return write(4);
    }

    private SampleLog write(int kind) {
        byte[] bytes = body.toByteArray();
        int whole = (128 + bytes.length + BLOCK - 1) / BLOCK * BLOCK;
        System.arraycopy(bytes, 0, segment, offset + 128, bytes.length);
        long acked = acknowledged < 0 ? lsn : acknowledged;
        ByteBuffer out = at(offset);
        out.put("SWLB".getBytes(StandardCharsets.US_ASCII)).putShort((short) 1).putShort((short) kind).put(identity);
        out.putLong(epoch).putLong(number).putLong(offset).putLong(lsn).putLong(durable < 0 ? lsn : durable).putLong(trim);
        out.putInt(bytes.length).putInt(records).putInt(link).putInt(crc(segment, offset + 128, whole - 128));
        out.putInt((int) (lsn - acked)).putShort((short) flags).putShort((short) 0).putLong(1_795_000_000_000_000L);
        link = seal(offset);
        offset += whole;
        lsn += bytes.length;
        body.reset();
        records = 0;
        flags = 0;
        return this;
    }

    /** Puts the current segment into the directory. */
    SampleLog save() throws IOException {
        Files.write(path(number), segment);
        return this;
    }

    Path path(long segment) {
        return dir.resolve(String.format("%020d.seg", segment));
    }

    /** Changes bytes of a saved segment. */
    void damage(long segment, int at, int length) throws IOException {
        byte[] bytes = Files.readAllBytes(path(segment));
        for (int i = at; i < at + length; i++) {
            bytes[i] ^= 0x55;
        }
        Files.write(path(segment), bytes);
    }

    /** Two little-endian numbers for each cut. */
    static byte[] cuts(long... lsns) {
        ByteBuffer out = ByteBuffer.allocate(8 * lsns.length).order(ByteOrder.LITTLE_ENDIAN);
        Arrays.stream(lsns).forEach(out::putLong);
        return out.array();
    }
}
