/* Tries every function of a queue: with NULL, in use, after close, in a forked child, and by another process that owns it and is killed.
 * C99, and C++ as well. Its argument is an empty directory; exit code 0 means that everything held. With a second argument it is that
 * other process. */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include "seawall.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const int64_t minute = INT64_C(60000000000);

static seawall_queue *opened(const char *name, uint32_t max_attempts) {
    seawall_options *options = seawall_options_new();
    seawall_queue *queue = NULL;
    CHECK(seawall_options_set(options, "segment_bytes", 1 << 20) == 0);
    CHECK(seawall_queue_open(path(name), options, -1, max_attempts, &queue) == 0);
    seawall_options_free(options);
    if (!queue) exit(1);
    return queue;
}

static int64_t put(seawall_queue *queue, const char *text, uint64_t delay_ns) {
    const seawall_bytes body = {text, strlen(text)};
    return seawall_queue_put(queue, &body, 1, delay_ns);
}

static int is(const seawall_message *message, const char *text, uint32_t attempts) {
    return message->attempts == attempts && message->bytes == strlen(text) && memcmp(message->data, text, message->bytes) == 0;
}

static void no_pointer_is_needed(void) {
    seawall_queue *queue = opened("null", 0), *none = queue;
    seawall_message message = {0, NULL, 0, 0, 0, NULL};
    seawall_queue_stats stats;
    const seawall_bytes wrong = {NULL, 1};
    const int refused = SEAWALL_INVALID_ARGUMENT;
    CHECK(seawall_queue_open(NULL, NULL, -1, 0, &none) == refused && none == NULL);
    CHECK(seawall_queue_open(path("null"), NULL, -1, 0, NULL) == refused);
    CHECK(seawall_queue_put(NULL, NULL, 0, 0) == refused && seawall_queue_put(queue, NULL, 1, 0) == refused);
    CHECK(seawall_queue_put(queue, &wrong, 1, 0) == refused && seawall_queue_put(queue, NULL, 0, 0) == 0);
    CHECK(seawall_queue_get(NULL, 0, &message, 1) == refused && seawall_queue_get(queue, 0, NULL, 1) == refused);
    CHECK(put(queue, "x", 0) == 0 && seawall_queue_get(queue, 0, &message, 0) == refused);
    CHECK(seawall_queue_ack(NULL, &message, 1) == refused && seawall_queue_ack(queue, NULL, 1) == refused);
    CHECK(seawall_queue_ack(queue, &message, 1) == refused && seawall_queue_ack(queue, NULL, 0) == 0);
    CHECK(seawall_queue_nack(NULL, &message, 0) == refused && seawall_queue_nack(queue, NULL, 0) == refused);
    CHECK(seawall_queue_peek(NULL, &message, 1) == refused && seawall_queue_peek(queue, NULL, 1) == refused);
    CHECK(seawall_queue_dead_letters(NULL, &message, 1) == refused && seawall_queue_dead_letters(queue, NULL, 1) == refused);
    CHECK(seawall_queue_retry_dead_letters(NULL) == refused && seawall_queue_drop_dead_letters(NULL) == refused);
    CHECK(seawall_queue_purge(NULL) == refused && seawall_queue_close(NULL) == refused);
    CHECK(seawall_queue_get_stats(NULL, &stats, sizeof stats) == refused && seawall_queue_get_stats(queue, NULL, sizeof stats) == refused);
    seawall_queue_free(NULL);
    seawall_message_free(NULL);
    seawall_message_free(&message);
    seawall_queue_free(queue);
}

/* Two handles: the first owns the log, the second asks it, as another process does. */
static void messages_are_handed_out_until_they_are_acknowledged(void) {
    seawall_queue *owner = opened("use", 2), *other = opened("use", 2);
    const seawall_bytes bodies[] = {{"a", 1}, {"bad", 3}, {NULL, 0}};
    seawall_message got[4], seen;
    seawall_queue_stats stats;
    CHECK(seawall_queue_put(other, bodies, 3, 0) == 0 && put(owner, "later", UINT64_C(86400000000000)) == 3);
    CHECK(seawall_queue_peek(other, got, 1) == 1 && is(got, "a", 0) && got[0].id == 0);
    CHECK(seawall_queue_ack(other, got, 1) == SEAWALL_INVALID_ARGUMENT && says(seawall_error_last()->message, "only shown"));
    seawall_message_free(got);
    CHECK(got[0].data == NULL && got[0].memory == NULL);
    CHECK(seawall_queue_get(other, 0, got, 4) == 3 && is(got, "a", 1) && is(got + 1, "bad", 1) && is(got + 2, "", 1) && got[2].id == 2);
    CHECK(seawall_queue_get_stats(other, &stats, sizeof stats) == 0 && stats.waiting == 0 && stats.out == 3 && stats.delayed == 1);
    CHECK(stats.handles == 2 && stats.is_owner == 0 && seawall_queue_get_stats(owner, &stats, sizeof stats) == 0 && stats.is_owner == 1);
    CHECK(seawall_queue_get(owner, 0, &seen, 1) == 0);
    CHECK(seawall_queue_get(owner, 1000000, &seen, 1) == SEAWALL_TIMED_OUT && seawall_error_last()->limit == 1000000);
    /* One is given back, one is freed and so given back: both come again, and the one that fails again is a dead letter. */
    CHECK(seawall_queue_nack(other, got + 1, 0) == 0 && got[1].memory == NULL);
    seawall_message_free(got + 2);
    CHECK(seawall_queue_ack(other, got, 1) == 0 && got[0].memory == NULL);
    CHECK(seawall_queue_get(owner, minute, got, 1) == 1 && is(got, "bad", 2) && seawall_queue_get(owner, minute, got + 1, 1) == 1);
    CHECK(is(got + 1, "", 2) && seawall_queue_nack(owner, got, 1) == 0 && seawall_queue_ack(owner, got + 1, 1) == 0);
    CHECK(seawall_queue_dead_letters(other, got, 4) == 1 && is(got, "bad", 2) && got[0].id == 1);
    seawall_message_free(got);
    CHECK(seawall_queue_retry_dead_letters(other) == 1 && seawall_queue_drop_dead_letters(other) == 0);
    CHECK(seawall_queue_purge(other) == 2 && seawall_queue_purge(owner) == 0);
    CHECK(put(owner, "kept", 0) == 5 && seawall_queue_get(other, 0, got, 1) == 1);
    CHECK(put(owner, "refused", 0) == 6 && seawall_queue_get(owner, 0, got + 1, 1) == 1);
    CHECK(seawall_queue_close(owner) == 0 && seawall_queue_close(owner) == 0);
    const int closed = SEAWALL_CLOSED;
    CHECK(put(owner, "x", 0) == closed && seawall_queue_get(owner, -1, &seen, 1) == closed && seawall_queue_peek(owner, &seen, 1) == closed);
    CHECK(seawall_queue_dead_letters(owner, &seen, 1) == closed && seawall_queue_retry_dead_letters(owner) == closed);
    CHECK(seawall_queue_drop_dead_letters(owner) == closed && seawall_queue_purge(owner) == closed);
    CHECK(seawall_queue_get_stats(owner, &stats, sizeof stats) == closed && seawall_queue_ack(owner, NULL, 0) == closed);
    /* What fails leaves the message. */
    CHECK(seawall_queue_ack(owner, got + 1, 1) == closed && seawall_queue_nack(owner, got + 1, 0) == closed && is(got + 1, "refused", 1));
    seawall_message_free(got + 1);
    seawall_queue_free(owner);
    /* The other one owns it now; its message outlives the handle, which gave it back. */
    CHECK(seawall_queue_get_stats(other, &stats, sizeof stats) == 0 && stats.is_owner == 1 && stats.out == 1);
    CHECK(seawall_queue_purge(other) == 1);
    seawall_queue_free(other);
    CHECK(is(got, "kept", 1));
    seawall_message_free(got);
    other = opened("use", 0);
    CHECK(seawall_queue_get(other, 0, got, 4) == 1 && is(got, "kept", 2) && seawall_queue_ack(other, got, 1) == 0);
    CHECK(seawall_queue_close(other) == 0);
    seawall_queue_free(other);
}

static void *waits(void *queue) {
    seawall_message message;
    return (void *)(intptr_t)seawall_queue_get((seawall_queue *)queue, -1, &message, 1);
}

static void a_close_ends_a_wait_and_a_forked_child_is_refused(void) {
    seawall_queue *queue = opened("forked", 0);
    seawall_message message, other;
    seawall_queue_stats stats;
    CHECK(put(queue, "x", 0) == 0 && seawall_queue_get(queue, 0, &message, 1) == 1);
    pid_t child = fork();
    if (child == 0) {
        const int forked = SEAWALL_FORKED;
        failures = 0;
        CHECK(put(queue, "x", 0) == forked && seawall_queue_get(queue, 0, &other, 1) == forked && seawall_queue_peek(queue, &other, 1) == forked);
        CHECK(seawall_queue_ack(queue, &message, 1) == forked && seawall_queue_nack(queue, &message, 0) == forked);
        CHECK(seawall_queue_get_stats(queue, &stats, sizeof stats) == forked && seawall_queue_close(queue) == forked);
        seawall_message_free(&message);
        seawall_queue_free(queue);
        fflush(stdout);
        _exit(failures ? 1 : 0);
    }
    int status = -1;
    void *result = NULL;
    pthread_t thread;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(is(&message, "x", 1) && seawall_queue_ack(queue, &message, 1) == 0);
    CHECK(pthread_create(&thread, NULL, waits, queue) == 0);
    usleep(20000);
    CHECK(seawall_queue_close(queue) == 0 && pthread_join(thread, &result) == 0 && (intptr_t)result == SEAWALL_CLOSED);
    seawall_queue_free(queue);
}

/* Owns the queue, takes a message, says so, and waits for its end. */
static int owner(void) {
    seawall_queue *queue = opened("killed", 0);
    seawall_message message;
    CHECK(put(queue, "survives", 0) == 0 && seawall_queue_get(queue, 0, &message, 1) == 1);
    if (failures || write(STDOUT_FILENO, "r", 1) != 1) return 1;
    for (;;) pause();
}

static void what_a_killed_owner_had_comes_again(char *program) {
    int ends[2], status = 0;
    char said = 0, second[] = "owner";
    seawall_message message;
    seawall_queue_stats stats;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {program, (char *)root, second, NULL};
        dup2(ends[1], STDOUT_FILENO);
        execv(program, arguments);
        _exit(127);
    }
    close(ends[1]);
    CHECK(read(ends[0], &said, 1) == 1 && said == 'r');
    close(ends[0]);
    seawall_queue *queue = opened("killed", 0);
    CHECK(seawall_queue_get_stats(queue, &stats, sizeof stats) == 0 && stats.is_owner == 0 && stats.out == 1 && stats.handles == 2);
    CHECK(seawall_queue_get(queue, 0, &message, 1) == 0);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(seawall_queue_get(queue, minute, &message, 1) == 1 && is(&message, "survives", 2) && message.id == 0);
    CHECK(seawall_queue_ack(queue, &message, 1) == 0 && put(queue, "next", 0) == 1);
    CHECK(seawall_queue_get_stats(queue, &stats, sizeof stats) == 0 && stats.is_owner == 1 && stats.waiting == 1 && stats.handles == 1);
    seawall_queue_free(queue);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    root = arguments[1];
    if (count > 2) return owner();
    setvbuf(stdout, NULL, _IONBF, 0);
    no_pointer_is_needed();
    messages_are_handed_out_until_they_are_acknowledged();
    a_close_ends_a_wait_and_a_forked_child_is_refused();
    what_a_killed_owner_had_comes_again(arguments[0]);
    printf("%d failures\n", failures);
    return failures ? 1 : 0;
}
