/**
 * Reads and verifies logs that Seawall wrote, in plain Java without a native library.
 *
 * <p>{@link seawall.reader.StoredLog} reads a log's records and streams, {@link seawall.reader.StoredLog#verify} lists what is damaged.
 * Everything is written from the description of the on-disk format, version 1, and shares no code with the library that
 * writes it, so that each of the two checks the other.
 *
 * <p>LSNs, sequence numbers and segment numbers are unsigned 64-bit numbers; no log comes to {@link java.lang.Long#MAX_VALUE}, but
 * a damaged one may claim more, and is compared without sign.
 */
package seawall.reader;
