/* Tries every function of the interface: in use, with NULL, after close, in a forked child, from several threads, and when the disk
 * fails. C99, and C++ as well. Its argument is an empty directory; exit code 0 means that everything held. */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include "seawall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* The sync of the method that these logs use: ours, so that it can fail. */
static volatile int disk_fails;

int fdatasync(int fd) {
    if (disk_fails) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

/* Small logs whose commits go through `fdatasync`, and which write nothing unasked. */
static seawall_options *small(void) {
    seawall_options *options = seawall_options_new();
    CHECK(options != NULL);
    CHECK(seawall_options_set(options, "segment_bytes", 65536) == 0);
    CHECK(seawall_options_set(options, "batch_bytes", 16384) == 0);
    CHECK(seawall_options_set(options, "memory_bytes", 65536) == 0);
    CHECK(seawall_options_set(options, "idle_mark_ns", UINT64_C(3600000000000)) == 0);
    CHECK(seawall_options_set_text(options, "method", "buffered+fdatasync") == 0);
    CHECK(seawall_options_set_text(options, "engine", "portable") == 0);
    return options;
}

static seawall_log *opened(const char *name) {
    seawall_options *options = small();
    seawall_log *log = NULL;
    CHECK(seawall_log_open(path(name), options, &log) == 0);
    seawall_options_free(options);
    if (!log) exit(1);
    return log;
}

static int is(const seawall_record *record, const char *text) {
    return record->bytes == strlen(text) && memcmp(record->data, text, record->bytes) == 0;
}

static void versions_and_layout(void) {
    CHECK(seawall_abi_version() == SEAWALL_ABI_VERSION);
    CHECK(seawall_version() != NULL && seawall_version()[0] >= '0');
    CHECK(strcmp(seawall_error_name(SEAWALL_STREAM_TRIMMED), "stream_trimmed") == 0);
    CHECK(strcmp(seawall_error_name(-1000), "unknown") == 0);
    const char *layout = seawall_layout();
    char line[128];
    int lines = 0;
#define WHOLE(type)                                                                              \
    snprintf(line, sizeof line, #type " %u\n", (unsigned)sizeof(type));                          \
    CHECK(says(layout, line));                                                                   \
    lines++
#define FIELD(type, field)                                                                       \
    snprintf(line, sizeof line, #type "." #field " %u %u\n", (unsigned)offsetof(type, field), (unsigned)sizeof(((type *)0)->field)); \
    CHECK(says(layout, line));                                                                   \
    lines++
#include "layout.inc"
    for (const char *at = layout; *at; at++) lines -= *at == '\n';
    CHECK(lines == 0);
}

static void no_pointer_is_needed(void) {
    seawall_log *log = opened("null"), *none = log;
    seawall_options *options = seawall_options_new();
    seawall_cursor *cursor = NULL;
    seawall_record record;
    seawall_pin *pin = NULL;
    seawall_view *view = NULL;
    const seawall_report *report = NULL;
    seawall_part part = {NULL, 1, SEAWALL_NO_STREAM, 0};
    const seawall_part wrong[] = {
        {"x", 1, SEAWALL_NO_STREAM, SEAWALL_PART_REMOVE + 1}, {NULL, 0, 7, SEAWALL_PART_REMOVE + 1}, {NULL, 1, 7, SEAWALL_PART_REMOVE},
        {"x", 0, 7, SEAWALL_PART_TRIM}, {NULL, 0, SEAWALL_NO_STREAM, SEAWALL_PART_TRUNCATE},
    };
    seawall_stats stats;
    seawall_view_state state;
    const int refused = SEAWALL_INVALID_ARGUMENT;
    CHECK(seawall_options_set(NULL, "spares", 1) == refused);
    CHECK(says(seawall_error_last()->message, "options is NULL"));
    CHECK(seawall_options_set(options, NULL, 1) == refused);
    CHECK(seawall_options_set_text(NULL, "method", "dsync") == refused);
    CHECK(seawall_options_set_text(options, NULL, "dsync") == refused);
    CHECK(seawall_options_set_text(options, "method", NULL) == refused);
    CHECK(seawall_options_set(options, "no_such", 1) == SEAWALL_INVALID_OPTION);
    CHECK(says(seawall_error_last()->message, "no_such"));
    CHECK(seawall_options_set(options, "method", 1) == SEAWALL_INVALID_OPTION);
    CHECK(seawall_options_set(options, "create", 2) == SEAWALL_INVALID_OPTION);
    CHECK(seawall_options_set(options, "block_bytes", 70000) == SEAWALL_INVALID_OPTION);
    CHECK(seawall_options_set_text(options, "engine", "steam") == SEAWALL_INVALID_OPTION);
    CHECK(seawall_log_open(NULL, NULL, &none) == refused && none == NULL);
    none = log;
    CHECK(seawall_log_open("", NULL, &none) == refused && none == NULL);
    CHECK(seawall_log_open(path("null"), NULL, NULL) == refused);
    CHECK(seawall_log_opened(NULL) == NULL);
    CHECK(seawall_log_durable_word(NULL) == NULL);
    CHECK(seawall_log_append(NULL, "x", 1) == refused);
    CHECK(seawall_log_append(log, NULL, 1) == refused);
    CHECK(seawall_log_append(log, "x", UINT64_MAX) == refused);
    CHECK(seawall_log_append(log, NULL, 0) == 4);
    CHECK(seawall_log_try_append(NULL, "x", 1) == refused);
    CHECK(seawall_log_try_append(log, NULL, 1) == refused);
    CHECK(seawall_log_append_commit(NULL, "x", 1, -1) == refused);
    CHECK(seawall_log_append_commit(log, NULL, 1, -1) == refused);
    CHECK(seawall_log_notify_fd(NULL) == refused);
    CHECK(seawall_log_transaction(NULL, &part, 1) == refused);
    CHECK(seawall_log_transaction(log, NULL, 1) == refused);
    CHECK(seawall_log_transaction(log, &part, 1) == refused);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) CHECK(seawall_log_transaction(log, wrong + i, 1) == refused);
    CHECK(seawall_log_transaction(log, wrong, UINT64_MAX) == refused);
    CHECK(seawall_log_transaction(log, NULL, 0) == 4);
    CHECK(seawall_log_commit(NULL, 0, 0, -1) == refused);
    CHECK(seawall_log_commit(log, 4, 9, -1) == refused);
    CHECK(seawall_log_lsn(NULL, SEAWALL_LSN_DURABLE) == refused);
    CHECK(seawall_log_lsn(log, 99) == refused);
    CHECK(seawall_log_lsn_at(NULL, 0) == refused);
    CHECK(seawall_log_trim(NULL, 0) == refused);
    CHECK(seawall_log_truncate_after(NULL, 0) == refused);
    CHECK(seawall_log_pin(NULL, 0, &pin) == refused && pin == NULL);
    CHECK(seawall_log_pin(log, 0, NULL) == refused);
    CHECK(seawall_log_read(NULL, 0, &cursor) == refused && cursor == NULL);
    CHECK(seawall_log_read(log, 0, NULL) == refused);
    CHECK(seawall_log_read_at(NULL, 0, &record) == refused && record.data == NULL);
    CHECK(seawall_log_read_at(log, 0, NULL) == refused);
    CHECK(seawall_log_read_before(NULL, 0, &record) == refused);
    CHECK(seawall_log_read_before(log, 0, NULL) == refused);
    CHECK(seawall_log_get_stats(NULL, &stats, sizeof stats) == refused);
    CHECK(seawall_log_get_stats(log, NULL, sizeof stats) == refused);
    CHECK(seawall_log_get_stats(log, &stats, 0) == refused);
    CHECK(seawall_log_backup(NULL, path("copy"), NULL) == refused);
    CHECK(seawall_log_backup(log, NULL, NULL) == refused);
    CHECK(seawall_log_close(NULL) == refused);
    CHECK(seawall_stream_append(NULL, 1, "x", 1, NULL) == refused);
    CHECK(seawall_stream_append(log, 1, NULL, 1, NULL) == refused);
    CHECK(seawall_stream_append(log, 1U << 24, "x", 1, NULL) == refused);
    CHECK(seawall_stream_try_append(NULL, 1, "x", 1, NULL) == refused);
    CHECK(seawall_stream_try_append(log, 1, NULL, 1, NULL) == refused);
    CHECK(seawall_stream_bounds(NULL, 1, NULL, NULL) == refused);
    CHECK(seawall_stream_bounds(log, 1, NULL, NULL) == 0);
    CHECK(seawall_stream_list(NULL, NULL, 0) == refused);
    CHECK(seawall_stream_list(log, NULL, 0) == 0);
    CHECK(seawall_stream_append(log, 1, "x", 1, NULL) > 0);
    CHECK(seawall_stream_list(log, NULL, 1) == refused);
    CHECK(seawall_stream_list(log, NULL, 0) == 1);
    CHECK(seawall_stream_get(NULL, 1, 0, &record) == refused);
    CHECK(seawall_stream_get(log, 1, 0, NULL) == refused);
    CHECK(seawall_stream_read(NULL, 1, 0, &cursor) == refused);
    CHECK(seawall_stream_read(log, 1, 0, NULL) == refused);
    CHECK(seawall_stream_trim(NULL, 1, 0) == refused);
    CHECK(seawall_stream_truncate(NULL, 1, 0) == refused);
    CHECK(seawall_stream_remove(NULL, 1) == refused);
    CHECK(seawall_cursor_next(NULL, 0, &record) == refused);
    CHECK(seawall_log_read(log, 0, &cursor) == 0);
    CHECK(seawall_cursor_next(cursor, 0, NULL) == refused);
    seawall_cursor_free(cursor);
    CHECK(seawall_view_open(NULL, &view) == refused);
    CHECK(seawall_view_open(path("null"), NULL) == refused);
    CHECK(seawall_view_renew(NULL) == refused);
    CHECK(seawall_view_get_state(NULL, &state, sizeof state) == refused);
    CHECK(seawall_view_read(NULL, 0, 0, &cursor) == refused && cursor == NULL);
    CHECK(seawall_view_read(NULL, 0, 0, NULL) == refused);
    CHECK(seawall_view_stream_bounds(NULL, 1, NULL, NULL) == refused);
    CHECK(seawall_view_stream_read(NULL, 1, 0, 0, &cursor) == refused && cursor == NULL);
    CHECK(seawall_view_stream_read(NULL, 1, 0, 0, NULL) == refused);
    CHECK(seawall_verify(NULL, &report) == refused && report == NULL);
    CHECK(seawall_verify(path("null"), NULL) == refused);
    CHECK(seawall_backup(NULL, path("copy"), &report) == refused);
    CHECK(seawall_backup(path("null"), NULL, &report) == refused);
    CHECK(seawall_salvage(NULL, path("copy"), NULL, NULL) == refused);
    CHECK(seawall_salvage(path("null"), NULL, NULL, &report) == refused && report == NULL);
    CHECK(seawall_probe_run(NULL, 1, NULL) == refused);
    CHECK(seawall_probe_run(root, 1, NULL) == refused);
    seawall_options_free(NULL);
    seawall_log_free(NULL);
    seawall_cursor_free(NULL);
    seawall_record_free(NULL);
    seawall_pin_free(NULL);
    seawall_view_free(NULL);
    seawall_report_free(NULL);
    seawall_probe_free(NULL);
    seawall_options_free(options);
    seawall_log_free(log);
}

static void records_and_reports(void) {
    seawall_log *log = opened("use");
    const seawall_opened *found = seawall_log_opened(log);
    CHECK(found->tail == SEAWALL_TAIL_NEW && found->end == 0 && found->epoch == 1 && found->foreign_files == 0);
    CHECK(found->method_origin == 0 && strcmp(found->method, "buffered+fdatasync") == 0 && strcmp(found->engine, "portable") == 0);
    CHECK(found->dir[0] == '/' && says(found->dir, "use"));
    CHECK(found->evidence >= SEAWALL_EVIDENCE_NOT_CONFIRMED && found->evidence <= SEAWALL_EVIDENCE_NOT_NEEDED);
    CHECK((found->evidence_because != NULL) == (found->evidence == SEAWALL_EVIDENCE_NOT_CONFIRMED));
    CHECK(seawall_log_append_commit(log, "one", 3, -1) == 7);
    CHECK(*seawall_log_durable_word(log) == 7);
    CHECK(seawall_log_try_append(log, "two", 3) == 14);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_APPENDED) == 14 && seawall_log_lsn(log, SEAWALL_LSN_DURABLE) == 7);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_FIRST) == 0 && seawall_log_lsn(log, SEAWALL_LSN_SYSTEM_CRASH) == 7);
    CHECK(seawall_log_commit(log, 14, SEAWALL_PROCESS_CRASH, -1) == 0);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_PROCESS_CRASH) == 14);
    CHECK(seawall_log_commit(log, 14, 0, INT64_C(60000000000)) == 0);
    CHECK(seawall_log_commit(log, 15, 0, -1) == SEAWALL_BEYOND_END);
    CHECK(seawall_error_last()->at == 15 && seawall_error_last()->limit == 14);
    /* Requested only: the write goes on, and is awaited. */
    CHECK(seawall_log_append(log, "three", 5) == 23);
    int32_t code = seawall_log_commit(log, 23, 0, 0);
    CHECK(code == 0 || code == SEAWALL_TIMED_OUT);
    CHECK(seawall_log_commit(log, 23, SEAWALL_POWER_LOSS, -1) == 0);

    seawall_cursor *cursor = NULL;
    seawall_record record;
    CHECK(seawall_log_read(log, 7, &cursor) == 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && is(&record, "two") && record.lsn == 7 && record.end == 14);
    CHECK(record.stream == SEAWALL_NO_STREAM && record.flags == SEAWALL_ENDS_TRANSACTION && record.memory == NULL);
    CHECK(seawall_cursor_next(cursor, -1, &record) == SEAWALL_RECORD && is(&record, "three"));
    CHECK(seawall_cursor_next(cursor, 0, &record) == 0 && record.data == NULL);
    CHECK(seawall_cursor_next(cursor, 20000000, &record) == SEAWALL_TIMED_OUT);
    CHECK(seawall_error_last()->at == 23 && seawall_error_last()->limit == 20000000);
    CHECK(seawall_log_read_at(log, 7, &record) == SEAWALL_RECORD && is(&record, "two") && record.memory != NULL);
    seawall_record_free(&record);
    CHECK(record.data == NULL && record.memory == NULL);
    seawall_record_free(&record);
    CHECK(seawall_log_read_before(log, 7, &record) == SEAWALL_RECORD && is(&record, "one"));
    seawall_record_free(&record);
    CHECK(seawall_log_read_before(log, 0, &record) == 0);
    CHECK(seawall_log_lsn_at(log, 0) == 0 && seawall_log_lsn_at(log, UINT64_C(4102444800000000)) == 23);

    const seawall_part parts[] = {{"a", 1, SEAWALL_NO_STREAM, 0}, {"b", 1, 7, 0}, {NULL, 0, 7, 0}};
    CHECK(seawall_log_transaction(log, parts, 3) == 61);
    CHECK(seawall_log_commit(log, 61, 0, -1) == 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && is(&record, "a") && record.flags == 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && is(&record, "b") && record.stream == 7 && record.seq == 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && record.bytes == 0 && record.seq == 1
          && record.flags == SEAWALL_ENDS_TRANSACTION);
    seawall_cursor_free(cursor);

    uint64_t seq = 0, first = 9, next = 0;
    uint32_t streams[2] = {0, 0};
    CHECK(seawall_stream_append(log, 9, "c", 1, &seq) == 78 && seq == 0);
    CHECK(seawall_stream_try_append(log, 9, "d", 1, &seq) == 95 && seq == 1);
    CHECK(seawall_log_commit(log, 95, 0, -1) == 0);
    CHECK(seawall_stream_bounds(log, 9, &first, &next) == 0 && first == 0 && next == 2);
    CHECK(seawall_stream_list(log, streams, 1) == 2 && streams[0] == 7 && streams[1] == 0);
    CHECK(seawall_stream_list(log, streams, 2) == 2 && streams[1] == 9);
    CHECK(seawall_stream_get(log, 9, 1, &record) == SEAWALL_RECORD && is(&record, "d"));
    seawall_record_free(&record);
    CHECK(seawall_stream_get(log, 9, 2, &record) == SEAWALL_STREAM_END && seawall_error_last()->limit == 2);
    CHECK(seawall_stream_read(log, 9, 1, &cursor) == 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && is(&record, "d"));
    CHECK(seawall_cursor_next(cursor, 20000000, &record) == SEAWALL_TIMED_OUT);
    seawall_cursor_free(cursor);
    CHECK(seawall_stream_trim(log, 9, 1) == 111);
    CHECK(seawall_stream_read(log, 9, 0, &cursor) == SEAWALL_STREAM_TRIMMED && cursor == NULL);
    CHECK(seawall_stream_truncate(log, 9, 1) == 127);
    CHECK(seawall_stream_remove(log, 9) == 143);
    CHECK(seawall_stream_list(log, NULL, 0) == 1);

    seawall_pin *pin = NULL;
    seawall_stats stats;
    CHECK(seawall_log_pin(log, 7, &pin) == 0);
    memset(&stats, 0xff, sizeof stats);
    CHECK(seawall_log_get_stats(log, &stats, sizeof stats) == 0);
    CHECK(stats.records == 8 && stats.pinned == 7 && stats.streams == 1 && stats.durable == 95 && stats.appended == 143);
    CHECK(stats.rewrite_stalls == 0 && stats.process_crash == 1 && stats.stalled_for_ns == 0 && stats.write_ns.count > 0 && stats.batch_records.max >= 1);
    seawall_pin_free(pin);
    /* A caller with a shorter, and one with a longer structure. */
    struct { seawall_stats known; uint64_t more[2]; } longer;
    memset(&longer, 0xff, sizeof longer);
    CHECK(seawall_log_get_stats(log, &longer.known, sizeof longer) == 0);
    CHECK(longer.known.records == 8 && longer.known.pinned == SEAWALL_NOT_PINNED && longer.more[0] == 0 && longer.more[1] == 0);
    memset(&longer, 0xff, sizeof longer);
    CHECK(seawall_log_get_stats(log, &longer.known, 16) == 0 && longer.known.relaxed_batches == UINT64_MAX);

    CHECK(seawall_log_truncate_after(log, 40) == 159);
    CHECK(seawall_log_commit(log, 159, 0, -1) == 0);
    /* A stream needs the segment: nothing is trimmed. */
    CHECK(seawall_log_trim(log, 7) == 0);
    CHECK(seawall_stream_remove(log, 7) == 175);
    CHECK(seawall_log_commit(log, 175, 0, -1) == 0);
    CHECK(seawall_log_trim(log, 7) == 7);
    char copy[4096];
    const seawall_report *report = NULL;
    snprintf(copy, sizeof copy, "%s", path("copy"));
    CHECK(seawall_log_backup(log, copy, &report) == 0 && report != NULL);
    CHECK(report->copied == 1 && report->damages == 0 && report->end == 175 && report->durability == SEAWALL_POWER_LOSS);
    seawall_report_free(report);
    CHECK(seawall_log_backup(log, copy, NULL) == 0);
    CHECK(seawall_log_close(log) == 0);
    seawall_log_free(log);
    CHECK(seawall_backup(path("use"), copy, &report) == 0 && report->kept + report->copied == 1);
    seawall_report_free(report);
    char saved[4096];
    snprintf(saved, sizeof saved, "%s", path("saved"));
    seawall_options *options = small();
    CHECK(seawall_salvage(copy, saved, options, &report) == 11 && report->damages == 0 && report->end == 175);
    seawall_report_free(report);
    CHECK(seawall_salvage(copy, saved, options, NULL) < 0);
    seawall_options_free(options);
    CHECK(seawall_verify(copy, &report) == 0);
    CHECK(report->damages == 0 && report->tail == SEAWALL_TAIL_CLEAN && report->first == 7 && report->end == 175);
    CHECK(report->records == 13 && report->block_bytes == 4096 && report->segments == 1 && report->foreign_files == 0);
    seawall_report_free(report);

    seawall_view *view = NULL;
    seawall_view_state state;
    CHECK(seawall_view_open(copy, &view) == 0);
    CHECK(seawall_view_get_state(view, &state, sizeof state) == 0);
    CHECK(state.writer == 0 && state.tail == SEAWALL_TAIL_CLEAN && state.first == 7 && state.end == 175 && state.segments == 1);
    CHECK(seawall_view_renew(view) == 0);
    CHECK(seawall_view_read(view, 7, 2, &cursor) == SEAWALL_INVALID_ARGUMENT);
    CHECK(seawall_view_read(view, 0, 1, &cursor) == SEAWALL_TRIMMED && seawall_error_last()->limit == 7);
    CHECK(seawall_view_read(view, 7, 1, &cursor) == 0);
    seawall_view_free(view);
    CHECK(seawall_cursor_next(cursor, -1, &record) == SEAWALL_RECORD && is(&record, "two"));
    int more = 0;
    while ((code = seawall_cursor_next(cursor, -1, &record)) == SEAWALL_RECORD) more++;
    CHECK(code == 0 && more == 6);
    seawall_cursor_free(cursor);

    const seawall_probe *probe = NULL;
    CHECK(seawall_probe_run(root, 300000000, &probe) == 0 && probe != NULL);
    CHECK(probe->because != NULL && probe->elapsed_ns > 0 && (probe->fastest == NULL) == (probe->problem != NULL));
    for (uint64_t i = 0; i < probe->tries; i++) CHECK(probe->tried[i].commits > 0 && probe->tried[i].max_ns >= probe->tried[i].p50_ns);
    seawall_probe_free(probe);
    CHECK(seawall_probe_run(path("no such place"), 300000000, &probe) == 0 && probe->fastest == NULL && probe->problem != NULL);
    seawall_probe_free(probe);
}

/* Every number that a call takes, at both of its ends. */
static void numbers_at_both_ends(void) {
    const int64_t past = SEAWALL_BEYOND_END, behind = SEAWALL_STREAM_END, refused = SEAWALL_INVALID_ARGUMENT;
    const uint64_t most = UINT64_MAX;
    seawall_log *log = opened("ends");
    seawall_view *view = NULL;
    seawall_cursor *cursor = NULL;
    seawall_pin *pin = NULL;
    seawall_record record;
    const seawall_probe *probe = NULL;
    uint64_t seq = 0;
    uint32_t stream = 0;
    CHECK(seawall_stream_append(log, 0, "a", 1, &seq) == 17 && seawall_stream_append(log, 0xffffff, "b", 1, &seq) == 34);
    CHECK(seawall_log_commit(log, 34, 0, INT64_MAX) == 0 && seawall_log_commit(log, 0, 0, 0) == 0);
    CHECK(seawall_view_open(path("ends"), &view) == 0);
    const struct {
        const char *call;
        int64_t returned, expected;
    } rows[] = {
        {"commit", seawall_log_commit(log, most, 0, -1), past},
        {"commit, time below", seawall_log_commit(log, 34, 0, INT64_MIN), 0},
        {"commit, class below", seawall_log_commit(log, 34, -1, -1), refused},
        {"commit, class above", seawall_log_commit(log, 34, 4, -1), refused},
        {"lsn below", seawall_log_lsn(log, -1), refused},
        {"lsn above", seawall_log_lsn(log, 5), refused},
        {"lsn_at", seawall_log_lsn_at(log, 0), 0},
        {"lsn_at, above", seawall_log_lsn_at(log, most), 34},
        {"trim", seawall_log_trim(log, 0), 0},
        {"trim, above", seawall_log_trim(log, most), past},
        {"truncate_after", seawall_log_truncate_after(log, most), past},
        {"pin", seawall_log_pin(log, most, &pin), past},
        {"read", seawall_log_read(log, most, &cursor), past},
        {"read_at", seawall_log_read_at(log, most, &record), past},
        {"read_before", seawall_log_read_before(log, 0, &record), 0},
        {"read_before, above", seawall_log_read_before(log, most, &record), past},
        {"append_commit, time below", seawall_log_append_commit(log, NULL, 0, INT64_MIN), 38},
        {"stream_append, above", seawall_stream_append(log, 1 << 24, "x", 1, &seq), refused},
        {"stream_append, none", seawall_stream_append(log, SEAWALL_NO_STREAM, "x", 1, &seq), refused},
        {"stream_get", seawall_stream_get(log, 0, most, &record), behind},
        {"stream_read", seawall_stream_read(log, 0, most, &cursor), behind},
        {"stream_trim", seawall_stream_trim(log, 0, most), behind},
        {"stream_truncate", seawall_stream_truncate(log, 0, most), behind},
        {"stream_list", seawall_stream_list(log, &stream, 0), 2},
        {"view_read, ends", seawall_view_read(view, 0, -1, &cursor), refused},
        {"view_stream_bounds", seawall_view_stream_bounds(view, 1 << 24, NULL, NULL), refused},
        {"view_stream_read", seawall_view_stream_read(view, 0, most, 1, &cursor), behind},
        {"view_stream_read, stream above", seawall_view_stream_read(view, SEAWALL_NO_STREAM, 0, 1, &cursor), refused},
        {"view_stream_read, ends", seawall_view_stream_read(view, 0, 0, 2, &cursor), refused},
        {"probe, no time", seawall_probe_run(root, 0, &probe), 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].returned != rows[i].expected) {
            printf("%s: %lld, not %lld\n", rows[i].call, (long long)rows[i].returned, (long long)rows[i].expected);
            failures++;
        }
    }
    seawall_probe_free(probe);
    seawall_view_free(view);
    CHECK(seawall_log_close(log) == 0);
    seawall_log_free(log);
}

static void what_a_closed_log_says(void) {
    seawall_log *log = opened("closed");
    seawall_cursor *cursor = NULL, *follower = NULL;
    seawall_pin *pin = NULL;
    seawall_record record;
    seawall_stats stats;
    const seawall_part part = {"x", 1, SEAWALL_NO_STREAM, 0};
    CHECK(seawall_log_append_commit(log, "one", 3, -1) == 7);
    CHECK(seawall_log_read(log, 0, &follower) == 0 && seawall_log_pin(log, 0, &pin) == 0);
    CHECK(seawall_log_append(log, "two", 3) == 14);
    CHECK(seawall_log_close(log) == 0 && seawall_log_close(log) == 0);
    CHECK(seawall_log_append(log, "x", 1) == SEAWALL_CLOSED && strcmp(seawall_error_last()->message, "the log was closed") == 0);
    CHECK(seawall_log_try_append(log, "x", 1) == SEAWALL_CLOSED);
    CHECK(seawall_log_append_commit(log, "x", 1, -1) == SEAWALL_CLOSED);
    CHECK(seawall_log_transaction(log, &part, 1) == SEAWALL_CLOSED);
    CHECK(seawall_stream_append(log, 1, "x", 1, NULL) == SEAWALL_CLOSED);
    CHECK(seawall_stream_try_append(log, 1, "x", 1, NULL) < 0);
    CHECK(seawall_stream_trim(log, 1, 0) < 0 && seawall_stream_truncate(log, 1, 0) < 0 && seawall_stream_remove(log, 1) < 0);
    CHECK(seawall_stream_read(log, 1, 0, &cursor) == SEAWALL_CLOSED && seawall_stream_get(log, 1, 0, &record) == SEAWALL_CLOSED);
    CHECK(seawall_stream_list(log, NULL, 0) == 0 && seawall_stream_bounds(log, 1, NULL, NULL) == 0);
    CHECK(seawall_log_commit(log, 14, 0, -1) == 0 && seawall_log_commit(log, 14, SEAWALL_PROCESS_CRASH, 1) == 0);
    CHECK(seawall_log_commit(log, 15, 0, 1) == SEAWALL_CLOSED || seawall_log_commit(log, 15, 0, 1) == SEAWALL_BEYOND_END);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_DURABLE) == 14 && *seawall_log_durable_word(log) == 14);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_FIRST) == 0 && seawall_log_lsn(log, SEAWALL_LSN_APPENDED) == 14);
    CHECK(seawall_log_lsn_at(log, 0) == SEAWALL_CLOSED);
    CHECK(seawall_log_read(log, 0, &cursor) == SEAWALL_CLOSED && seawall_log_read_at(log, 0, &record) == SEAWALL_CLOSED);
    CHECK(seawall_log_read_before(log, 7, &record) == SEAWALL_CLOSED);
    CHECK(seawall_log_trim(log, 7) == SEAWALL_CLOSED && seawall_log_truncate_after(log, 7) == SEAWALL_CLOSED);
    CHECK(seawall_log_backup(log, path("copy of a closed one"), NULL) == SEAWALL_CLOSED);
    CHECK(seawall_log_get_stats(log, &stats, sizeof stats) == 0 && stats.records == 2);
    CHECK(seawall_log_opened(log)->end == 0);
    seawall_pin_free(pin);
    /* Another writer has the directory, and the cursor of the first one ends. */
    seawall_log *next = opened("closed");
    CHECK(seawall_log_opened(next)->tail == SEAWALL_TAIL_CLEAN && seawall_log_opened(next)->epoch == 2);
    CHECK(seawall_cursor_next(follower, -1, &record) == SEAWALL_RECORD && is(&record, "one"));
    CHECK(seawall_cursor_next(follower, INT64_C(60000000000), &record) == SEAWALL_RECORD && is(&record, "two"));
    seawall_log_free(log);
    CHECK(is(&record, "two") && seawall_cursor_next(follower, -1, &record) == 0);
    seawall_cursor_free(follower);
    seawall_log_free(next);
}

static void refusals_say_what_and_where(void) {
    seawall_log *log = opened("locked"), *second = NULL;
    CHECK(seawall_log_open(path("locked"), NULL, &second) == SEAWALL_LOCKED && second == NULL);
    const seawall_error *error = seawall_error_last();
    CHECK(error->code == SEAWALL_LOCKED && error->cause == SEAWALL_LOCKED && says(error->path, "locked") && says(error->message, error->path));
    CHECK(seawall_log_append(log, "x", UINT64_C(100000000)) == SEAWALL_TOO_LONG);
    error = seawall_error_last();
    CHECK(error->at == 100000000 && error->limit == 67108864 && error->path == NULL && error->os_error == 0);
    /* The memory of 64 KiB is full while nothing is committed: a record that fits a batch is refused, and nothing waits. */
    static char large[12000];
    int64_t code = 0;
    for (int i = 0; i < 1000 && code >= 0; i++) code = seawall_log_try_append(log, large, sizeof large);
    CHECK(code == SEAWALL_WOULD_BLOCK);
    CHECK(seawall_log_try_append(log, large, 16384) == SEAWALL_WOULD_BLOCK);
    seawall_log_free(log);
    seawall_options *options = small();
    CHECK(seawall_options_set(options, "create", 0) == 0);
    CHECK(seawall_log_open(path("none"), options, &log) == SEAWALL_NOT_A_LOG && says(seawall_error_last()->path, "none"));
    CHECK(seawall_options_set(options, "create", 1) == 0 && seawall_options_set(options, "segment_bytes", 1) == 0);
    CHECK(seawall_log_open(path("none"), options, &log) == SEAWALL_INVALID_OPTION && says(seawall_error_last()->message, "segment_bytes"));
    seawall_options_free(options);
    FILE *file = fopen(path("file"), "w");
    CHECK(file && fclose(file) == 0);
    CHECK(seawall_log_open(path("file"), NULL, &log) == SEAWALL_IO);
    CHECK(seawall_error_last()->os_error != 0 && says(seawall_error_last()->path, "file"));
}

static void a_disk_that_fails_is_named(void) {
    seawall_log *log = opened("failing");
    seawall_cursor *cursor = NULL;
    seawall_record record;
    CHECK(seawall_log_append_commit(log, "one", 3, -1) == 7);
    CHECK(seawall_log_read(log, 7, &cursor) == 0);
    disk_fails = 1;
    CHECK(seawall_log_append(log, "two", 3) == 14);
    CHECK(seawall_log_commit(log, 14, 0, -1) == SEAWALL_FAILED);
    const seawall_error *error = seawall_error_last();
    CHECK(error->code == SEAWALL_FAILED && error->cause == SEAWALL_IO && error->os_error == EIO);
    CHECK(says(error->path, "failing") && says(error->path, ".seg") && says(error->message, "must be reopened") && says(error->message, "sync"));
    disk_fails = 0;
    CHECK(seawall_log_append(log, "x", 1) == SEAWALL_FAILED && seawall_log_try_append(log, "x", 1) == SEAWALL_FAILED);
    CHECK(seawall_log_commit(log, 14, 0, INT64_C(60000000000)) == SEAWALL_FAILED && seawall_log_trim(log, 0) == SEAWALL_FAILED);
    CHECK(seawall_log_lsn(log, SEAWALL_LSN_DURABLE) == 7);
    CHECK(seawall_cursor_next(cursor, -1, &record) == SEAWALL_FAILED);
    CHECK(seawall_log_close(log) == SEAWALL_FAILED && seawall_error_last()->os_error == EIO);
    seawall_cursor_free(cursor);
    seawall_log_free(log);
    log = opened("failing");
    CHECK(seawall_log_opened(log)->tail == SEAWALL_TAIL_TORN && seawall_log_append_commit(log, "three", 5, -1) > 7);
    CHECK(seawall_log_close(log) == 0);
    seawall_log_free(log);
}

enum { THREADS = 4, RECORDS = 200 };

static seawall_log *shared;
static seawall_cursor *shared_cursor;

static void *appender(void *argument) {
    intptr_t refused = 0;
    for (int i = 0; i < RECORDS; i++) {
        int64_t end = i % 4 == 0 ? seawall_log_append_commit(shared, "record", 6, -1) : seawall_log_try_append(shared, "record", 6);
        if (end == SEAWALL_WOULD_BLOCK) end = seawall_log_append(shared, "record", 6);
        if (end < 0) refused++;
    }
    (void)argument;
    return (void *)refused;
}

static void *waits_in_cursor(void *argument) {
    seawall_record record;
    int32_t code;
    (void)argument;
    do code = seawall_cursor_next(shared_cursor, -1, &record);
    while (code == SEAWALL_BUSY);
    return (void *)(intptr_t)code;
}

static void threads_share_a_log(void) {
    pthread_t threads[THREADS], waiting;
    void *result;
    shared = opened("threads");
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, appender, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], &result) == 0 && result == NULL);
    CHECK(seawall_log_lsn(shared, SEAWALL_LSN_APPENDED) == THREADS * RECORDS * 10);
    CHECK(seawall_log_commit(shared, THREADS * RECORDS * 10, 0, -1) == 0);
    /* A thread waits in a cursor: another one is refused, and the close of the log ends the wait. */
    seawall_record record;
    int32_t code;
    CHECK(seawall_log_read(shared, THREADS * RECORDS * 10, &shared_cursor) == 0);
    CHECK(pthread_create(&waiting, NULL, waits_in_cursor, NULL) == 0);
    while ((code = seawall_cursor_next(shared_cursor, 0, &record)) == 0) {}
    CHECK(code == SEAWALL_BUSY);
    CHECK(seawall_log_close(shared) == 0);
    CHECK(pthread_join(waiting, &result) == 0 && result == NULL);
    seawall_cursor_free(shared_cursor);
    seawall_log_free(shared);
}

/* Whether a descriptor becomes readable, within a minute or at once. */
static int readable(int fd, int wait) {
    struct pollfd polled = {fd, POLLIN, 0};
    return poll(&polled, 1, wait ? 60000 : 0) == 1;
}

static void a_descriptor_says_that_more_is_durable(void) {
    seawall_log *log = opened("notify");
    seawall_cursor *cursor = NULL;
    seawall_record record;
    char bytes[8];
    int fd = seawall_log_notify_fd(log);
    CHECK(fd > 2 && seawall_log_notify_fd(log) == fd && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    /* At first, until it is read; then not, and reading it does not wait. */
    CHECK(readable(fd, 0) && readable(fd, 0) && read(fd, bytes, sizeof bytes) > 0 && !readable(fd, 0));
    CHECK(read(fd, bytes, sizeof bytes) == -1 && errno == EAGAIN);
    CHECK(seawall_log_read(log, 0, &cursor) == 0);
    CHECK(seawall_log_append(log, "one", 3) == 7 && !readable(fd, 0));
    /* By whichever thread it was written, and however much: once. */
    CHECK(seawall_log_commit(log, 7, 0, -1) == 0 && readable(fd, 1));
    CHECK(seawall_log_append_commit(log, "two", 3, -1) == 14 && seawall_log_append_commit(log, "three", 5, -1) == 23);
    CHECK(readable(fd, 1) && read(fd, bytes, sizeof bytes) > 0);
    while (readable(fd, 0)) CHECK(read(fd, bytes, sizeof bytes) > 0);
    for (int i = 0; i < 3; i++) CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD);
    CHECK(seawall_cursor_next(cursor, 0, &record) == 0);
    /* Requested only, as an event loop does it. */
    CHECK(seawall_log_append(log, "four", 4) == 31);
    (void)seawall_log_commit(log, 31, 0, 0);
    while (seawall_log_lsn(log, SEAWALL_LSN_DURABLE) < 31) CHECK(readable(fd, 1) && read(fd, bytes, sizeof bytes) > 0);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && is(&record, "four"));
    /* A record of another thread wakes one that sleeps in poll(). */
    CHECK(seawall_log_append_commit(log, "five", 4, INT64_C(60000000000)) == 39);
    while (readable(fd, 0)) CHECK(read(fd, bytes, sizeof bytes) > 0);
    CHECK(seawall_log_close(log) == 0 && readable(fd, 0) && seawall_log_notify_fd(log) == fd);
    CHECK(seawall_cursor_next(cursor, 0, &record) == SEAWALL_RECORD && seawall_cursor_next(cursor, -1, &record) == 0);
    seawall_cursor_free(cursor);
    seawall_log_free(log);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    /* One that fails, and one that is asked for when the log is closed already. */
    log = opened("notify failing");
    fd = seawall_log_notify_fd(log);
    CHECK(read(fd, bytes, sizeof bytes) > 0);
    disk_fails = 1;
    CHECK(seawall_log_append_commit(log, "one", 3, -1) == SEAWALL_FAILED && readable(fd, 1));
    disk_fails = 0;
    CHECK(seawall_log_close(log) == SEAWALL_FAILED);
    seawall_log_free(log);
    log = opened("notify failing");
    CHECK(seawall_log_close(log) == 0 && readable(seawall_log_notify_fd(log), 0));
    seawall_log_free(log);
}

static void *is_cancelled(void *call) {
    /* Not on the stack of the thread: the sanitizer does not see that a cancelled one is left. */
    static const seawall_report *report;
    static seawall_record record;
    for (;;) {
        switch (*(const char *)call) {
        case 'c': (void)seawall_log_append_commit(shared, "x", 1, -1); break;
        case 'n': (void)seawall_cursor_next(shared_cursor, 1000000, &record); break;
        default:
            if (seawall_verify(path_of_case, &report) == 0) seawall_report_free(report);
        }
        pthread_testcancel();
    }
    return NULL;
}

static void a_cancelled_thread_ends_behind_its_call(void) {
    const char *const calls[] = {"commit", "next", "verify"};
    shared = opened("cancelled");
    CHECK(seawall_log_append_commit(shared, "first", 5, -1) == 9);
    for (int i = 0; i < 30; i++) {
        pthread_t thread;
        void *result = NULL;
        CHECK(seawall_log_read(shared, (uint64_t)seawall_log_lsn(shared, SEAWALL_LSN_DURABLE), &shared_cursor) == 0);
        path("cancelled");
        CHECK(pthread_create(&thread, NULL, is_cancelled, (void *)calls[i % 3]) == 0);
        usleep(3000);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        seawall_cursor_free(shared_cursor);
    }
    CHECK(seawall_log_append_commit(shared, "after", 5, -1) > 9);
    CHECK(seawall_log_close(shared) == 0);
    seawall_log_free(shared);
}

static void a_forked_child_is_refused(void) {
    seawall_log *log = opened("forked");
    seawall_cursor *cursor = NULL;
    seawall_view *view = NULL;
    seawall_pin *pin = NULL;
    seawall_stats stats;
    CHECK(seawall_log_append_commit(log, "one", 3, -1) == 7);
    CHECK(seawall_log_read(log, 0, &cursor) == 0 && seawall_view_open(path("forked"), &view) == 0 && seawall_log_pin(log, 0, &pin) == 0);
    pid_t child = fork();
    if (child == 0) {
        seawall_record record;
        const int forked = SEAWALL_FORKED;
        failures = 0;
        CHECK(seawall_log_append(log, "x", 1) == forked && seawall_log_try_append(log, "x", 1) == forked);
        CHECK(seawall_log_commit(log, 7, 0, -1) == forked && seawall_log_lsn(log, SEAWALL_LSN_APPENDED) == forked);
        CHECK(seawall_log_get_stats(log, &stats, sizeof stats) == forked && seawall_stream_list(log, NULL, 0) == forked);
        CHECK(seawall_cursor_next(cursor, 0, &record) == forked && seawall_view_renew(view) == forked);
        CHECK(seawall_log_close(log) == forked && seawall_log_notify_fd(log) == forked);
        seawall_pin_free(pin);
        seawall_cursor_free(cursor);
        seawall_view_free(view);
        seawall_log_free(log);
        fflush(stdout);
        _exit(failures ? 1 : 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(seawall_log_append_commit(log, "two", 3, -1) == 14);
    seawall_pin_free(pin);
    seawall_cursor_free(cursor);
    seawall_view_free(view);
    CHECK(seawall_log_close(log) == 0);
    seawall_log_free(log);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    root = arguments[1];
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK(seawall_error_last()->code == 0);
    versions_and_layout();
    no_pointer_is_needed();
    records_and_reports();
    numbers_at_both_ends();
    what_a_closed_log_says();
    refusals_say_what_and_where();
    a_disk_that_fails_is_named();
    threads_share_a_log();
    a_descriptor_says_that_more_is_durable();
    a_cancelled_thread_ends_behind_its_call();
    a_forked_child_is_refused();
    printf("%d failures\n", failures);
    return failures ? 1 : 0;
}
