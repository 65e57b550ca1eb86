/* LD_PRELOAD: the runner moves this process's wall clock and breaks its fsync, at any moment.
 *
 * JEPSEN_CONTROL names a file that both map: struct control below, little-endian, whose layout
 * shim.py repeats. Only CLOCK_REALTIME moves. fsync and fdatasync are looked at by kind: what a
 * failed one was asked to write is not written, as when a disk gives up (the page cache may say
 * otherwise afterwards). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 1, DIRECTORIES = 2 };

struct control {
    volatile int64_t clock_offset_ns;
    volatile int64_t failures;  /* how many of the next fsyncs fail; negative: all */
    volatile int64_t kinds;     /* of what: FILES | DIRECTORIES */
    volatile int64_t slow_us;   /* how long each takes beside its own time */
    volatile int64_t lies;      /* fsync does nothing and says that all is well */
    volatile int64_t failed;    /* counted here, read by the runner */
    volatile int64_t slowed;
    volatile int64_t clock_reads;
};

static struct control *control(void) {
    static struct control none, *known;
    if (!known) {
        const char *path = getenv("JEPSEN_CONTROL");
        int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *mapped = MAP_FAILED;
        if (file >= 0) {
            mapped = mmap(0, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            close(file);
        }
        known = mapped == MAP_FAILED ? &none : mapped;
    }
    return known;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, out);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t offset = control()->clock_offset_ns;
        if (offset) {
            int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + offset;
            out->tv_sec = ns / 1000000000;
            out->tv_nsec = ns % 1000000000;
            __sync_fetch_and_add(&control()->clock_reads, 1);
        }
    }
    return result;
}

int gettimeofday(struct timeval *out, void *zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* Whether this fsync is to fail; takes one off the count. */
static int fails(int file) {
    struct control *told = control();
    if (told->slow_us) {
        usleep(told->slow_us);
        __sync_fetch_and_add(&told->slowed, 1);
    }
    if (!told->failures) return 0;
    struct stat about;
    if (fstat(file, &about)) return 0;
    if (!(told->kinds & (S_ISDIR(about.st_mode) ? DIRECTORIES : FILES))) return 0;
    for (int64_t left = told->failures; left; left = told->failures) {
        if (left < 0 || __sync_bool_compare_and_swap(&told->failures, left, left - 1)) {
            __sync_fetch_and_add(&told->failed, 1);
            return 1;
        }
    }
    return 0;
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (fails(file)) { errno = EIO; return -1; }
    return control()->lies ? 0 : real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    if (fails(file)) { errno = EIO; return -1; }
    return control()->lies ? 0 : real(file);
}
