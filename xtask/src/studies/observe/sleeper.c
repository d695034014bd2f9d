// Sleeps in place of fsync and fdatasync in a preloaded program (LD_PRELOAD), and adds up for how long. The rest of the
// program's time is its own work, with
// CPUs that went idle and caches that cooled down in between, as they do while a disk is at work.
//
// The file that SEAWALL_SLEEPER names holds three words of 64 bits:
//   [0] nanoseconds to sleep in place of a sync; 0: sync
//   [1] syncs that were slept instead
//   [2] nanoseconds slept, by the clock
//
// Invariant: whoever cannot read that file ends at once; no sync is left out without being counted.

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *words;

__attribute__((constructor)) static void begin(void) {
    static const char COMPLAINT[] = "sleeper: SEAWALL_SLEEPER names no file that can be mapped\n";
    const char *path = getenv("SEAWALL_SLEEPER");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(0, 3 * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        if (write(2, COMPLAINT, sizeof COMPLAINT - 1) < 0) _exit(126);
        _exit(127);
    }
    close(fd);
    words = at;
    // Otherwise the kernel may add 50 us to each sleep.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

// Whether it slept.
static int slept(void) {
    uint64_t ns = atomic_load(&words[0]);
    if (ns == 0) return 0;
    uint64_t began_ns = now_ns();
    struct timespec length = {.tv_sec = (time_t)(ns / 1000000000U), .tv_nsec = (long)(ns % 1000000000U)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &length, 0);
    atomic_fetch_add(&words[1], 1);
    atomic_fetch_add(&words[2], now_ns() - began_ns);
    return 1;
}

int fdatasync(int fd) { return slept() ? 0 : (int)syscall(SYS_fdatasync, fd); }

int fsync(int fd) { return slept() ? 0 : (int)syscall(SYS_fsync, fd); }
