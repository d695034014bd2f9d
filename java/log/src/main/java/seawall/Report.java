/*
 * Says what a verification, or a backup, found.
 */
package seawall;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * What was found.
 *
 * @param identity the identity of the log, 32 hexadecimal digits
 * @param epoch the epoch of its last opening
 * @param segments segments that belong to the log
 * @param spares segments that are prepared and not started
 * @param firstLsn the first LSN that must be present
 * @param endLsn the end of what is intact
 * @param records intact records, those before the first LSN included
 * @param bytes their bytes, without headers
 * @param batches intact batches
 * @param witnessedLsn everything before this is known to have been durable
 * @param copied of a backup: segments copied
 * @param kept of a backup: segments that an earlier one had copied, checked again
 * @param removed of a backup: segments that the log had trimmed, removed from the backup
 * @param blockBytes size of a block in bytes
 * @param durability what acknowledged records outlive; null if no segment says so
 * @param tail how the log ends
 * @param damage every damaged place
 * @param foreignFiles foreign files in the directory
 */
public record Report(
        String identity,
        long epoch,
        long segments,
        long spares,
        long firstLsn,
        long endLsn,
        long records,
        long bytes,
        long batches,
        long witnessedLsn,
        long copied,
        long kept,
        long removed,
        int blockBytes,
        Durability durability,
        Tail tail,
        List<Damage> damage,
        List<String> foreignFiles) {

    /**
     * Whether nothing is damaged.
     *
     * @return true if no damaged place was found
     */
    public boolean isSound() {
        return damage.isEmpty();
    }

    static Report from(Handle.Making making) throws SeawallException {
        MemorySegment made = Handle.pointer(making);
        try {
            return of(made.reinterpret(Structs.REPORT.byteSize()));
        } finally {
            Native.call(Native.REPORT_FREE, made);
        }
    }

    private static Report of(MemorySegment report) {
        byte[] identity = report.asSlice(Structs.offset(Structs.REPORT, "log_id"), 16).toArray(ValueLayout.JAVA_BYTE);
        return new Report(
                HexFormat.of().formatHex(identity),
                get(report, "epoch"),
                get(report, "segments"),
                get(report, "spares"),
                get(report, "first"),
                get(report, "end"),
                get(report, "records"),
                get(report, "bytes"),
                get(report, "batches"),
                get(report, "witnessed"),
                get(report, "copied"),
                get(report, "kept"),
                get(report, "removed"),
                Structs.getInt(report, Structs.REPORT, "block_bytes"),
                Durability.of(Structs.getInt(report, Structs.REPORT, "durability")),
                Tail.of(Structs.getInt(report, Structs.REPORT, "tail"), get(report, "lost_from"), get(report, "lost_to")),
                damage(report),
                Structs.texts(Structs.getPointer(report, Structs.REPORT, "foreign_file_names"), get(report, "foreign_files")));
    }

    private static List<Damage> damage(MemorySegment report) {
        long count = get(report, "damages");
        long size = Structs.DAMAGE.byteSize();
        MemorySegment places = Structs.getPointer(report, Structs.REPORT, "damage").reinterpret(count * size);
        List<Damage> damage = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            MemorySegment place = places.asSlice(i * size, size);
            damage.add(new Damage(
                    Paths.of(Structs.getPath(place, Structs.DAMAGE, "path")),
                    Structs.getLong(place, Structs.DAMAGE, "offset"),
                    Structs.getLong(place, Structs.DAMAGE, "lsn"),
                    Structs.getText(place, Structs.DAMAGE, "what")));
        }
        return List.copyOf(damage);
    }

    private static long get(MemorySegment report, String field) {
        return Structs.getLong(report, Structs.REPORT, field);
    }
}
