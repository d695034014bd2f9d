/*
 * The C interface of Seawall, an embeddable transaction log: durable group commit, and recovery that distinguishes a torn tail from
 * damage. docs/c.md shows how it is used.
 *
 * This file is made from the source of bindings/c by `cargo xtask c-header`.
 *
 * What holds for every function, unless its own text says otherwise:
 *
 * Results   0 or a positive number if all is well, a negative code, SEAWALL_..., if not; then seawall_error_last() has the whole error.
 *           Functions that return a pointer say when it is NULL. A call that fails has changed nothing but what its error says.
 * Threads   Any thread may call any function with any handle, several at once. What frees a handle is the exception: nobody may be in
 *           a call with that handle, or use it afterwards.
 * Fork      In a process that was forked off, calls with handles of the parent return SEAWALL_FORKED and change nothing; freeing them
 *           is allowed there. The parent is not affected. A child made by clone(2) alone, without the C library, is not noticed: it
 *           must not touch a handle at all.
 * NULL      Every function is defined for NULL in place of any pointer: it returns SEAWALL_INVALID_ARGUMENT or what its text says. A
 *           pointer that is not NULL must point to what the function takes.
 * Closed    After seawall_log_close() or seawall_queue_close() a handle stays valid until it is freed: calls that need it open return
 *           SEAWALL_CLOSED.
 * Ownership Handles, records, messages and reports are freed by the function that is named with them, and by no other. What a caller hands in is
 *           copied or only read during the call. Texts end with a zero byte; those that come from Seawall are never changed, and end
 *           with the structure that points to them.
 * Paths     Bytes as the system has them; UTF-8 on Windows. A relative one is looked up in the working directory of the call.
 * Units     LSNs are positions in the logical log, in bytes; the LSN of an end is exclusive, and where the next record starts. Lengths
 *           are in bytes, times in nanoseconds. A timeout that is negative has no end.
 * Memory    Where the system gives no memory for something small the process is aborted; for the buffers of a log, opening it fails.
 * Cancelling No function is a cancellation point: pthread_cancel() takes effect at the next one after the call, such as
 *           pthread_testcancel() in a loop that makes no other calls.
 * Unloading The shared library stays in memory until the process ends: dlclose() does nothing.
 * Signals   Seawall installs no handlers, and its threads have the mask of the thread that opened the log. errno is left undefined.
 */

#ifndef SEAWALL_H
#define SEAWALL_H


#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Done.
 */
#define SEAWALL_OK 0

/**
 * A record was handed out.
 */
#define SEAWALL_RECORD 1

/**
 * The operating system refused an operation: see `os_error`, `path`.
 */
#define SEAWALL_IO -1

/**
 * No space is left for another segment. Nothing was written and the log stays open: try again when there is space.
 */
#define SEAWALL_DISK_FULL -2

/**
 * The log takes as much of the disk as `disk_bytes_max` allows. Nothing was written: trim it, or open it with a larger bound.
 */
#define SEAWALL_DISK_CAP -3

/**
 * Another writer holds the log.
 */
#define SEAWALL_LOCKED -4

/**
 * A write or a sync failed earlier, see `cause`; its outcome is unknown. Open the log again to learn what is durable.
 */
#define SEAWALL_FAILED -5

/**
 * Acknowledged data is damaged; `at` is the LSN, `limit` the offset in the file `path`.
 */
#define SEAWALL_CORRUPT -6

/**
 * A segment was written by a newer version of Seawall.
 */
#define SEAWALL_NEWER_FORMAT -7

/**
 * A segment was written by an older version of Seawall, in a format that this one does not read.
 */
#define SEAWALL_OLDER_FORMAT -8

/**
 * A segment uses a feature of the format that this library does not have.
 */
#define SEAWALL_UNKNOWN_FEATURE -9

/**
 * Segments of different logs lie in the directory.
 */
#define SEAWALL_FOREIGN_SEGMENT -10

/**
 * A foreign file in the directory has the name of a segment.
 */
#define SEAWALL_FOREIGN_FILE -11

/**
 * Another log was put at the path of the one that was followed.
 */
#define SEAWALL_OTHER_LOG -12

/**
 * The directory holds no log.
 */
#define SEAWALL_NOT_A_LOG -13

/**
 * The disk takes no writes as small as the log's blocks.
 */
#define SEAWALL_BLOCKS_TOO_SMALL -14

/**
 * The record or transaction is longer, `at` bytes, than the log accepts, `limit`.
 */
#define SEAWALL_TOO_LONG -15

/**
 * A call that does not wait would have had to; nothing was accepted.
 */
#define SEAWALL_WOULD_BLOCK -16

/**
 * A wait ended without a result. Nothing was cancelled: what was appended may still become durable. `at` is the LSN that was
 * waited for, 0 for a message; `limit` the time in nanoseconds.
 */
#define SEAWALL_TIMED_OUT -17

/**
 * The LSN `at` was trimmed; the first one left is `limit`.
 */
#define SEAWALL_TRIMMED -18

/**
 * No record starts, or ends, at the LSN `at`.
 */
#define SEAWALL_NO_RECORD -19

/**
 * The LSN `at` lies past the end of the log, `limit`.
 */
#define SEAWALL_BEYOND_END -20

/**
 * The record `at` of a stream was trimmed; the first one left is `limit`.
 */
#define SEAWALL_STREAM_TRIMMED -21

/**
 * The record `at` of a stream is missing, as in a log that was salvaged with a gap; the next one is `limit`.
 */
#define SEAWALL_STREAM_GAP -22

/**
 * A stream has no durable record `at` yet; it goes on with `limit`.
 */
#define SEAWALL_STREAM_END -23

/**
 * A commit requested a higher durability class than the log promises.
 */
#define SEAWALL_BEYOND_PROMISE -24

/**
 * An option lies outside its bounds, or there is none of that name.
 */
#define SEAWALL_INVALID_OPTION -25

/**
 * The log was closed.
 */
#define SEAWALL_CLOSED -26

/**
 * This process was forked off the one that opened the log, which still uses it.
 */
#define SEAWALL_FORKED -27

/**
 * An argument is not what the call takes: NULL, for example. The message names it.
 */
#define SEAWALL_INVALID_ARGUMENT -28

/**
 * Another thread is in a call with the same cursor.
 */
#define SEAWALL_BUSY -29

/**
 * A mistake in Seawall itself; the message says which, and standard error where. What was called may be unusable: close it and
 * open it again.
 */
#define SEAWALL_PANICKED -30

/**
 * The directory is that of a rebuild or a standby that is not finished: finish it, or take over.
 */
#define SEAWALL_REBUILDING -31

/**
 * An error that has no code in this version of the interface.
 */
#define SEAWALL_OTHER -32

/**
 * The process that owns the queue refused, with an error that has no code here; the message has its words.
 */
#define SEAWALL_QUEUE_OWNER -33

/**
 * The directory has a log that is not a queue's.
 */
#define SEAWALL_NOT_A_QUEUE -34

/**
 * A record of the log is not one of a queue.
 */
#define SEAWALL_FOREIGN_RECORD -35

/**
 * The queue has never handed out the message `at`.
 */
#define SEAWALL_NO_MESSAGE -36

/**
 * The process that owns the queue has not answered for `limit` nanoseconds. What was put may be stored.
 */
#define SEAWALL_NO_ANSWER -37

/**
 * The process that owns the queue speaks version `at` of the protocol, which is another one than this library's.
 */
#define SEAWALL_QUEUE_VERSION -38

/**
 * The version of this interface. It changes when a program that was built with an older header would not work any more: functions,
 * codes, options and fields at the end of structures are added without.
 */
#define SEAWALL_ABI_VERSION 0

/**
 * The process may end.
 */
#define SEAWALL_PROCESS_CRASH 1

/**
 * The system may crash.
 */
#define SEAWALL_SYSTEM_CRASH 2

/**
 * The power may fail.
 */
#define SEAWALL_POWER_LOSS 3

/**
 * There was no log.
 */
#define SEAWALL_TAIL_NEW 0

/**
 * It had been closed.
 */
#define SEAWALL_TAIL_CLEAN 1

/**
 * It had not been closed. What was being written when it ended is lost unless it arrived whole.
 */
#define SEAWALL_TAIL_TORN 2

/**
 * Records that had been acknowledged are gone, by an event that the log's durability class does not cover.
 */
#define SEAWALL_TAIL_LOST 3

/**
 * It is being written.
 */
#define SEAWALL_TAIL_WRITTEN 4

/**
 * The devices' counters do not show whether the commit method flushes what the log's class needs: the class rests on the word of system
 * and device alone. `evidence_because` says why.
 */
#define SEAWALL_EVIDENCE_NOT_CONFIRMED 0

/**
 * Each commit that was watched flushed every volatile cache below.
 */
#define SEAWALL_EVIDENCE_CONFIRMED 1

/**
 * No flush is needed: the log promises less than power loss, or no device has a volatile cache.
 */
#define SEAWALL_EVIDENCE_NOT_NEEDED 2

/**
 * The stream of a record that belongs to none: it is one of the log itself.
 */
#define SEAWALL_NO_STREAM 4294967295

/**
 * A part that appends a record.
 */
#define SEAWALL_PART_APPEND 0

/**
 * A part that does what `seawall_stream_trim` does.
 */
#define SEAWALL_PART_TRIM 1

/**
 * A part that does what `seawall_stream_truncate` does.
 */
#define SEAWALL_PART_TRUNCATE 2

/**
 * A part that does what `seawall_stream_remove` does.
 */
#define SEAWALL_PART_REMOVE 3

/**
 * The first LSN that is left.
 */
#define SEAWALL_LSN_FIRST 0

/**
 * The end of what was appended.
 */
#define SEAWALL_LSN_APPENDED 1

/**
 * The end of what is durable: outlives what the log promises.
 */
#define SEAWALL_LSN_DURABLE 2

/**
 * The end of what outlives the end of the process.
 */
#define SEAWALL_LSN_PROCESS_CRASH 3

/**
 * The end of what outlives a crash of the system.
 */
#define SEAWALL_LSN_SYSTEM_CRASH 4

/**
 * The record is the last one of its transaction.
 */
#define SEAWALL_ENDS_TRANSACTION 1

/**
 * The pinned LSN of a log without pins.
 */
#define SEAWALL_NOT_PINNED 18446744073709551615ull

/**
 * Hands out records one after the other.
 */
typedef struct seawall_cursor seawall_cursor;

/**
 * A log that this process writes.
 */
typedef struct seawall_log seawall_log;

/**
 * The options of a log.
 */
typedef struct seawall_options seawall_options;

/**
 * Holds records against trims, as long as it is not freed.
 */
typedef struct seawall_pin seawall_pin;

/**
 * A queue that this process has open.
 */
typedef struct seawall_queue seawall_queue;

/**
 * A look at a log at one moment.
 */
typedef struct seawall_view seawall_view;

/**
 * The last error of a thread.
 */
typedef struct seawall_error {
    /**
     * What the call returned.
     */
    int32_t code;
    /**
     * Of `SEAWALL_FAILED`, the code of the first failure; otherwise `code`.
     */
    int32_t cause;
    /**
     * The error number of the operating system (`errno`), 0 if there is none.
     */
    int32_t os_error;
    /**
     * Always 0.
     */
    int32_t reserved;
    /**
     * A number that belongs to the error, such as the LSN or the length that was named: see the codes. 0 if there is none.
     */
    uint64_t at;
    /**
     * The number that would have done, such as the first LSN left or the longest length: see the codes. 0 if there is none.
     */
    uint64_t limit;
    /**
     * What happened, where, and what to do about it: a sentence in English, in UTF-8. Never NULL.
     */
    const char *message;
    /**
     * The file or directory, NULL if there is none.
     */
    const char *path;
} seawall_error;

/**
 * What opening found. Fields may be added at the end.
 */
typedef struct seawall_opened {
    /**
     * How the log had ended: `SEAWALL_TAIL_...`.
     */
    int32_t tail;
    /**
     * Where the commit method comes from: 0 it was named, 1 the directory remembers it, 2 another log of this process found it,
     * 3 a probe just now.
     */
    int32_t method_origin;
    /**
     * What commits that outlive the process only had left in memory: 0 nothing, 1 records that are durable now, 2 memory that is
     * not believed.
     */
    int32_t left_in_memory;
    /**
     * Entries of `foreign_file_names`.
     */
    uint32_t foreign_files;
    /**
     * If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
     */
    uint64_t lost_from;
    /**
     * Everything before this had been acknowledged then.
     */
    uint64_t lost_to;
    /**
     * The first LSN that is left.
     */
    uint64_t first;
    /**
     * The end of the log.
     */
    uint64_t end;
    /**
     * Segments in the log.
     */
    uint64_t segments;
    /**
     * How often the log has been opened, this time included.
     */
    uint64_t epoch;
    /**
     * Records that `left_in_memory` gave.
     */
    uint64_t left_records;
    /**
     * The absolute path of the directory.
     */
    const char *dir;
    /**
     * The commit method.
     */
    const char *method;
    /**
     * The engine that runs it.
     */
    const char *engine;
    /**
     * Why another engine was refused and the portable one took over; NULL if none was.
     */
    const char *engine_refused;
    /**
     * Why followers in other processes look at the disk again and again instead of being woken; NULL if they are woken.
     */
    const char *channel_refused;
    /**
     * Why what was left in memory is not believed; NULL if it is.
     */
    const char *left_reason;
    /**
     * Foreign files in the directory.
     */
    const char *const *foreign_file_names;
    /**
     * What the devices' counters say to the class of the log: `SEAWALL_EVIDENCE_...`.
     */
    int32_t evidence;
    /**
     * Always 0.
     */
    int32_t reserved;
    /**
     * Why it is not confirmed; NULL otherwise.
     */
    const char *evidence_because;
} seawall_opened;

/**
 * One part of a transaction: a record, or what happens to a stream.
 */
typedef struct seawall_part {
    /**
     * The bytes of a record; may be NULL if there are none. NULL in every other part.
     */
    const void *data;
    /**
     * How many bytes; of `SEAWALL_PART_TRIM` and `SEAWALL_PART_TRUNCATE` the sequence number, of `SEAWALL_PART_REMOVE` 0.
     */
    uint64_t bytes;
    /**
     * The stream; of a record possibly `SEAWALL_NO_STREAM`.
     */
    uint32_t stream;
    /**
     * `SEAWALL_PART_...`; 0 is a record.
     */
    uint32_t kind;
} seawall_part;

/**
 * One durable record.
 */
typedef struct seawall_record {
    /**
     * The LSN where it starts.
     */
    uint64_t lsn;
    /**
     * The LSN where it ends, exclusive: what appending it returned.
     */
    uint64_t end;
    /**
     * Its bytes; never NULL if there is a record.
     */
    const uint8_t *data;
    /**
     * How many.
     */
    uint64_t bytes;
    /**
     * Its number in its stream, 0 without one.
     */
    uint64_t seq;
    /**
     * Its stream, or `SEAWALL_NO_STREAM`.
     */
    uint32_t stream;
    /**
     * `SEAWALL_ENDS_TRANSACTION`, or 0.
     */
    uint32_t flags;
    /**
     * What `seawall_record_free` frees; NULL if the bytes belong to a cursor.
     */
    void *memory;
} seawall_record;

/**
 * Quantiles of a distribution.
 */
typedef struct seawall_summary {
    /**
     * How many values.
     */
    uint64_t count;
    /**
     * Half of the values are at most this.
     */
    uint64_t p50;
    /**
     * 99 of 100 values are at most this.
     */
    uint64_t p99;
    /**
     * 999 of 1000 values are at most this.
     */
    uint64_t p999;
    /**
     * The largest value.
     */
    uint64_t max;
} seawall_summary;

/**
 * Counters and distributions since the log was opened. Fields may be added at the end.
 */
typedef struct seawall_stats {
    /**
     * Records accepted.
     */
    uint64_t records;
    /**
     * Batches that were written and acknowledged, marks included.
     */
    uint64_t batches;
    /**
     * Of these, those that were acknowledged at a lower class than the log promises.
     */
    uint64_t relaxed_batches;
    /**
     * Times that such batches were made durable.
     */
    uint64_t debt_syncs;
    /**
     * Bytes written for them, headers and padding included.
     */
    uint64_t bytes_written;
    /**
     * Segments started.
     */
    uint64_t segments_started;
    /**
     * Segments that were created and filled with zeros; one that was trimmed in time is recycled instead.
     */
    uint64_t segments_filled;
    /**
     * Times that an append had to wait for memory or for a segment.
     */
    uint64_t stalls;
    /**
     * For how long the oldest batch has been in flight, nanoseconds, if that is past `stall_threshold_ns`; 0 if not.
     */
    uint64_t stalled_for_ns;
    /**
     * Such stalls of the disk.
     */
    uint64_t stalls_seen;
    /**
     * Times that followers in other processes were woken.
     */
    uint64_t follower_wakes;
    /**
     * The end of what was appended.
     */
    uint64_t appended;
    /**
     * The end of what is durable.
     */
    uint64_t durable;
    /**
     * The first LSN that is left.
     */
    uint64_t first;
    /**
     * The lowest LSN that a pin holds, or `SEAWALL_NOT_PINNED`.
     */
    uint64_t pinned;
    /**
     * Segments in the log.
     */
    uint64_t segments;
    /**
     * Whether the next segment is prepared: 1 or 0.
     */
    uint64_t is_prepared;
    /**
     * Streams that the log has.
     */
    uint64_t streams;
    /**
     * Bytes of the log that hold records of streams which are still needed.
     */
    uint64_t stream_bytes;
    /**
     * Memory that their positions take, bytes.
     */
    uint64_t stream_memory_bytes;
    /**
     * Records of streams that were rewritten because their segment was to go.
     */
    uint64_t rewritten_records;
    /**
     * What these take, bytes.
     */
    uint64_t rewritten_bytes;
    /**
     * What the log takes on the disk, bytes.
     */
    uint64_t disk_bytes;
    /**
     * How commits are served that are to outlive the process only: 0 there was none yet, 1 in memory, 2 they are written.
     */
    uint64_t process_crash;
    /**
     * How long one batch took to become durable, nanoseconds.
     */
    struct seawall_summary write_ns;
    /**
     * Records in one batch.
     */
    struct seawall_summary batch_records;
    /**
     * Times that an append had to wait until more was rewritten, because the log held three times what its streams need.
     */
    uint64_t rewrite_stalls;
} seawall_stats;

/**
 * A damaged place.
 */
typedef struct seawall_damage {
    /**
     * The segment.
     */
    const char *path;
    /**
     * What is wrong there.
     */
    const char *what;
    /**
     * Where in the segment the damaged batch starts, in bytes.
     */
    uint64_t offset;
    /**
     * The LSN of the first record that cannot be read.
     */
    uint64_t lsn;
} seawall_damage;

/**
 * What a verification, or a backup, found.
 */
typedef struct seawall_report {
    /**
     * The identity of the log.
     */
    uint8_t log_id[16];
    /**
     * The epoch of its last opening.
     */
    uint64_t epoch;
    /**
     * Segments that belong to the log.
     */
    uint64_t segments;
    /**
     * Segments that are prepared and not started.
     */
    uint64_t spares;
    /**
     * The first LSN that must be present.
     */
    uint64_t first;
    /**
     * The end of what is intact.
     */
    uint64_t end;
    /**
     * Intact records, those before the first LSN included, and those that say what was trimmed or cut.
     */
    uint64_t records;
    /**
     * Their bytes, without headers.
     */
    uint64_t bytes;
    /**
     * Intact batches.
     */
    uint64_t batches;
    /**
     * Everything before this is known to have been durable.
     */
    uint64_t witnessed;
    /**
     * If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
     */
    uint64_t lost_from;
    /**
     * Everything before this had been acknowledged then.
     */
    uint64_t lost_to;
    /**
     * Of a backup: segments copied. 0 of a verification.
     */
    uint64_t copied;
    /**
     * Of a backup: segments that an earlier one had copied, checked again.
     */
    uint64_t kept;
    /**
     * Of a backup: segments that the log had trimmed, removed from the backup.
     */
    uint64_t removed;
    /**
     * Entries of `damage`: 0 if all is intact.
     */
    uint64_t damages;
    /**
     * Entries of `foreign_file_names`.
     */
    uint64_t foreign_files;
    /**
     * Size of a block in bytes.
     */
    uint32_t block_bytes;
    /**
     * What acknowledged records outlive, 0 if no segment says so.
     */
    int32_t durability;
    /**
     * How the log ends: `SEAWALL_TAIL_...`.
     */
    int32_t tail;
    /**
     * Always 0.
     */
    int32_t reserved;
    /**
     * Every damaged place.
     */
    const struct seawall_damage *damage;
    /**
     * Foreign files in the directory.
     */
    const char *const *foreign_file_names;
} seawall_report;

/**
 * What a view shows. Fields may be added at the end.
 */
typedef struct seawall_view_state {
    /**
     * The identity of the log.
     */
    uint8_t log_id[16];
    /**
     * The first LSN that is left.
     */
    uint64_t first;
    /**
     * The end of what is known to be durable.
     */
    uint64_t end;
    /**
     * Segments of the log.
     */
    uint64_t segments;
    /**
     * If `tail` is `SEAWALL_TAIL_LOST`, the LSN of the first record that is gone.
     */
    uint64_t lost_from;
    /**
     * Everything before this had been acknowledged then.
     */
    uint64_t lost_to;
    /**
     * How the log ended: `SEAWALL_TAIL_...`, `SEAWALL_TAIL_WRITTEN` while a writer holds it.
     */
    int32_t tail;
    /**
     * Whether a writer holds the log: 1 or 0; -1 if that is unknown, because this process may not open the lock file.
     */
    int32_t writer;
    /**
     * What acknowledged records of the log outlive.
     */
    int32_t durability;
    /**
     * Always 0.
     */
    int32_t reserved;
} seawall_view_state;

/**
 * What one commit method showed.
 */
typedef struct seawall_tried {
    /**
     * Its id in the table of commit methods.
     */
    const char *method;
    /**
     * Its calls in words.
     */
    const char *calls;
    /**
     * Commits that were timed.
     */
    uint64_t commits;
    /**
     * The median of write and sync together, nanoseconds.
     */
    uint64_t p50_ns;
    /**
     * The slowest, nanoseconds.
     */
    uint64_t max_ns;
} seawall_tried;

/**
 * What a probe found.
 */
typedef struct seawall_probe {
    /**
     * The fastest of the methods that outlive the most here; NULL if none could be tried.
     */
    const struct seawall_tried *fastest;
    /**
     * All that were tried, the fastest among them.
     */
    const struct seawall_tried *tried;
    /**
     * Entries of `tried`.
     */
    uint64_t tries;
    /**
     * How long the probe took, nanoseconds.
     */
    uint64_t elapsed_ns;
    /**
     * What an acknowledged commit of these methods outlives here; 0 if that is unknown.
     */
    int32_t durability;
    /**
     * Whose word that is: 1 the device's, 2 the hypervisor's, 3 the server's behind the file system, 4 Wine's, 0 unknown.
     */
    int32_t promised_by;
    /**
     * Why the class is not higher, or what it rests on: lines of text. Never NULL.
     */
    const char *because;
    /**
     * What went wrong, NULL if nothing did; what was found until then is there.
     */
    const char *problem;
    /**
     * A file that could not be removed yet, because the device does not answer; NULL if there is none.
     */
    const char *left_behind;
} seawall_probe;

/**
 * Bytes that a caller hands in.
 */
typedef struct seawall_bytes {
    /**
     * Where they are; may be NULL if there are none.
     */
    const void *data;
    /**
     * How many.
     */
    uint64_t bytes;
} seawall_bytes;

/**
 * A message of a queue.
 */
typedef struct seawall_message {
    /**
     * What put it returned; of one that was put by several at once, that plus its place among them.
     */
    uint64_t id;
    /**
     * Its bytes; never NULL if there is a message.
     */
    const uint8_t *data;
    /**
     * How many.
     */
    uint64_t bytes;
    /**
     * How often it was handed out, by any process, this time included if it was handed out now.
     */
    uint32_t attempts;
    /**
     * Always 0.
     */
    uint32_t reserved;
    /**
     * What `seawall_message_free` frees; NULL if there is no message.
     */
    void *memory;
} seawall_message;

/**
 * What a queue holds. Fields may be added at the end.
 */
typedef struct seawall_queue_stats {
    /**
     * Messages that could be handed out.
     */
    uint64_t waiting;
    /**
     * Messages that are out at consumers.
     */
    uint64_t out;
    /**
     * Messages that are delayed.
     */
    uint64_t delayed;
    /**
     * Dead letters.
     */
    uint64_t dead;
    /**
     * Handles that use the queue, in all processes.
     */
    uint64_t handles;
    /**
     * Whether this process owns the log: 1 or 0.
     */
    uint64_t is_owner;
} seawall_queue_stats;

/**
 * `SEAWALL_ABI_VERSION` of this library. A program that loads it by its path compares that with the header it was built with.
 */
int32_t seawall_abi_version(void);

/**
 * The version of this library, such as "0.1.0"; "0.1.0+debug" of a build with debug assertions, which is slower. Stays for ever.
 */
const char *seawall_version(void);

/**
 * How the structures of this library lie in memory, for bindings that describe them by themselves: for each structure a line
 * `NAME SIZE`, then for each of its fields `NAME.FIELD OFFSET SIZE`, in bytes. Stays for ever; NULL only by a mistake in Seawall.
 */
const char *seawall_layout(void);

/**
 * The last error of this thread: what the last call that returned a negative code failed by. Never NULL; with code 0 if no call of this
 * thread has failed. It belongs to the thread and stays until a call of the thread fails again, or the thread ends. Calls that
 * succeed leave it as it is.
 */
const struct seawall_error *seawall_error_last(void);

/**
 * The name of a code: that of its constant in small letters, without `seawall_`; "unknown" if there is no such code. Stays for ever.
 */
const char *seawall_error_name(int32_t code);

/**
 * Makes options with their defaults. To be freed by `seawall_options_free`.
 *
 * NULL only by a mistake in Seawall: see `SEAWALL_PANICKED`.
 */
struct seawall_options *seawall_options_new(void);

/**
 * Sets an option that is a number. Bounds are checked when a log is opened.
 *
 * | name | what |
 * | --- | --- |
 * | `segment_bytes` | size of one segment: 64 KiB to 64 GiB, a multiple of 4096; default 32 MiB |
 * | `block_bytes` | 512, 1024, 2048 or 4096; fixed when the log is made; default 4096 |
 * | `batch_bytes` | the longest ordinary batch: 4 KiB to 64 MiB, a multiple of 4096; default 2 MiB |
 * | `memory_bytes` | memory for records that are not yet written: two batches or more; default 32 MiB |
 * | `crash_memory_bytes` | memory for commits that outlive the process only: 0, or 64 KiB to 4 GiB; default 16 MiB |
 * | `record_bytes_max` | the longest record and transaction: 1 to 1 GiB; default 64 MiB |
 * | `in_flight_max` | batches in flight at once: 1 to 16; default 2 |
 * | `spares` | segments prepared ahead: 1 to 16; default 1 |
 * | `idle_mark_ns` | nanoseconds without a commit until a durable mark: 1 ms to 1 h; default 5 ms |
 * | `retention_bytes` | the log is trimmed to this many bytes, whole segments; default: not |
 * | `retention_age_ns` | segments go whose newest record is older; default: not |
 * | `disk_bytes_max` | the most that the log takes of the disk: six segments or more; default: no bound |
 * | `full_is_error` | 1: appends under a full `disk_bytes_max` fail with `SEAWALL_DISK_CAP`; 0: they wait; default 0 |
 * | `durability` | what an acknowledged record outlives: `SEAWALL_PROCESS_CRASH`, `SEAWALL_SYSTEM_CRASH` or `SEAWALL_POWER_LOSS`; default power loss |
 * | `create` | 1: make a log where there is none; default 1 |
 * | `permissions` | of files that are made: 0 the owner alone, 1 the group reads, 2 by umask; default 0 |
 * | `network_file_system` | 1: the log may lie on one; default 0 |
 * | `stall_threshold_ns` | the disk counts as stalled after this long, see `seawall_stats`: 1 ms to 1 h; default: not watched |
 *
 * Returns 0, `SEAWALL_INVALID_OPTION` for a name or value that there is not, `SEAWALL_INVALID_ARGUMENT` for NULL.
 */
int32_t seawall_options_set(struct seawall_options *options,
                            const char *name,
                            uint64_t value);

/**
 * Sets an option that is a word.
 *
 * | name | what |
 * | --- | --- |
 * | `method` | `fastest` (default: by a probe, once for a log), `probe again`, or the id of a commit method (`seawall methods` lists them) |
 * | `engine` | `automatic` (default), `portable`, `io_uring`, `overlapped` |
 *
 * Returns as `seawall_options_set`.
 */
int32_t seawall_options_set_text(struct seawall_options *options,
                                 const char *name,
                                 const char *value);

/**
 * Frees options; NULL is fine. A log that was opened with them keeps its own.
 */
void seawall_options_free(struct seawall_options *options);

/**
 * Opens the log in the directory `dir` for writing: locks it, finds out what is durable and makes the log ready. Without a log
 * there it makes one.
 *
 * `options` may be NULL for the defaults and is only read. `*log` becomes a handle, to be closed by `seawall_log_close` and freed
 * by `seawall_log_free`, or NULL if the call fails. Waits for the disk: recovery, and a probe when the log is new.
 *
 * Errors: `SEAWALL_LOCKED`, `SEAWALL_CORRUPT`, `SEAWALL_INVALID_OPTION`, `SEAWALL_NOT_A_LOG` without the option `create`,
 * `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_BLOCKS_TOO_SMALL`, `SEAWALL_DISK_FULL`,
 * `SEAWALL_DISK_CAP`, `SEAWALL_IO`.
 */
int32_t seawall_log_open(const char *dir, const struct seawall_options *options, struct seawall_log **log);

/**
 * What opening found. It belongs to the log and stays until `seawall_log_free`. NULL for NULL.
 */
const struct seawall_opened *seawall_log_opened(const struct seawall_log *log);

/**
 * Appends a record of `bytes` bytes, which is copied, and returns the LSN of its end; in memory, in order, not yet durable: see
 * `seawall_log_commit`. `data` may be NULL if `bytes` is 0. Waits only when the memory for records is full or no prepared segment
 * is left.
 *
 * Errors: `SEAWALL_TOO_LONG`, `SEAWALL_DISK_FULL` and `SEAWALL_DISK_CAP` (nothing was written, the log stays open), `SEAWALL_FAILED`,
 * `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int64_t seawall_log_append(struct seawall_log *log,
                           const void *data,
                           uint64_t bytes);

/**
 * As `seawall_log_append`, but returns `SEAWALL_WOULD_BLOCK`, with nothing accepted, wherever that would wait or take long: when the
 * memory is full, no prepared segment has room, another thread is in the log just now, or the record fills a batch of its
 * own. Then call `seawall_log_append`.
 *
 * It copies the record, at most `batch_bytes`, and takes no lock that it would have to wait for; the only system call that it may make
 * wakes a thread. So it may be called where waiting harms others: from a critical downcall of a Java virtual machine, or an event
 * loop.
 */
int64_t seawall_log_try_append(struct seawall_log *log,
                               const void *data,
                               uint64_t bytes);

/**
 * Appends a record and returns the LSN of its end when it is durable. Concurrent callers share one write. Appending waits as
 * `seawall_log_append`; after that it waits for at most `timeout_ns` nanoseconds, without end if that is negative, as
 * `seawall_log_commit`.
 *
 * Errors: as `seawall_log_append` and `seawall_log_commit`. With `SEAWALL_TIMED_OUT` the record was appended, `at` of the error is the
 * LSN of its end, and it may become durable at any time: do not append it again, but wait for it by `seawall_log_commit`.
 */
int64_t seawall_log_append_commit(struct seawall_log *log,
                                  const void *data,
                                  uint64_t bytes,
                                  int64_t timeout_ns);

/**
 * Appends `count` records and trims, truncates and removes streams, in the order of the parts, all or none of it: after a crash
 * either all is there or nothing. Returns the LSN of its end; not yet durable. Without parts it returns the end of the log. Waits as
 * `seawall_log_append`.
 *
 * Errors: as `seawall_log_append`, `seawall_stream_trim` and `seawall_stream_truncate`; nothing was done then. `SEAWALL_TOO_LONG` if
 * all together are longer than `record_bytes_max`.
 */
int64_t seawall_log_transaction(struct seawall_log *log,
                                const struct seawall_part *parts,
                                uint64_t count);

/**
 * Returns when everything before `lsn` outlives the class `durability`: 0 for what the log promises, or a lower one, which is
 * cheaper: `SEAWALL_PROCESS_CRASH`, `SEAWALL_SYSTEM_CRASH`, `SEAWALL_POWER_LOSS`. Records of a lower class are shown by readers only once
 * they are durable, which they become with the next commit of the log's own class, when the log is idle, or when it is closed.
 *
 * Waits for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it requests the commit and returns at once:
 * `SEAWALL_TIMED_OUT` if it is not done yet, and the write goes on. Without a timeout the calling thread writes the batch itself if
 * no other one does; with one, a thread of the log does, which has to be woken.
 *
 * Errors: `SEAWALL_TIMED_OUT` (nothing was cancelled), `SEAWALL_BEYOND_END` if nothing was appended there, `SEAWALL_BEYOND_PROMISE`,
 * `SEAWALL_FAILED`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int32_t seawall_log_commit(struct seawall_log *log,
                           uint64_t lsn,
                           int32_t durability,
                           int64_t timeout_ns);

/**
 * A position of the log: `which` is one of `SEAWALL_LSN_...`. Never waits for the disk. Of a log that was closed, the last one.
 */
int64_t seawall_log_lsn(const struct seawall_log *log, int32_t which);

/**
 * Where the end of what is durable is kept: a word that only grows, to be read without a call, by an atomic load with acquire
 * ordering. Valid until `seawall_log_free`; never to be written. NULL for NULL.
 */
const uint64_t *seawall_log_durable_word(const struct seawall_log *log);

/**
 * A descriptor for `poll()`, epoll, kqueue and event loops over them. It is readable when more may be durable than at the last read, and
 * so when a cursor of this log may have a record, or a stream of it; when the log failed or was closed; and at first.
 *
 * When it is readable, read up to 8 bytes, and look only then: at `seawall_log_lsn` or the word of `seawall_log_durable_word`, and at
 * each cursor, by `seawall_cursor_next` with a timeout of 0 until that returns no record. It stays readable until it is read, however
 * much becomes durable meanwhile: it counts nothing, and the bytes mean nothing. What becomes durable after the read makes it readable
 * again. Reading it never waits: without a byte it fails with EAGAIN. A log that nobody commits to becomes durable by itself only
 * when it is idle: what an event loop waits for it requests by `seawall_log_commit` with a timeout of 0.
 *
 * Every call returns the same descriptor, from 3 on and closed by `exec()`. It belongs to the log and is closed by `seawall_log_free`,
 * not by `seawall_log_close`; for a runtime that closes what it is given, pass a `dup()`. A process that was forked off shares it and
 * must not read it. Cursors of views are not seen by it.
 *
 * Errors: `SEAWALL_IO` if the system gives no descriptor, and always on Windows, where a thread waits in `seawall_cursor_next` or
 * `seawall_log_commit`; `SEAWALL_FORKED`.
 */
int32_t seawall_log_notify_fd(struct seawall_log *log);

/**
 * The LSN of the first record that was appended at or after `unix_us`, microseconds since 1970 by the clock of then; the end of what
 * is durable if there is none. Reads the disk.
 *
 * Errors: `SEAWALL_TRIMMED`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int64_t seawall_log_lsn_at(const struct seawall_log *log,
                           uint64_t unix_us);

/**
 * Trims everything before `lsn`, as far as it is durable and no pin or stream holds it; returns the first LSN that is left. Whole
 * segments are recycled.
 *
 * Errors: `SEAWALL_BEYOND_END`, `SEAWALL_FAILED`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int64_t seawall_log_trim(struct seawall_log *log, uint64_t lsn);

/**
 * Cuts off every record that belongs to no stream and starts at or after `lsn`. Takes effect at once; durable when everything
 * before the returned LSN is. LSNs are not used twice.
 *
 * Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`; as `seawall_log_append`.
 */
int64_t seawall_log_truncate_after(struct seawall_log *log, uint64_t lsn);

/**
 * Holds everything from `lsn` on, so that no trim takes it, until `seawall_pin_free` or the close of the log. `*pin` becomes the
 * handle, or NULL if the call fails.
 *
 * Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`, `SEAWALL_FORKED`.
 */
int32_t seawall_log_pin(struct seawall_log *log, uint64_t lsn, struct seawall_pin **pin);

/**
 * Lets go what a pin holds; NULL is fine. Before or after the log is freed.
 */
void seawall_pin_free(struct seawall_pin *pin);

/**
 * Commits everything, writes the mark that says so and releases the log for other writers. Other threads may be in calls with the
 * log: appends end with `SEAWALL_CLOSED`, commits of what was appended are served, followers end. Afterwards every call with the
 * handle is defined, and those that need an open log return `SEAWALL_CLOSED`; a second close returns what the first did.
 *
 * Waits for the disk, without end if that does not answer. Errors: `SEAWALL_FAILED` if something could not be made durable,
 * `SEAWALL_FORKED`; the log is released in either case but the last.
 */
int32_t seawall_log_close(struct seawall_log *log);

/**
 * Frees the handle; NULL is fine. No other thread may be in a call with it or use it afterwards. Cursors, records and pins of the
 * log live on. Without `seawall_log_close` before it, the log ends as by a crash: records that were not committed are gone, all
 * that was acknowledged is there.
 *
 * In a process that was forked off it frees memory and touches nothing of the parent's.
 */
void seawall_log_free(struct seawall_log *log);

/**
 * As `seawall_log_append`, to a stream, which is there with its first record. `*seq` becomes the number of the record in its stream;
 * `seq` may be NULL.
 */
int64_t seawall_stream_append(struct seawall_log *log,
                              uint32_t stream_number,
                              const void *data,
                              uint64_t bytes,
                              uint64_t *seq);

/**
 * As `seawall_log_try_append`, to a stream. The first record of an open log that goes to any stream is refused so too.
 */
int64_t seawall_stream_try_append(struct seawall_log *log,
                                  uint32_t stream_number,
                                  const void *data,
                                  uint64_t bytes,
                                  uint64_t *seq);

/**
 * The numbers of the first record that is left in a stream and of the next one that it gets, both 0 for a stream that the log does
 * not have. Either pointer may be NULL.
 */
int32_t seawall_stream_bounds(const struct seawall_log *log,
                              uint32_t stream_number,
                              uint64_t *first,
                              uint64_t *next);

/**
 * Writes the numbers of the streams that the log has into `streams`, in ascending order, at most `capacity` of them; returns how
 * many there are. `streams` may be NULL if `capacity` is 0.
 */
int64_t seawall_stream_list(const struct seawall_log *log, uint32_t *streams, uint64_t capacity);

/**
 * Reads the durable record of a stream with the number `seq` and returns `SEAWALL_RECORD` (1); `*record` is to be freed by `seawall_record_free`. Reads the disk.
 *
 * Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END`, `SEAWALL_STREAM_GAP`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`,
 * `SEAWALL_FORKED`.
 */
int32_t seawall_stream_get(const struct seawall_log *log,
                           uint32_t stream_number,
                           uint64_t seq,
                           struct seawall_record *record);

/**
 * Reads a stream from the record number `seq` on, and waits for more at its end: see `seawall_cursor_next`. `*cursor` becomes the
 * handle, or NULL if the call fails.
 *
 * Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END` past the next record, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int32_t seawall_stream_read(struct seawall_log *log, uint32_t stream_number, uint64_t seq, struct seawall_cursor **cursor);

/**
 * Trims the records of a stream before the number `seq`. Takes effect at once; durable when everything before the returned LSN is.
 *
 * Errors: `SEAWALL_STREAM_END` past the next record; as `seawall_log_append`.
 */
int64_t seawall_stream_trim(struct seawall_log *log,
                            uint32_t stream_number,
                            uint64_t seq);

/**
 * Cuts off the record of a stream with the number `seq` and all after it: the next record gets that number. Takes effect at once;
 * durable when everything before the returned LSN is.
 *
 * Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END`; as `seawall_log_append`.
 */
int64_t seawall_stream_truncate(struct seawall_log *log, uint32_t stream_number, uint64_t seq);

/**
 * Removes a stream with all its records; one of the same number that is written to later starts with number 0. Durable when
 * everything before the returned LSN is.
 *
 * Errors: as `seawall_log_append`.
 */
int64_t seawall_stream_remove(struct seawall_log *log, uint32_t stream_number);

/**
 * Reads the durable records of the log, and of its streams, from the first one at or after `lsn`, and waits for more at the end: see
 * `seawall_cursor_next`. `*cursor` becomes the handle, or NULL if the call fails. Reads the disk.
 *
 * Errors: `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int32_t seawall_log_read(struct seawall_log *log,
                         uint64_t lsn,
                         struct seawall_cursor **cursor);

/**
 * Hands out the next durable record: returns `SEAWALL_RECORD` (1), and `*record` is it, or 0 if there is none. `record->data` belongs to
 * the cursor and stays until the next call with it, or `seawall_cursor_free`; that the log is closed or freed does not matter.
 *
 * Waits for a record for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it does not wait, and 0 says that
 * there is none now. Otherwise 0 says that there will be none: the log was closed, or the writer of a view has ended (see
 * `seawall_view_read`); a timeout is `SEAWALL_TIMED_OUT`, and a later call goes on where it stopped. Reads the disk: that nothing
 * interrupts, but of a log and with a timeout above 0 a thread of the log does it.
 *
 * A cursor is for one thread at a time: a second one gets `SEAWALL_BUSY`.
 *
 * Errors: `SEAWALL_TIMED_OUT`; `SEAWALL_TRIMMED` and `SEAWALL_STREAM_TRIMMED` if a trim has overtaken the cursor: make a new one at
 * `limit` of the error; of a stream of a view `SEAWALL_STREAM_END` if records that it has handed out were cut off, or the stream was
 * removed: it goes on at `limit`; `SEAWALL_STREAM_GAP`, `SEAWALL_CORRUPT`, `SEAWALL_OTHER_LOG`, `SEAWALL_IO`; `SEAWALL_FAILED` when the log has failed and
 * everything durable was handed out; `SEAWALL_FORKED`.
 */
int32_t seawall_cursor_next(struct seawall_cursor *cursor,
                            int64_t timeout_ns,
                            struct seawall_record *record);

/**
 * Frees a cursor, and what it handed out; NULL is fine. No other thread may be in a call with it.
 */
void seawall_cursor_free(struct seawall_cursor *cursor);

/**
 * Reads the durable record that starts at `lsn`, where the record before it ended, and returns `SEAWALL_RECORD` (1). `*record` is to be freed by
 * `seawall_record_free`. Reads the disk.
 *
 * Errors: `SEAWALL_NO_RECORD`, `SEAWALL_TRIMMED`, `SEAWALL_BEYOND_END` if it is not durable, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_CLOSED`,
 * `SEAWALL_FORKED`.
 */
int32_t seawall_log_read_at(const struct seawall_log *log,
                            uint64_t lsn,
                            struct seawall_record *record);

/**
 * Reads the durable record that ends at `lsn`, so, one after the other, the log backwards: returns `SEAWALL_RECORD` (1), or 0 at the
 * first LSN that is left. Otherwise as `seawall_log_read_at`.
 */
int32_t seawall_log_read_before(const struct seawall_log *log,
                                uint64_t lsn,
                                struct seawall_record *record);

/**
 * Frees the bytes of a record and makes it none; NULL, none, and records of cursors are fine.
 */
void seawall_record_free(struct seawall_record *record);

/**
 * Writes into `*stats`, a structure of `bytes` bytes (pass `sizeof`), what the log has done since it was opened. Fields that this
 * library does not know become 0. Of a log that was closed, what it had done.
 */
int32_t seawall_log_get_stats(const struct seawall_log *log, struct seawall_stats *stats, uint64_t bytes);

/**
 * Reads all of the log in the directory `dir`, past the page cache, and reports every damaged place. It writes nothing and needs no
 * lock; a log that is being written may be reported with a torn tail. `*report` is to be freed by `seawall_report_free`; NULL if the
 * call fails. Damage is no error of the call: see `damages`.
 *
 * Errors: `SEAWALL_NOT_A_LOG`, `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_IO`.
 */
int32_t seawall_verify(const char *dir,
                       const struct seawall_report **report);

/**
 * Copies the log in the directory `from`, which any process may be writing, into the directory `to`, which opens as the same log with
 * the same LSNs; a backup that is there is brought up to date. `*report` says what the copy holds and is to be freed by
 * `seawall_report_free`; `report` may be NULL.
 *
 * Errors: those of `seawall_verify`, `SEAWALL_CORRUPT`, `SEAWALL_INVALID_OPTION` for a `to` that cannot be, `SEAWALL_LOCKED`,
 * `SEAWALL_DISK_FULL`.
 */
int32_t seawall_backup(const char *from,
                       const char *to,
                       const struct seawall_report **report);

/**
 * As `seawall_backup`, of an open log: everything that is durable now. Other threads append, commit and trim meanwhile.
 *
 * Errors: as `seawall_backup`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`.
 */
int32_t seawall_log_backup(const struct seawall_log *log, const char *to, const struct seawall_report **report);

/**
 * Copies every intact record of the damaged log in the directory `from` into a new log in the directory `to`, in order and transactions
 * whole, and returns how many, those that say what was trimmed or cut included. `from` stays as it is. LSNs are new: after a gap they differ from those of the old log.
 * `options` are those of the new log, NULL for the defaults. `*report` says what is left of the old log, as `seawall_verify` does, and is
 * to be freed by `seawall_report_free`; `report` may be NULL. Reads and writes the disk.
 *
 * Errors: those of `seawall_verify` and `seawall_log_open`.
 */
int64_t seawall_salvage(const char *from,
                        const char *to,
                        const struct seawall_options *options,
                        const struct seawall_report **report);

/**
 * Frees a report; NULL is fine.
 */
void seawall_report_free(const struct seawall_report *report);

/**
 * Looks at the log in the directory `dir`, which any process may be writing, or none; takes no lock and keeps no writer out. `*view`
 * becomes the handle, or NULL if the call fails. Reads the disk.
 *
 * Errors: `SEAWALL_NOT_A_LOG`, `SEAWALL_CORRUPT`, `SEAWALL_NEWER_FORMAT`, `SEAWALL_OLDER_FORMAT`, `SEAWALL_FOREIGN_SEGMENT`, `SEAWALL_IO`.
 */
int32_t seawall_view_open(const char *dir,
                          struct seawall_view **view);

/**
 * Brings a view up to date; returns 1 if anything may have changed, 0 if not. Threads that call at once take turns.
 *
 * Errors: as `seawall_view_open`; the view stays as it was. `SEAWALL_FORKED`.
 */
int32_t seawall_view_renew(struct seawall_view *view);

/**
 * Writes into `*state`, a structure of `bytes` bytes (pass `sizeof`), what the view shows.
 */
int32_t seawall_view_get_state(const struct seawall_view *view, struct seawall_view_state *state, uint64_t bytes);

/**
 * Reads the log of a view from the first record at or after `lsn`, which may not be there yet, and waits for more, also across
 * writers that end and others that begin: see `seawall_cursor_next`. On Linux a writer wakes it as soon as a commit is durable. It
 * goes on past the end that the view shows, and does not need the view any more.
 *
 * With `ends_with_writer` 1 the cursor ends, and `seawall_cursor_next` returns 0, once there is no writer and everything was handed
 * out; with 0 it waits for the next writer. `*cursor` becomes the handle, or NULL if the call fails.
 *
 * Errors: `SEAWALL_TRIMMED`, `SEAWALL_CORRUPT`, `SEAWALL_IO`, `SEAWALL_FORKED`.
 */
int32_t seawall_view_read(struct seawall_view *view,
                          uint64_t lsn,
                          int32_t ends_with_writer,
                          struct seawall_cursor **cursor);

/**
 * The numbers of the first record that is left in a stream and of the next one that it gets, as `seawall_stream_bounds`, where the log
 * ended that the view shows. Either pointer may be NULL. Reads the records of streams from the disk.
 *
 * Errors: `SEAWALL_INVALID_ARGUMENT` if there is no such stream number; as `seawall_view_open`; `SEAWALL_FORKED`.
 */
int32_t seawall_view_stream_bounds(const struct seawall_view *view,
                                   uint32_t stream_number,
                                   uint64_t *first,
                                   uint64_t *next);

/**
 * Reads a stream of the log of a view from the record number `seq` on, and waits for more, as `seawall_view_read` does; with trims and
 * cuts, also those that come later: see `seawall_cursor_next`. `*cursor` becomes the handle, or NULL if the call fails. Reads the records
 * of streams from the disk.
 *
 * Errors: `SEAWALL_STREAM_TRIMMED`, `SEAWALL_STREAM_END` past the next record that the view shows, `SEAWALL_INVALID_ARGUMENT`; as
 * `seawall_view_open`; `SEAWALL_FORKED`.
 */
int32_t seawall_view_stream_read(struct seawall_view *view,
                                 uint32_t stream_number,
                                 uint64_t seq,
                                 int32_t ends_with_writer,
                                 struct seawall_cursor **cursor);

/**
 * Frees a view; NULL is fine. Its cursors live on. No other thread may be in a call with it.
 */
void seawall_view_free(struct seawall_view *view);

/**
 * Tries the widely supported commit methods on a small file of its own in the directory `dir`, a few commits of 4 KiB each, and
 * removes it. Takes `budget_ns` nanoseconds at most, and a second whatever the budget, even if the device does not answer. `*probe` is
 * to be freed by `seawall_probe_free`.
 *
 * Whatever goes wrong on the disk is no error of the call: see `problem`.
 */
int32_t seawall_probe_run(const char *dir,
                          uint64_t budget_ns,
                          const struct seawall_probe **probe);

/**
 * Frees what a probe found; NULL is fine.
 */
void seawall_probe_free(const struct seawall_probe *probe);

/**
 * Opens the queue in the directory `dir`, or makes one, for any number of processes at once: the first that opens it owns its log and
 * serves the others, which call the same functions; when it closes the queue or ends, another one takes over. On Windows one
 * process alone uses it.
 *
 * `options` are those of the log, for when this process owns it; NULL for the defaults. A message that was got and is not acknowledged
 * after `redeliver_after_ns` is handed out again; if that is negative, only when it is given back or its process is gone. A message that
 * was handed out `max_attempts` times becomes a dead letter in place of coming again; 0: never. `*queue` becomes a handle, to be freed by
 * `seawall_queue_free`, or NULL if the call fails. Waits for the disk, and for the owner, as every function of a queue: after 30 s
 * without an answer it fails with `SEAWALL_NO_ANSWER`.
 *
 * Errors: `SEAWALL_NOT_A_QUEUE`, `SEAWALL_QUEUE_VERSION`, `SEAWALL_NO_ANSWER`, `SEAWALL_IO`; as `seawall_log_open`.
 */
int32_t seawall_queue_open(const char *dir,
                           const struct seawall_options *options,
                           int64_t redeliver_after_ns,
                           uint32_t max_attempts,
                           struct seawall_queue **queue);

/**
 * Puts `count` messages, all or none, which are not handed out before `delay_ns` is over; returns the ID of the first one when they
 * are durable, and those of the others follow. Threads and processes that put at once share a write.
 *
 * Errors: as `seawall_log_append_commit`; `SEAWALL_QUEUE_OWNER`, `SEAWALL_NO_ANSWER`, `SEAWALL_CLOSED`, `SEAWALL_FORKED`. When the owner dies
 * during the call, its messages may be in the queue twice.
 */
int64_t seawall_queue_put(struct seawall_queue *queue,
                          const struct seawall_bytes *bodies,
                          uint64_t count,
                          uint64_t delay_ns);

/**
 * Hands out the next messages, at most `capacity`: this consumer's share of those that wait, among all that do; returns how many it
 * wrote into `messages`. Each is to be acknowledged by `seawall_queue_ack`, given back by `seawall_queue_nack`, or freed by
 * `seawall_message_free`, which gives it back as well.
 *
 * Waits for a message for at most `timeout_ns` nanoseconds, without end if that is negative. With 0 it does not wait, and returns 0 if
 * there is none now; a timeout is `SEAWALL_TIMED_OUT`. `seawall_queue_close` by another thread ends it with `SEAWALL_CLOSED`.
 *
 * Errors: `SEAWALL_TIMED_OUT`; as `seawall_queue_put`.
 */
int64_t seawall_queue_get(struct seawall_queue *queue,
                          int64_t timeout_ns,
                          struct seawall_message *messages,
                          uint64_t capacity);

/**
 * Acknowledges messages together: returns when it is durable that they are never handed out again, and frees them. If it fails they
 * stay, to be acknowledged again or freed; they may be handed out again meanwhile, and freeing them does not give them back any more.
 *
 * Errors: as `seawall_queue_put`.
 */
int32_t seawall_queue_ack(struct seawall_queue *queue,
                          struct seawall_message *messages,
                          uint64_t count);

/**
 * Gives a message back and frees it: it is handed out again after those that wait now, and not before `delay_ns` is over. Does nothing
 * else if another consumer has it, because the time for it was over. If it fails the message stays, as with `seawall_queue_ack`.
 *
 * Errors: as `seawall_queue_put`.
 */
int32_t seawall_queue_nack(struct seawall_queue *queue,
                           struct seawall_message *message,
                           uint64_t delay_ns);

/**
 * Shows the first messages that wait, at most `capacity`; they stay. Returns how many it wrote into `messages`, each to be freed by
 * `seawall_message_free`. Errors: as `seawall_queue_put`.
 */
int64_t seawall_queue_peek(struct seawall_queue *queue,
                           struct seawall_message *messages,
                           uint64_t capacity);

/**
 * As `seawall_queue_peek`, the messages that were tried too often, in the order in which that happened.
 */
int64_t seawall_queue_dead_letters(struct seawall_queue *queue, struct seawall_message *messages, uint64_t capacity);

/**
 * Puts all dead letters into the queue again, as new messages; returns how many. Errors: as `seawall_queue_put`.
 */
int64_t seawall_queue_retry_dead_letters(struct seawall_queue *queue);

/**
 * Removes all dead letters; returns how many. Errors: as `seawall_queue_put`.
 */
int64_t seawall_queue_drop_dead_letters(struct seawall_queue *queue);

/**
 * Removes all messages that wait or are delayed, not those that are out; returns how many. Errors: as `seawall_queue_put`.
 */
int64_t seawall_queue_purge(struct seawall_queue *queue);

/**
 * Writes into `*stats`, a structure of `bytes` bytes (pass `sizeof`), what the queue holds now. Fields that this library does not know
 * become 0. Errors: as `seawall_queue_put`.
 */
int32_t seawall_queue_get_stats(struct seawall_queue *queue,
                                struct seawall_queue_stats *stats,
                                uint64_t bytes);

/**
 * Leaves the queue: what is out at this handle waits again, and calls of other threads end with `SEAWALL_CLOSED`, as later ones do. An
 * owner makes everything durable first. Messages stay in memory until they are freed. The second time it does nothing.
 *
 * Waits for the disk. Errors: `SEAWALL_FAILED`, `SEAWALL_FORKED`.
 */
int32_t seawall_queue_close(struct seawall_queue *queue);

/**
 * Closes the queue if it is open and frees the handle; NULL is fine. No other thread may be in a call with it or use it afterwards. In
 * a process that was forked off it touches nothing, and its memory stays.
 */
void seawall_queue_free(struct seawall_queue *queue);

/**
 * Gives back a message that is out, frees the bytes of any, and makes it none; NULL and none are fine.
 */
void seawall_message_free(struct seawall_message *message);

#ifdef __cplusplus
}
#endif

#endif /* SEAWALL_H */
