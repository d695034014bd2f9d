/*
 * Walks the records of one batch, and judges by rule 12 whether they fill it.
 *
 *     +----------------------+-----------------------+---------+
 *     | bits 0-29: length    | tag, if bit 30 is set | payload |
 *     | bit 30: has a tag    | 12 bytes              |         |
 *     | bit 31: more follows |                       |         |
 *     +----------------------+-----------------------+---------+
 */
package seawall.reader;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

final class RawRecords {
    private static final int LENGTH = (1 << 30) - 1;
    private static final int HAS_TAG = 1 << 30;

    private final ByteBuffer body;
    private final boolean mayBeTagged;
    private final long lsn;

    private boolean more;
    private Tag tag;
    private int start;
    private int payloadAt;

    /** Walks {@code body}, which begins at LSN {@code lsn}; only if {@code mayBeTagged} may a record have a tag. */
    RawRecords(byte[] body, boolean mayBeTagged, long lsn) {
        this.body = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        this.mayBeTagged = mayBeTagged;
        this.lsn = lsn;
    }

    /** Steps to the next record; false at the end, or in front of what is no record. */
    boolean next() {
        int at = body.position();
        if (body.remaining() < Layout.RECORD_HEAD_BYTES) {
            return false;
        }
        int head = body.getInt(at);
        int length = head & LENGTH;
        int front = Layout.RECORD_HEAD_BYTES;
        Tag read = null;
        if ((head & HAS_TAG) != 0) {
            front += Layout.TAG_BYTES;
            if (!mayBeTagged || body.remaining() < front) {
                return false;
            }
            read = Tag.read(body, at + Layout.RECORD_HEAD_BYTES);
            if (read == null || (length > 0 && !read.kind().hasPayload)) {
                return false;
            }
        }
        if (length > body.remaining() - front) {
            return false;
        }
        more = head < 0;
        tag = read;
        start = at;
        payloadAt = at + front;
        body.position(payloadAt + length);
        return true;
    }

    /** Whether every byte was a part of a record. */
    boolean isAtEnd() {
        return !body.hasRemaining();
    }

    boolean more() {
        return more;
    }

    Tag tag() {
        return tag;
    }

    long recordLsn() {
        return lsn + start;
    }

    long recordEnd() {
        return lsn + body.position();
    }

    ByteBuffer payload() {
        return body.slice(payloadAt, body.position() - payloadAt).asReadOnlyBuffer();
    }

    /** Rule 12 for the records of a batch with this header. */
    static void check(BatchHeader header, byte[] body) throws Fault.Broken {
        RawRecords walk = new RawRecords(body, header.tagged(), header.lsn());
        long count = 0;
        while (walk.next()) {
            count++;
        }
        boolean filled = walk.isAtEnd() && count == header.records() && !(count > 0 && walk.more());
        if (!filled || (header.kind() == BatchHeader.Kind.RECORDS) != (count > 0)) {
            throw new Fault.Broken(Fault.RECORDS);
        }
    }
}
