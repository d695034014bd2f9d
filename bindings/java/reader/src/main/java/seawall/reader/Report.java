package seawall.reader;

import java.util.List;

/**
 * What was found.
 *
 * @param identity the identity of the log, 32 hexadecimal digits
 * @param epoch the epoch of its last opening
 * @param blockBytes block size in bytes
 * @param segments segments that belong to the log
 * @param spares segments that are prepared and not started
 * @param firstLsn the first LSN that must be present
 * @param endLsn the end of what is intact
 * @param records intact records, those before the first LSN included
 * @param bytes their bytes, tags included, without their four bytes of length
 * @param batches intact batches
 * @param durability what acknowledged records outlive; null if no segment header is left
 * @param tail how the log ends
 * @param witnessedLsn everything before this is known to have been durable
 * @param damage every damaged place
 * @param foreignFiles files in the directory that are none of the log's
 */
public record Report(
        String identity,
        long epoch,
        int blockBytes,
        long segments,
        long spares,
        long firstLsn,
        long endLsn,
        long records,
        long bytes,
        long batches,
        Durability durability,
        Tail tail,
        long witnessedLsn,
        List<Damage> damage,
        List<String> foreignFiles) {

    /** {@return whether no damaged place was found} */
    public boolean isSound() {
        return damage.isEmpty();
    }
}
