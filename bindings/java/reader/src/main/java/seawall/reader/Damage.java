package seawall.reader;

import java.nio.file.Path;

/**
 * A damaged place.
 *
 * @param path the segment
 * @param offset where in the segment the damaged batch starts, in bytes
 * @param lsn the LSN of the first record that cannot be read
 * @param what what is wrong there
 */
public record Damage(Path path, long offset, long lsn, String what) {
    @Override
    public String toString() {
        return path + " at byte " + Long.toUnsignedString(offset) + " (LSN " + Long.toUnsignedString(lsn) + "): " + what;
    }
}
