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
        MemorySegment memory = Native.pointerFrom(Native.LOG_OPENED, log).reinterpret(Structs.OPENED.byteSize());
        Structs.At found = new Structs.At(memory, Structs.OPENED);
        return new Opened(
                found.tail(),
                found.getLong("first"),
                found.getLong("end"),
                found.getLong("segments"),
                found.getLong("epoch"),
                found.getLong("left_records"),
                found.getText("method"),
                found.getText("engine"),
                found.getTexts("foreign_file_names", found.getInt("foreign_files")),
                Evidence.values()[found.getInt("evidence")],
                Optional.ofNullable(found.getText("evidence_because")));
    }
}
