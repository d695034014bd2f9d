package seawall;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
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

    /** {@return whether no damaged place was found} */
    public boolean isSound() {
        return damage.isEmpty();
    }

    static Report from(Handle.Making making) throws SeawallException {
        MemorySegment made = Handle.pointer(making);
        try {
            return of(new Structs.At(made.reinterpret(Structs.REPORT.byteSize()), Structs.REPORT));
        } finally {
            Native.call(Native.REPORT_FREE, made);
        }
    }

    private static Report of(Structs.At report) {
        return new Report(
                report.logId(),
                report.getLong("epoch"),
                report.getLong("segments"),
                report.getLong("spares"),
                report.getLong("first"),
                report.getLong("end"),
                report.getLong("records"),
                report.getLong("bytes"),
                report.getLong("batches"),
                report.getLong("witnessed"),
                report.getLong("copied"),
                report.getLong("kept"),
                report.getLong("removed"),
                report.getInt("block_bytes"),
                report.durability(),
                report.tail(),
                damage(report),
                report.getTexts("foreign_file_names", report.getLong("foreign_files")));
    }

    private static List<Damage> damage(Structs.At report) {
        long count = report.getLong("damages");
        long size = Structs.DAMAGE.byteSize();
        MemorySegment places = report.getPointer("damage").reinterpret(count * size);
        List<Damage> damage = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            Structs.At place = new Structs.At(places.asSlice(i * size, size), Structs.DAMAGE);
            damage.add(new Damage(
                    Paths.of(place.getPath("path")), place.getLong("offset"), place.getLong("lsn"), place.getText("what")));
        }
        return List.copyOf(damage);
    }
}
