/*
 * Knows what both headers have in common: where magic, version and checksum stand, and the sizes that the format allows.
 *
 *     at  size
 *      0   4   magic "SWLS" (segment) or "SWLB" (batch)
 *      4   2   format version
 *    124   4   CRC-32C of bytes 0-123
 *
 * Every number is little-endian. Magic, version and checksum keep their places in every later version, so that a newer log
 * is distinguished from damage.
 */
package seawall.reader;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.zip.CRC32C;

final class Layout {
    static final int VERSION = 1;
    static final int HEADER_BYTES = 128;
    static final int CHECKSUM_AT = 124;
    static final int RECORD_HEAD_BYTES = 4;
    static final int TAG_BYTES = 12;
    static final int RECORD_BYTES_MAX = (1 << 30) - 1;
    static final long BATCH_BYTES_MAX = RECORD_BYTES_MAX + (64L << 20);
    static final int SMALLEST_BLOCK = 512;
    static final int LARGEST_BLOCK = 4096;
    static final long SEGMENT_BYTES_MIN = 3L * SMALLEST_BLOCK;
    static final byte[] SEGMENT_MAGIC = "SWLS".getBytes(StandardCharsets.US_ASCII);
    static final byte[] BATCH_MAGIC = "SWLB".getBytes(StandardCharsets.US_ASCII);
    /** How segments of builds before the first release begin. */
    static final byte[] UNRELEASED_MAGIC = "SWS1".getBytes(StandardCharsets.US_ASCII);

    private Layout() {}

    static boolean isBlock(int bytes) {
        return bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
    }

    static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    static int crc32c(byte[] bytes, int from, int length) {
        CRC32C sum = new CRC32C();
        sum.update(bytes, from, length);
        return (int) sum.getValue();
    }

    /** Rules 1 to 3, the same for both headers: magic, checksum, version. */
    static ByteBuffer envelope(byte[] bytes, byte[] magic) throws Fault.Broken {
        if (bytes.length < HEADER_BYTES) {
            throw new Fault.Broken(Fault.SHORT);
        }
        if (!starts(bytes, magic)) {
            if (magic == SEGMENT_MAGIC && starts(bytes, UNRELEASED_MAGIC)) {
                throw new Fault.Broken(Fault.VERSION, 0);
            }
            throw new Fault.Broken(Fault.MAGIC);
        }
        ByteBuffer fields = little(bytes);
        if (fields.getInt(CHECKSUM_AT) != crc32c(bytes, 0, CHECKSUM_AT)) {
            throw new Fault.Broken(Fault.CHECKSUM);
        }
        int version = Short.toUnsignedInt(fields.getShort(4));
        if (version != VERSION) {
            throw new Fault.Broken(Fault.VERSION, version);
        }
        return fields;
    }

    private static boolean starts(byte[] bytes, byte[] magic) {
        return Arrays.equals(bytes, 0, magic.length, magic, 0, magic.length);
    }

    static boolean zero(byte[] bytes, int from, int length) {
        for (int at = from; at < from + length; at++) {
            if (bytes[at] != 0) {
                return false;
            }
        }
        return true;
    }

    static String identity(byte[] header) {
        return HexFormat.of().formatHex(header, 8, 24);
    }

    /** Whether {@code a} lies before {@code b}, both without sign. */
    static boolean before(long a, long b) {
        return Long.compareUnsigned(a, b) < 0;
    }

    static long later(long a, long b) {
        return before(a, b) ? b : a;
    }

    static String segmentName(long number) {
        String digits = Long.toUnsignedString(number);
        return "0".repeat(20 - digits.length()) + digits + ".seg";
    }
}
