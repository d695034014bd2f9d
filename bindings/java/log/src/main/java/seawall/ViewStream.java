package seawall;

/** One stream of a log, as a {@link View} shows it. Safe for any number of threads. Each call reads the records of streams from the disk. */
public final class ViewStream {
    private final Handle view;
    private final int number;

    ViewStream(Handle view, int number) {
        this.view = view;
        this.number = LogStream.checked(number);
    }

    /** {@return the number of the stream, below 2^24} */
    public int number() {
        return number;
    }

    /**
     * {@return the number of the first record that is left, or that of the next record if there is none}
     *
     * @throws SeawallException as {@link View#open}; the view was closed
     */
    public long first() throws SeawallException {
        return LogStream.bounds(view, Native.VIEW_STREAM_BOUNDS, number)[0];
    }

    /**
     * {@return the number that the next record gets; 0 for a stream that the log does not have}
     *
     * @throws SeawallException as {@link View#open}; the view was closed
     */
    public long next() throws SeawallException {
        return LogStream.bounds(view, Native.VIEW_STREAM_BOUNDS, number)[1];
    }

    /**
     * Reads the stream from a record on, and waits for more, as {@link View#read} does. The cursor throws {@link ErrorCode#STREAM_TRIMMED} if
     * a trim has overtaken it, and {@link ErrorCode#STREAM_END} if records that it has handed out were cut off, or the stream was removed: it
     * goes on at the limit of the error.
     *
     * @param sequence the number of the first record
     * @param endsWithWriter whether the cursor ends once there is no writer and everything was handed out
     * @return a cursor, which does not need the view
     * @throws SeawallException the record was trimmed, or lies past the next one that the view shows; as {@link View#open}
     */
    public Cursor read(long sequence, boolean endsWithWriter) throws SeawallException {
        return Cursor.of((arena, cursor) -> view.call(Native.VIEW_STREAM_READ, number, sequence, endsWithWriter ? 1 : 0, cursor));
    }
}
