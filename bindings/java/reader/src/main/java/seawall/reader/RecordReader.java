package seawall.reader;

import java.io.Closeable;
import java.io.IOException;

/** Hands out the records of a log or of a stream, one after the other. */
public interface RecordReader extends Closeable {
    /**
     * {@return the next record, null after the last one}
     *
     * @throws LogFormatException the log is damaged there, or a record of the stream is missing
     * @throws IOException a file could not be read
     */
    LogRecord next() throws IOException;
}
