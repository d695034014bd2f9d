/*
 * Says what the opening of a log found.
 */
package seawall;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;

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
 * @param evidence what the devices' counters say to the class of the log
 * @param evidenceBecause why it is not confirmed; empty otherwise
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
        List<String> foreignFiles,
        Evidence evidence,
        Optional<String> evidenceBecause) {

    /** What the devices' counters say to the class of a log, in the order of the library's numbers. */
    public enum Evidence {
        /** There is not enough to judge by, and the class rests on the word of system and device alone. */
        NOT_CONFIRMED,
        /** Each commit that was watched flushed every volatile cache below. */
        CONFIRMED,
        /** No flush is needed: the log promises less than power loss, or no device has a volatile cache. */
        NOT_NEEDED
    }

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
                        Structs.getInt(found, Structs.OPENED, "foreign_files")),
                Evidence.values()[Structs.getInt(found, Structs.OPENED, "evidence")],
                Optional.ofNullable(Structs.getText(found, Structs.OPENED, "evidence_because")));
    }
}
