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
 * @param segmentsFilled segments that were created and filled with zeros
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
            Structs.At at = new Structs.At(stats.asSlice(Structs.offset(Structs.STATS, field), Structs.SUMMARY), Structs.SUMMARY);
            return new Distribution(at.getLong("count"), at.getLong("p50"), at.getLong("p99"), at.getLong("p999"), at.getLong("max"));
        }
    }

    static LogStats of(MemorySegment memory) {
        Structs.At stats = new Structs.At(memory, Structs.STATS);
        return new LogStats(
                stats.getLong("records"),
                stats.getLong("batches"),
                stats.getLong("relaxed_batches"),
                stats.getLong("debt_syncs"),
                stats.getLong("bytes_written"),
                stats.getLong("segments_started"),
                stats.getLong("segments_filled"),
                stats.getLong("stalls"),
                stats.getLong("stalled_for_ns"),
                stats.getLong("stalls_seen"),
                stats.getLong("follower_wakes"),
                stats.getLong("appended"),
                stats.getLong("durable"),
                stats.getLong("first"),
                stats.getLong("pinned"),
                stats.getLong("segments"),
                stats.getLong("is_prepared") == 1,
                stats.getLong("streams"),
                stats.getLong("stream_bytes"),
                stats.getLong("stream_memory_bytes"),
                stats.getLong("rewritten_records"),
                stats.getLong("rewritten_bytes"),
                stats.getLong("rewrite_stalls"),
                stats.getLong("disk_bytes"),
                Distribution.of(memory, "write_ns"),
                Distribution.of(memory, "batch_records"));
    }
}
