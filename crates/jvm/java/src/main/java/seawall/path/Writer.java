/*
 * The call that the timed loop makes once per write: writes a record and makes it as durable as the row can.
 *
 * Invariants: a short write is an error, because it would measure two calls; after an error the writer is not
 * used again.
 */
package seawall.path;

import java.io.IOException;

/** A file held open by one way of writing. */
interface Writer extends AutoCloseable {
    /**
     * Writes the record at this position, bytes from the start of the file, and syncs it if the row does so.
     *
     * @throws IOException the call failed, or wrote less
     */
    void write(long position) throws IOException;

    /**
     * Called before each pass over the file, outside what is timed: a way that goes on where the last write ended
     * returns to the start.
     *
     * @throws IOException the call failed
     */
    default void rewind() throws IOException {}

    @Override
    void close() throws IOException;

    /**
     * Refuses a short write.
     *
     * @throws IOException it was short
     */
    static void whole(long written, long bytes) throws IOException {
        if (written != bytes) {
            throw new IOException("wrote " + written + " of " + bytes + " bytes");
        }
    }
}
