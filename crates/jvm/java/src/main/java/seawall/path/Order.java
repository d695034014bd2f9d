/* The parameters of one block. */
package seawall.path;

import java.nio.file.Path;
import java.util.List;

/**
 * What is asked of {@link Loop}.
 *
 * @param pace when the next write begins
 * @param intervalNs from write to write, nanoseconds
 * @param writesMax end after so many writes
 * @param timeMaxNs or after so long, nanoseconds
 * @param fileBytes how long each file is
 * @param places how many records are written in a file before it is left
 * @param writesPerPlace how often each is written before the next
 * @param files the files, taken in turn; the loop rolls from one to the next unless there is only one, or the pace is tight
 */
record Order(
        Pace pace,
        long intervalNs,
        long writesMax,
        long timeMaxNs,
        long fileBytes,
        long places,
        long writesPerPlace,
        List<Path> files) {

    /** When the next write begins. */
    enum Pace {
        /** At once: to warm up. */
        TIGHT,
        /** So long after the last one ended, waiting by spinning: the original's. */
        CLOSED,
        /** So long after the last one was due, whatever happened. */
        SCHEDULED
    }
}
