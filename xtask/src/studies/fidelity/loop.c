/*
 * A plain loop of durable writes, one of the instruments that `cargo xtask fidelity` compares.
 *
 *   loop METHOD FILE SIZE JOURNAL COMMITS TIMED
 *
 * The same calls as the method of that name in Seawall's table, on an existing file of JOURNAL bytes, SIZE bytes
 * a commit, one after the other, from the start again at the end. TIMED 1: the clock is read around each commit,
 * as Seawall does; 0: only around the whole loop, so that the difference is what an instrument costs.
 *
 * A second thread sleeps all the while: the kernel counts references to descriptors only in processes with more
 * than one thread, some 80 ns a call here, and no program that keeps a journal has just one.
 *
 * Prints: COMMITS_PER_S P50_NS ELAPSED_NS (P50_NS is 0 if not timed). Any failure ends it with a message.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char *buffer;
static size_t size;
static int fd;

static void die(const char *call)
{
	fprintf(stderr, "loop: %s: %s\n", call, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A short write does not happen on a regular file with room; if it did, the figures would be wrong. */
static void written(const char *call, ssize_t bytes)
{
	if (bytes < 0)
		die(call);
	if ((size_t)bytes != size) {
		fprintf(stderr, "loop: %s wrote %zd of %zu bytes\n", call, bytes, size);
		exit(1);
	}
}

static void write_plain(off_t at)
{
	written("pwrite", pwrite(fd, buffer, size, at));
}

static void write_dsync(off_t at)
{
	struct iovec v = { buffer, size };
	written("pwritev2", pwritev2(fd, &v, 1, at, RWF_DSYNC));
}

/* The smallest ring: one request in flight, a registered buffer and a registered file. */
static struct {
	int fd;
	unsigned *sq_tail, *sq_array, *sq_mask, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static void ring_open(void)
{
	struct io_uring_params p;
	memset(&p, 0, sizeof p);
	ring.fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	size_t bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
	char *rings = mmap(NULL, bytes, prot, flags, ring.fd, IORING_OFF_SQ_RING);
	ring.sqes = mmap(NULL, p.sq_entries * sizeof *ring.sqes, prot, flags, ring.fd, IORING_OFF_SQES);
	if (!(p.features & IORING_FEAT_SINGLE_MMAP) || rings == MAP_FAILED || (void *)ring.sqes == MAP_FAILED)
		die("mmap of the ring");
	ring.sq_tail = (unsigned *)(rings + p.sq_off.tail);
	ring.sq_mask = (unsigned *)(rings + p.sq_off.ring_mask);
	ring.sq_array = (unsigned *)(rings + p.sq_off.array);
	ring.cq_head = (unsigned *)(rings + p.cq_off.head);
	ring.cq_tail = (unsigned *)(rings + p.cq_off.tail);
	ring.cq_mask = (unsigned *)(rings + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(rings + p.cq_off.cqes);
	struct iovec v = { buffer, size };
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &v, 1) < 0)
		die("io_uring_register");
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &fd, 1) < 0)
		die("io_uring_register");
}

static void write_ring(off_t at)
{
	unsigned tail = *ring.sq_tail, index = tail & *ring.sq_mask;
	struct io_uring_sqe *e = &ring.sqes[index];
	memset(e, 0, sizeof *e);
	e->opcode = IORING_OP_WRITE_FIXED;
	e->flags = IOSQE_FIXED_FILE;
	e->off = (uint64_t)at;
	e->addr = (uint64_t)(uintptr_t)buffer;
	e->len = (unsigned)size;
	e->rw_flags = RWF_DSYNC;
	ring.sq_array[index] = index;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		die("io_uring_enter");
	unsigned head = *ring.cq_head;
	if (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE))
		die("no completion");
	int result = ring.cqes[head & *ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	if (result < 0) {
		errno = -result;
		die("io_uring write");
	}
	written("io_uring write", result);
}

static void sync_none(void)
{
}

static void sync_data(void)
{
	if (fdatasync(fd) != 0)
		die("fdatasync");
}

static void sync_all(void)
{
	if (fsync(fd) != 0)
		die("fsync");
}

static const struct method {
	const char *id;
	int flags;
	void (*write)(off_t);
	void (*sync)(void);
} methods[] = {
	{ "buffered", 0, write_plain, sync_none },
	{ "buffered+fdatasync", 0, write_plain, sync_data },
	{ "buffered+fsync", 0, write_plain, sync_all },
	{ "dsync", O_DSYNC, write_plain, sync_none },
	{ "sync", O_SYNC, write_plain, sync_none },
	{ "rwf-dsync", 0, write_dsync, sync_none },
	{ "direct+dsync", O_DIRECT | O_DSYNC, write_plain, sync_none },
	{ "uring-direct-fixed-dsync", O_DIRECT, write_ring, sync_none },
};

static void *asleep(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const struct method *m = NULL;
	if (argc != 7) {
		fprintf(stderr, "usage: loop METHOD FILE SIZE JOURNAL COMMITS TIMED\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (strcmp(argv[1], methods[i].id) == 0)
			m = &methods[i];
	size = strtoull(argv[3], NULL, 10);
	uint64_t journal = strtoull(argv[4], NULL, 10), commits = strtoull(argv[5], NULL, 10);
	int timed = argv[6][0] == '1';
	if (!m || size == 0 || journal < size || commits == 0) {
		fprintf(stderr, "loop: no method %s, or absurd sizes\n", argv[1]);
		return 2;
	}
	pthread_t second;
	if (pthread_create(&second, NULL, asleep, NULL) != 0)
		die("pthread_create");
	fd = open(argv[2], O_RDWR | O_CLOEXEC | m->flags);
	if (fd < 0)
		die("open");
	if (posix_memalign((void **)&buffer, 4096, (size + 4095) / 4096 * 4096) != 0)
		die("posix_memalign");
	for (size_t i = 0; i < size; i++)
		buffer[i] = (char)(rand() >> 7);
	uint64_t *latencies = calloc(commits, sizeof *latencies);
	if (!latencies)
		die("calloc");
	/* Touched before the loop: page faults are not commits. */
	memset(latencies, 1, commits * sizeof *latencies);
	if (m->write == write_ring)
		ring_open();
	uint64_t capacity = journal / size, start = now_ns();
	for (uint64_t i = 0; i < commits; i++) {
		memcpy(buffer, &i, size < sizeof i ? size : sizeof i);
		off_t at = (off_t)(i % capacity * size);
		if (timed) {
			uint64_t begin = now_ns();
			m->write(at);
			m->sync();
			latencies[i] = now_ns() - begin;
		} else {
			m->write(at);
			m->sync();
		}
	}
	uint64_t elapsed = now_ns() - start;
	qsort(latencies, commits, sizeof *latencies, by_value);
	printf("%.3f %llu %llu\n", (double)commits * 1e9 / (double)elapsed,
	       (unsigned long long)(timed ? latencies[commits / 2] : 0), (unsigned long long)elapsed);
	return 0;
}
