/*
 * Looks at a log without its lock.
 */
package seawall;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Optional;

/**
 * A look at a log at one moment, which any process may be writing, or none: takes no lock and keeps no writer out. Safe for any number
 * of threads, but that which closes it must be the last.
 */
public final class View implements AutoCloseable {
    private final MemorySegment handle;
    private final Cleaner.Cleanable free;
    private volatile boolean closed;

    private View(MemorySegment handle) {
        this.handle = handle;
        free = Handles.free(this, Native.VIEW_FREE, handle);
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
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment view = Native.pointer(arena);
            Native.checked(Native.call(Native.VIEW_OPEN, Native.path(arena, dir), view));
            return new View(view.get(ValueLayout.ADDRESS, 0));
        }
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

    private MemorySegment handle() throws SeawallException {
        if (closed) {
            throw SeawallException.of(NativeError.here(ErrorCode.CLOSED, 0, "the view was closed"));
        }
        return handle;
    }

    /**
     * Brings the view up to date.
     *
     * @return whether anything may have changed
     * @throws SeawallException as {@link #open}; the view stays as it was
     */
    public boolean renew() throws SeawallException {
        try {
            return Native.checked(Native.call(Native.VIEW_RENEW, handle())) == 1;
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * What the view shows.
     *
     * @return its state
     * @throws SeawallException the view was closed
     */
    public State state() throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = arena.allocate(Structs.VIEW_STATE);
            Native.checked(Native.call(Native.VIEW_GET_STATE, handle(), state, state.byteSize()));
            byte[] identity = state.asSlice(Structs.offset(Structs.VIEW_STATE, "log_id"), 16).toArray(ValueLayout.JAVA_BYTE);
            int writer = Structs.getInt(state, Structs.VIEW_STATE, "writer");
            return new State(
                    HexFormat.of().formatHex(identity),
                    get(state, "first"),
                    get(state, "end"),
                    get(state, "segments"),
                    Tail.of(Structs.getInt(state, Structs.VIEW_STATE, "tail"), get(state, "lost_from"), get(state, "lost_to")),
                    writer < 0 ? Optional.empty() : Optional.of(writer == 1),
                    Durability.of(Structs.getInt(state, Structs.VIEW_STATE, "durability")));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private static long get(MemorySegment state, String field) {
        return Structs.getLong(state, Structs.VIEW_STATE, field);
    }

    /**
     * Reads the log, and waits for more, also across writers that end and others that begin. On Linux a writer wakes it as soon as a commit
     * is durable. It goes on past the end that the view shows, and does not need the view any more.
     *
     * @param lsn where to begin: with the first record at or behind it, which may not be there yet
     * @param endsWithWriter whether the cursor ends once there is no writer and everything was handed out
     * @return a cursor
     * @throws SeawallException the LSN was trimmed, or the log cannot be read there
     */
    public Cursor read(long lsn, boolean endsWithWriter) throws SeawallException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment cursor = Native.pointer(arena);
            Native.checked(Native.call(Native.VIEW_READ, handle(), lsn, endsWithWriter ? 1 : 0, cursor));
            return new Cursor(cursor.get(ValueLayout.ADDRESS, 0));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Frees the view; its cursors live on. */
    @Override
    public void close() {
        closed = true;
        free.clean();
    }
}
