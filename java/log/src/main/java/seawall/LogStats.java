/*
 * Says what a log has done since it was opened.
 */
package seawall;

import java.lang.foreign.MemorySegment;

/**
 * Counters and distributions since the log was opened.
 *
 * @param records records accepted
 * @param batches batches that were written and acknowledged, marks included
 * @param relaxedBatches of these, those that were acknowledged at a lower class than the log promises
 * @param debtSyncs times that such batches were made durable
 * @param bytesWritten bytes written for them, headers and padding included
 * @param segmentsStarted segments started
 * @param segmentsFilled segments that were made anew and filled with zeros
 * @param stalls times that an append had to wait for memory or for a segment
 * @param stalledForNanos for how long the oldest batch has been in flight, if that is past the threshold; 0 if not
 * @param stallsSeen such stalls of the disk
 * @param followerWakes times that followers in other processes were woken
 * @param appendedLsn the end of what was appended
 * @param durableLsn the end of what is durable
 * @param firstLsn the first LSN that is left
 * @param pinnedLsn the lowest LSN that a pin holds, -1 without pins
 * @param segments segments in the log
 * @param prepared whether the next segment is prepared
 * @param streams streams that the log has
 * @param streamBytes bytes of the log that hold records of streams which are still needed
 * @param streamMemoryBytes memory that their positions take, bytes
 * @param rewrittenRecords records of streams that were rewritten because their segment was to go
 * @param rewrittenBytes what these take, bytes
 * @param rewriteStalls times that an append had to wait until more was rewritten, because the log held three times what its streams need
 * @param diskBytes what the log takes on the disk, bytes
 * @param writeNanos how long one batch took to become durable, nanoseconds
 * @param batchRecords records in one batch
 */
public record LogStats(
        long records,
        long batches,
        long relaxedBatches,
        long debtSyncs,
        long bytesWritten,
        long segmentsStarted,
        long segmentsFilled,
        long stalls,
        long stalledForNanos,
        long stallsSeen,
        long followerWakes,
        long appendedLsn,
        long durableLsn,
        long firstLsn,
        long pinnedLsn,
        long segments,
        boolean prepared,
        long streams,
        long streamBytes,
        long streamMemoryBytes,
        long rewrittenRecords,
        long rewrittenBytes,
        long rewriteStalls,
        long diskBytes,
        Distribution writeNanos,
        Distribution batchRecords) {

    /**
     * Quantiles of a distribution.
     *
     * @param count how many values
     * @param p50 half of the values are at most this
     * @param p99 99 of 100 values are at most this
     * @param p999 999 of 1000 values are at most this
     * @param max the largest value
     */
    public record Distribution(long count, long p50, long p99, long p999, long max) {
        private static Distribution of(MemorySegment stats, String field) {
            MemorySegment at = stats.asSlice(Structs.offset(Structs.STATS, field), Structs.SUMMARY);
            return new Distribution(get(at, "count"), get(at, "p50"), get(at, "p99"), get(at, "p999"), get(at, "max"));
        }

        private static long get(MemorySegment at, String field) {
            return Structs.getLong(at, Structs.SUMMARY, field);
        }
    }

    static LogStats of(MemorySegment stats) {
        return new LogStats(
                get(stats, "records"),
                get(stats, "batches"),
                get(stats, "relaxed_batches"),
                get(stats, "debt_syncs"),
                get(stats, "bytes_written"),
                get(stats, "segments_started"),
                get(stats, "segments_filled"),
                get(stats, "stalls"),
                get(stats, "stalled_for_ns"),
                get(stats, "stalls_seen"),
                get(stats, "follower_wakes"),
                get(stats, "appended"),
                get(stats, "durable"),
                get(stats, "first"),
                get(stats, "pinned"),
                get(stats, "segments"),
                get(stats, "is_prepared") == 1,
                get(stats, "streams"),
                get(stats, "stream_bytes"),
                get(stats, "stream_memory_bytes"),
                get(stats, "rewritten_records"),
                get(stats, "rewritten_bytes"),
                get(stats, "rewrite_stalls"),
                get(stats, "disk_bytes"),
                Distribution.of(stats, "write_ns"),
                Distribution.of(stats, "batch_records"));
    }

    private static long get(MemorySegment stats, String field) {
        return Structs.getLong(stats, Structs.STATS, field);
    }
}
