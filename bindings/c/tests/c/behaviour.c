/* The interpreter of tests/behaviour/cases.txt for C; the head of that file defines its language. C99, and C++ as well. */
#define _POSIX_C_SOURCE 200809L
#include "seawall.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 4096, WORDS = 32, GIVEN = 4096, PATHS = 4096 };

static const char *program, *cases_path, *root;
static char *lines[LINES];
static int line_count;

/* What a case has in hand. */
static char case_dir[PATHS], dir[PATHS * 2];
static seawall_log *hand;
static seawall_pin *pin;
static seawall_cursor *held;
/* What a step gives: words, or the name of an error. */
static char given[GIVEN];

static void give(const char *format, uint64_t a, uint64_t b) {
    snprintf(given, sizeof given, format, a, b);
}

/* The result of a call: its error goes into `given`. */
static int ok(int64_t code) {
    if (code >= 0) return 1;
    snprintf(given, sizeof given, "! %s", seawall_error_name((int32_t)code));
    return 0;
}

static int wrong(const char *what) {
    snprintf(given, sizeof given, "! %s", what);
    return 0;
}

static void let_go(void) {
    seawall_pin_free(pin);
    seawall_log_free(hand);
    pin = NULL;
    hand = NULL;
}

static void hold(seawall_cursor *cursor) {
    seawall_cursor_free(held);
    held = cursor;
}

static void begin(void) {
    let_go();
    hold(NULL);
    snprintf(dir, sizeof dir, "%s/log", case_dir);
}

/* The bytes that a payload stands for, to be freed. */
static char *payload(const char *word, uint64_t *bytes) {
    const char *star = strchr(word, '*');
    char *data;
    if (star) {
        *bytes = strtoull(star + 1, NULL, 10);
        data = (char *)malloc(*bytes + 1);
        memset(data, word[0], *bytes);
        return data;
    }
    *bytes = strcmp(word, "\"\"") ? strlen(word) : 0;
    data = (char *)malloc(*bytes + 1);
    memcpy(data, word, *bytes);
    return data;
}

/* Adds a record to what the step gives. */
static void show(const seawall_record *record) {
    size_t used = strlen(given);
    uint64_t equal = 1;
    if (used > 0 && used < sizeof given) used += (size_t)snprintf(given + used, sizeof given - used, " ");
    if (record->stream != SEAWALL_NO_STREAM && used < sizeof given) {
        used += (size_t)snprintf(given + used, sizeof given - used, "%" PRIu32 "/%" PRIu64 ":", record->stream, record->seq);
    }
    while (equal < record->bytes && record->data[equal] == record->data[0]) equal++;
    if (used >= sizeof given) return;
    if (record->bytes == 0) {
        snprintf(given + used, sizeof given - used, "\"\"");
    } else if (record->bytes > 8 && equal == record->bytes) {
        snprintf(given + used, sizeof given - used, "%c*%" PRIu64, record->data[0], record->bytes);
    } else {
        snprintf(given + used, sizeof given - used, "%.*s", (int)record->bytes, (const char *)record->data);
    }
}

/* What a cursor waits for. */
static int show_next(seawall_cursor *cursor, const char *ms) {
    seawall_record record;
    int32_t code = seawall_cursor_next(cursor, (int64_t)strtoull(ms, NULL, 10) * 1000000, &record);
    if (code == SEAWALL_RECORD) show(&record);
    if (code == 0) snprintf(given, sizeof given, "end");
    return ok(code);
}

/* Everything that a cursor has now, or what it waits for. */
static int show_all(seawall_cursor *cursor, int waits, const char *ms) {
    seawall_record record;
    int32_t code = 0;
    int fine;
    if (!waits) {
        while ((code = seawall_cursor_next(cursor, 0, &record)) == SEAWALL_RECORD) show(&record);
    }
    fine = waits ? show_next(cursor, ms) : ok(code);
    seawall_cursor_free(cursor);
    return fine;
}

static int show_one(int32_t code, seawall_record *record) {
    if (!ok(code)) return 0;
    if (code == SEAWALL_RECORD) show(record);
    else snprintf(given, sizeof given, "none");
    seawall_record_free(record);
    return 1;
}

static int32_t class_of(const char *name) {
    if (!strcmp(name, "process_crash")) return SEAWALL_PROCESS_CRASH;
    return strcmp(name, "system_crash") ? SEAWALL_POWER_LOSS : SEAWALL_SYSTEM_CRASH;
}

static int open_log(char **words, int count) {
    static const char *const tails[] = {"new", "clean", "torn", "lost"};
    seawall_options *options = seawall_options_new();
    seawall_log *opened;
    int fine = ok(seawall_options_set(options, "segment_bytes", 65536)) && ok(seawall_options_set(options, "batch_bytes", 16384))
        && ok(seawall_options_set(options, "memory_bytes", 1048576)) && ok(seawall_options_set(options, "idle_mark_ns", UINT64_C(3600000000000)))
        && ok(seawall_options_set_text(options, "method", "buffered+fdatasync"));
    for (int i = 0; fine && i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) return wrong("an option is NAME=VALUE");
        *value++ = 0;
        if (!strcmp(words[i], "method") || !strcmp(words[i], "engine")) fine = ok(seawall_options_set_text(options, words[i], value));
        else if (!strcmp(words[i], "durability")) fine = ok(seawall_options_set(options, words[i], (uint64_t)class_of(value)));
        else fine = ok(seawall_options_set(options, words[i], strtoull(value, NULL, 10)));
    }
    fine = fine && ok(seawall_log_open(dir, options, &opened));
    seawall_options_free(options);
    if (!fine) return 0;
    let_go();
    hand = opened;
    snprintf(given, sizeof given, "%s %" PRIu64 " %" PRIu64, tails[seawall_log_opened(hand)->tail], seawall_log_opened(hand)->first,
             seawall_log_opened(hand)->end);
    return 1;
}

static int write_file(const char *path, const char *data, uint64_t bytes) {
    FILE *file = fopen(path, "wb");
    int fine = file && fwrite(data, 1, bytes, file) == bytes;
    return (file && !fclose(file) && fine) ? 1 : wrong("cannot write a file");
}

static int by_name(const void *a, const void *b) {
    return strcmp((const char *)a, (const char *)b);
}

/* Inverts the first byte of the first `bytes` bytes that are those of `data` in the segments. */
static int damage(const char *data, uint64_t bytes) {
    static char names[64][256];
    int count = 0, done = 0;
    struct dirent *entry;
    DIR *list = opendir(dir);
    while (list && (entry = readdir(list)) && count < 64) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && length < sizeof names[0] && !strcmp(entry->d_name + length - 4, ".seg")) memcpy(names[count++], entry->d_name, length + 1);
    }
    if (list) closedir(list);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    for (int i = 0; i < count && !done; i++) {
        char path[sizeof dir + sizeof names[0]];
        struct stat facts;
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        FILE *file = fopen(path, "rb");
        if (!file || fstat(fileno(file), &facts)) return wrong("cannot read a segment");
        size_t size = (size_t)facts.st_size;
        char *content = (char *)malloc(size + 1);
        if (fread(content, 1, size, file) != size) size = 0;
        fclose(file);
        for (size_t at = 0; at + bytes <= size && !done; at++) {
            if (!memcmp(content + at, data, bytes)) {
                content[at] = (char)~content[at];
                done = write_file(path, content, size);
            }
        }
        free(content);
    }
    return done ? 1 : wrong("nothing to damage");
}

static int copied(int32_t code, const seawall_report *report) {
    if (!ok(code)) return 0;
    give("%" PRIu64 " %" PRIu64, report->first, report->end);
    seawall_report_free(report);
    return 1;
}

/* An LSN, or an error. */
static int end(int64_t code) {
    if (!ok(code)) return 0;
    give("%" PRIu64, (uint64_t)code, 0);
    return 1;
}

static int is(char **words, const char *name, int count, int wanted) {
    return !strcmp(words[0], name) && count == wanted;
}

static int of_stream(char **words, int count) {
    uint32_t stream = (uint32_t)strtoul(words[1], NULL, 10);
    uint64_t bytes, seq = count > 2 ? strtoull(words[2], NULL, 10) : 0, first = 0, next = 0;
    seawall_cursor *cursor;
    seawall_record record;
    int64_t code;
    if (is(words, "stream_append", count, 3)) {
        char *data = payload(words[2], &bytes);
        code = seawall_stream_append(hand, stream, data, bytes, &seq);
        free(data);
        if (!ok(code)) return 0;
        give("%" PRIu64 " %" PRIu64, seq, (uint64_t)code);
        return 1;
    }
    if (is(words, "stream_read", count, 3)) return ok(seawall_stream_read(hand, stream, seq, &cursor)) && show_all(cursor, 0, NULL);
    if (is(words, "stream_follow", count, 4)) return ok(seawall_stream_read(hand, stream, seq, &cursor)) && show_all(cursor, 1, words[3]);
    if (is(words, "stream_get", count, 3)) return show_one(seawall_stream_get(hand, stream, seq, &record), &record);
    if (is(words, "stream_bounds", count, 2)) {
        if (!ok(seawall_stream_bounds(hand, stream, &first, &next))) return 0;
        give("%" PRIu64 " %" PRIu64, first, next);
        return 1;
    }
    if (is(words, "stream_trim", count, 3)) return end(seawall_stream_trim(hand, stream, seq));
    if (is(words, "stream_truncate", count, 3)) return end(seawall_stream_truncate(hand, stream, seq));
    if (is(words, "stream_remove", count, 2)) return end(seawall_stream_remove(hand, stream));
    return wrong("this interpreter has no such step");
}

/* What begins a part of a transaction that is no record, by its kind. */
static const char *const changes[] = {"", "trim:", "truncate:", "remove:"};

/* Appends the payloads one by one, or as a transaction. */
static int append(char **words, int count, int as_one) {
    seawall_part parts[WORDS];
    int64_t code = SEAWALL_INVALID_ARGUMENT;
    for (int i = 1; i < count; i++) {
        uint32_t kind = as_one ? SEAWALL_PART_REMOVE : SEAWALL_PART_APPEND;
        while (kind && strncmp(words[i], changes[kind], strlen(changes[kind]))) kind--;
        char *word = words[i] + strlen(changes[kind]), *colon = as_one ? strchr(word, ':') : NULL;
        parts[i].kind = kind;
        parts[i].stream = colon || kind ? (uint32_t)strtoul(word, NULL, 10) : SEAWALL_NO_STREAM;
        parts[i].data = kind ? NULL : payload(colon ? colon + 1 : word, &parts[i].bytes);
        if (kind) parts[i].bytes = colon ? strtoull(colon + 1, NULL, 10) : 0;
        code = 0;
    }
    for (int i = 1; !as_one && i < count && code >= 0; i++) code = seawall_log_append(hand, parts[i].data, parts[i].bytes);
    if (as_one) code = seawall_log_transaction(hand, parts + 1, (uint64_t)count - 1);
    for (int i = 1; i < count; i++) free((void *)parts[i].data);
    return end(code);
}

static int of_log(char **words, int count) {
    uint64_t bytes, at = count > 1 ? strtoull(words[1], NULL, 10) : 0;
    seawall_cursor *cursor;
    seawall_record record;
    const seawall_report *report = NULL;
    char path[sizeof dir];
    int64_t code;
    if (is(words, "left", count, 1)) {
        const seawall_opened *opened = seawall_log_opened(hand);
        if (!opened) return ok(SEAWALL_INVALID_ARGUMENT);
        if (opened->left_in_memory == 1) give("taken %" PRIu64, opened->left_records, 0);
        else snprintf(given, sizeof given, "%s", opened->left_in_memory ? "worthless" : "nothing");
        return 1;
    }
    if (is(words, "evidence", count, 1)) {
        static const char *const names[] = {"not-confirmed", "confirmed", "not-needed"};
        snprintf(given, sizeof given, "%s", names[seawall_log_opened(hand)->evidence]);
        return 1;
    }
    if (is(words, "close", count, 1)) return ok(seawall_log_close(hand));
    if (!strcmp(words[0], "append")) return append(words, count, 0);
    if (!strcmp(words[0], "transaction")) return append(words, count, 1);
    if (is(words, "try_append", count, 2) || is(words, "append_commit", count, 2)) {
        char *data = payload(words[1], &bytes);
        code = words[0][0] == 't' ? seawall_log_try_append(hand, data, bytes) : seawall_log_append_commit(hand, data, bytes, -1);
        free(data);
        return end(code);
    }
    if (is(words, "commit", count, 1)) {
        code = seawall_log_lsn(hand, SEAWALL_LSN_APPENDED);
        return ok(code) && ok(seawall_log_commit(hand, (uint64_t)code, 0, -1));
    }
    if (is(words, "commit", count, 2)) return ok(seawall_log_commit(hand, at, 0, -1));
    if (is(words, "commit", count, 3)) return ok(seawall_log_commit(hand, at, class_of(words[2]), -1));
    if (is(words, "lsns", count, 1)) {
        int64_t first = seawall_log_lsn(hand, SEAWALL_LSN_FIRST), appended = seawall_log_lsn(hand, SEAWALL_LSN_APPENDED);
        code = seawall_log_lsn(hand, SEAWALL_LSN_DURABLE);
        snprintf(given, sizeof given, "%" PRId64 " %" PRId64 " %" PRId64, first, appended, code);
        return ok(code);
    }
    if (is(words, "read", count, 2)) return ok(seawall_log_read(hand, at, &cursor)) && show_all(cursor, 0, NULL);
    if (is(words, "follow", count, 3)) return ok(seawall_log_read(hand, at, &cursor)) && show_all(cursor, 1, words[2]);
    if (is(words, "read_at", count, 2)) return show_one(seawall_log_read_at(hand, at, &record), &record);
    if (is(words, "read_before", count, 2)) return show_one(seawall_log_read_before(hand, at, &record), &record);
    if (is(words, "trim", count, 2)) return end(seawall_log_trim(hand, at));
    if (is(words, "truncate_after", count, 2)) return end(seawall_log_truncate_after(hand, at));
    if (is(words, "pin", count, 2)) return ok(seawall_log_pin(hand, at, &pin));
    if (is(words, "unpin", count, 1)) {
        seawall_pin_free(pin);
        pin = NULL;
        return 1;
    }
    if (is(words, "log_backup", count, 2)) {
        snprintf(path, sizeof path, "%s/%s", case_dir, words[1]);
        code = seawall_log_backup(hand, path, &report);
        return copied((int32_t)code, report);
    }
    if (is(words, "streams", count, 1)) {
        uint32_t streams[64];
        code = seawall_stream_list(hand, streams, 64);
        for (int64_t i = 0; i < code; i++) {
            size_t used = strlen(given);
            snprintf(given + used, sizeof given - used, i ? " %" PRIu32 : "%" PRIu32, streams[i]);
        }
        return ok(code);
    }
    if (!strncmp(words[0], "stream_", 7) && count > 1) return of_stream(words, count);
    return wrong("this interpreter has no such step");
}

static int of_view_stream(char **words, int count) {
    uint32_t stream = (uint32_t)strtoul(words[1], NULL, 10);
    uint64_t seq = count > 2 ? strtoull(words[2], NULL, 10) : 0, first = 0, next = 0;
    seawall_view *view;
    seawall_cursor *cursor = NULL;
    int fine;
    if (!ok(seawall_view_open(dir, &view))) return 0;
    if (count == 2) {
        fine = ok(seawall_view_stream_bounds(view, stream, &first, &next));
        if (fine) give("%" PRIu64 " %" PRIu64, first, next);
    } else {
        fine = ok(seawall_view_stream_read(view, stream, seq, 0, &cursor));
        if (fine && is(words, "view_stream_hold", count, 3)) hold(cursor);
        else if (fine) fine = show_all(cursor, 0, NULL);
    }
    seawall_view_free(view);
    return fine;
}

/* Runs a step; returns whether it succeeded, and leaves what it gives in `given`. */
static int step(char **words, int count) {
    uint64_t bytes;
    seawall_view *view;
    seawall_view_state state;
    seawall_cursor *cursor;
    const seawall_report *report = NULL;
    char path[sizeof dir + PATHS];
    int fine;
    given[0] = 0;
    if (is(words, "at", count, 2)) {
        snprintf(dir, sizeof dir, "%s/%s", case_dir, words[1]);
        return 1;
    }
    if (is(words, "file", count, 3) || is(words, "damage", count, 2)) {
        char *data = payload(words[count - 1], &bytes);
        if (count == 3) mkdir(dir, 0700);
        snprintf(path, sizeof path, "%s/%s", dir, words[1]);
        fine = count == 3 ? write_file(path, data, bytes) : damage(data, bytes);
        free(data);
        return fine;
    }
    if (!strcmp(words[0], "open")) return open_log(words + 1, count - 1);
    if (is(words, "drop", count, 1)) {
        let_go();
        return 1;
    }
    if (is(words, "view_stream_next", count, 2)) return show_next(held, words[1]);
    if (!strncmp(words[0], "view_stream_", 12) && count > 1) return of_view_stream(words, count);
    if (!strncmp(words[0], "view", 4)) {
        if (!ok(seawall_view_open(dir, &view))) return 0;
        fine = ok(seawall_view_get_state(view, &state, sizeof state));
        if (count == 1) snprintf(given, sizeof given, "%" PRIu64 " %" PRIu64 " %s", state.first, state.end, state.writer ? "written" : "idle");
        if (count > 1) {
            uint64_t from = strtoull(words[1], NULL, 10);
            fine = ok(seawall_view_read(view, from, 0, &cursor)) && show_all(cursor, count > 2, words[2]);
        }
        seawall_view_free(view);
        return fine;
    }
    if (is(words, "verify", count, 1)) {
        if (!ok(seawall_verify(dir, &report))) return 0;
        give("%" PRIu64 " %" PRIu64, report->records, report->damages);
        seawall_report_free(report);
        return 1;
    }
    if (is(words, "backup", count, 2)) {
        snprintf(path, sizeof path, "%s/%s", case_dir, words[1]);
        fine = seawall_backup(dir, path, &report);
        return copied(fine, report);
    }
    return of_log(words, count);
}

/* Splits off what a line expects: 0 nothing, '=' or '!'. */
static char expectation(char *line, const char **expected) {
    char *found = strstr(line, " ! ");
    if (found) {
        *found = 0;
        *expected = found + 1;
        return '!';
    }
    for (found = strstr(line, " ="); found; found = strstr(found + 1, " =")) {
        if (found[2] == 0 || found[2] == ' ') {
            *found = 0;
            *expected = found + 2 + (found[2] == ' ');
            return '=';
        }
    }
    return 0;
}

static int line_is(int at, const char *text) {
    return !strcmp(lines[at], text);
}

/* Where the lines of a child end that begin at `at`. */
static int child_end(int at) {
    while (at < line_count && !line_is(at, "meanwhile") && !line_is(at, "killed")) at++;
    return at;
}

/* Starts a child for the lines from `at`, counted from 0; returns once it is ready. */
static pid_t start_child(int at, int *hold) {
    int in[2], out[2];
    char number[16], said[GIVEN];
    size_t used = 0;
    if (pipe(in) || pipe(out)) return -1;
    snprintf(number, sizeof number, "%d", at);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(program, program, cases_path, root, "child", number, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *hold = in[1];
    for (ssize_t got; used + 1 < sizeof said && (got = read(out[0], said + used, sizeof said - 1 - used)) > 0;) {
        used += (size_t)got;
        said[used] = 0;
        if (!strcmp(said, "ready\n")) {
            close(out[0]);
            return child;
        }
    }
    said[used] = 0;
    printf("%s", said);
    close(out[0]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return -1;
}

/* Runs the lines from `at` to before `to`; whether all gave what they should. */
static int steps(int at, int to) {
    pid_t child = -1;
    int hold = -1, fine = 1;
    while (at < to && fine) {
        char line[GIVEN], *words[WORDS];
        const char *expected = "", *shown = lines[at];
        snprintf(line, sizeof line, "%s", lines[at++]);
        if (!*line || *line == '#' || !strcmp(line, "meanwhile")) continue;
        if (!strcmp(line, "then")) {
            begin();
        } else if (!strcmp(line, "child")) {
            child = start_child(at, &hold);
            fine = child > 0;
            at = child_end(at);
        } else if (!strcmp(line, "killed")) {
            fine = child > 0 && !kill(child, SIGKILL) && waitpid(child, NULL, 0) == child;
            child = -1;
            close(hold);
        } else {
            int count = 0;
            char kind = expectation(line, &expected);
            for (char *word = strtok(line, " "); word && count < WORDS; word = strtok(NULL, " ")) words[count++] = word;
            fine = step(words, count) ? kind != '!' : kind == '!';
            if (kind) fine = fine && !strcmp(given, expected);
            if (!fine) printf("%d: %s: gave %s\n", at, shown, given);
        }
    }
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return fine;
}

static int read_lines(void) {
    static char text[1 << 20];
    FILE *file = fopen(cases_path, "rb");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    for (char *at = text; at < text + bytes && line_count < LINES;) {
        char *line_end = strchr(at, '\n');
        if (line_end) *line_end = 0;
        lines[line_count++] = at;
        at = line_end ? line_end + 1 : text + bytes;
    }
    return line_count > 0 && line_count < LINES;
}

int main(int count, char **arguments) {
    int cases = 0, failed = 0;
    if (count < 4) {
        fprintf(stderr, "usage: CASES ROOT write|check|child LINE\n");
        return 2;
    }
    program = arguments[0];
    cases_path = arguments[1];
    root = arguments[2];
    if (!read_lines()) {
        fprintf(stderr, "%s: cannot read it, or it is too long\n", cases_path);
        return 2;
    }
    if (!strcmp(arguments[3], "child") && count == 5) {
        int at = atoi(arguments[4]), named = at;
        while (named > 0 && strncmp(lines[named], "case ", 5)) named--;
        snprintf(case_dir, sizeof case_dir, "%s/%s", root, lines[named] + 5);
        begin();
        if (!steps(at, child_end(at))) return 1;
        printf("ready\n");
        fflush(stdout);
        while (read(0, given, 1) > 0) {}
        return 0;
    }
    int check = !strcmp(arguments[3], "check");
    if (!check && strcmp(arguments[3], "write")) return 2;
    for (int at = 0; at < line_count; at++) {
        if (strncmp(lines[at], "case ", 5)) continue;
        int last = at + 1, then = -1;
        for (; last < line_count && strncmp(lines[last], "case ", 5); last++) {
            if (line_is(last, "then")) then = last;
        }
        snprintf(case_dir, sizeof case_dir, "%s/%s", root, lines[at] + 5);
        if (!check && mkdir(case_dir, 0700)) {
            fprintf(stderr, "%s: %s\n", case_dir, strerror(errno));
            return 2;
        }
        begin();
        cases++;
        failed += !steps(check ? (then < 0 ? last : then) : at + 1, last);
        begin();
    }
    printf("%d cases, %d failed\n", cases, failed);
    return failed ? 1 : cases ? 0 : 2;
}
