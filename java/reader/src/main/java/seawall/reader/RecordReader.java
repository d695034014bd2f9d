/*
 * Hands out the records of a log or of a stream, one after the other.
 */
package seawall.reader;

import java.io.Closeable;
import java.io.IOException;

/** Records in order. */
public interface RecordReader extends Closeable {
    /**
     * The next record.
     *
     * @return it, or null behind the last one
     * @throws LogFormatException the log is damaged there, or a record of the stream is missing
     * @throws IOException a file could not be read
     */
    LogRecord next() throws IOException;
}
