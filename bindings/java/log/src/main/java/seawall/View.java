package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A look at a log at one moment, which any process may be writing, or none: takes no lock and keeps no writer out. Safe for any number
 * of threads, any of which may close it.
 */
public final class View implements AutoCloseable {
    private final Handle handle;

    private View(Handle handle) {
        this.handle = handle;
    }

    /**
     * Looks at the log in a directory.
     *
     * @param dir the directory
     * @return the view
     * @throws LogDamagedException acknowledged data is damaged
     * @throws SeawallException the directory holds no log, or one of another format
     */
    public static View open(Path dir) throws SeawallException {
        NativeLibrary.load();
        return new View(Handle.of("view", Native.VIEW_FREE, (arena, view) -> Native.call(Native.VIEW_OPEN, Paths.text(arena, dir), view)));
    }

    /**
     * What a view shows.
     *
     * @param identity the identity of the log, 32 hexadecimal digits
     * @param firstLsn the first LSN that is left
     * @param endLsn the end of what is known to be durable
     * @param segments segments of the log
     * @param tail how the log ended; {@link Tail.Kind#WRITTEN} while a writer holds it
     * @param writer whether a writer holds the log; empty if this process may not find that out
     * @param durability what acknowledged records of the log outlive
     */
    public record State(
            String identity, long firstLsn, long endLsn, long segments, Tail tail, Optional<Boolean> writer, Durability durability) {}

    /**
     * Brings the view up to date.
     *
     * @return whether anything may have changed
     * @throws LogClosedException the view was closed
     * @throws SeawallException as {@link #open}; the view stays as it was
     */
    public boolean renew() throws SeawallException {
        return handle.call(Native.VIEW_RENEW) == 1;
    }

    /**
     * {@return what the view shows}
     *
     * @throws SeawallException the view was closed
     */
    public State state() throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = arena.allocate(Structs.VIEW_STATE);
            handle.call(Native.VIEW_GET_STATE, memory, memory.byteSize());
            Structs.At state = new Structs.At(memory, Structs.VIEW_STATE);
            int writer = state.getInt("writer");
            return new State(
                    state.logId(),
                    state.getLong("first"),
                    state.getLong("end"),
                    state.getLong("segments"),
                    state.tail(),
                    writer < 0 ? Optional.empty() : Optional.of(writer == 1),
                    state.durability());
        }
    }

    /**
     * Reads the log, and waits for more, also across writers that end and others that begin. On Linux a writer wakes it as soon as a commit
     * is durable. It goes on past the end that the view shows, and does not need the view any more.
     *
     * @param lsn where to begin: with the first record at or after it, which may not be there yet
     * @param endsWithWriter whether the cursor ends once there is no writer and everything was handed out
     * @return a cursor
     * @throws SeawallException the LSN was trimmed, or the log cannot be read there
     */
    public Cursor read(long lsn, boolean endsWithWriter) throws SeawallException {
        return Cursor.of((arena, cursor) -> handle.call(Native.VIEW_READ, lsn, endsWithWriter ? 1 : 0, cursor));
    }

    /**
     * One stream of the log, with its trims and cuts, where the log ended that the view shows.
     *
     * @param number below 2^24
     * @return the stream, which needs the view
     */
    public ViewStream stream(int number) {
        return new ViewStream(handle, number);
    }

    /** Frees the view when the calls of other threads have returned; later ones get {@link LogClosedException}. Its cursors live on. */
    @Override
    public void close() {
        handle.end();
    }
}
