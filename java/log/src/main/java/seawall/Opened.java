/*
 * Says what the opening of a log found.
 */
package seawall;

import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * What opening found.
 *
 * @param tail how the log had ended
 * @param firstLsn the first LSN that is left
 * @param endLsn the end of the log
 * @param segments segments in the log
 * @param epoch how often the log has been opened, this time included
 * @param recordsLeftInMemory records of commits that were to outlive the process only, and are durable now
 * @param method the commit method
 * @param engine the engine that runs it
 * @param foreignFiles foreign files in the directory
 */
public record Opened(
        Tail tail,
        long firstLsn,
        long endLsn,
        long segments,
        long epoch,
        long recordsLeftInMemory,
        String method,
        String engine,
        List<String> foreignFiles) {

    static Opened of(MemorySegment log) {
        MemorySegment found = Native.pointerFrom(Native.LOG_OPENED, log).reinterpret(Structs.OPENED.byteSize());
        return new Opened(
                Tail.of(
                        Structs.getInt(found, Structs.OPENED, "tail"),
                        Structs.getLong(found, Structs.OPENED, "lost_from"),
                        Structs.getLong(found, Structs.OPENED, "lost_to")),
                Structs.getLong(found, Structs.OPENED, "first"),
                Structs.getLong(found, Structs.OPENED, "end"),
                Structs.getLong(found, Structs.OPENED, "segments"),
                Structs.getLong(found, Structs.OPENED, "epoch"),
                Structs.getLong(found, Structs.OPENED, "left_records"),
                Structs.getText(found, Structs.OPENED, "method"),
                Structs.getText(found, Structs.OPENED, "engine"),
                Structs.texts(
                        Structs.getPointer(found, Structs.OPENED, "foreign_file_names"),
                        Structs.getInt(found, Structs.OPENED, "foreign_files")));
    }
}
