/* LD_PRELOAD: moves CLOCK_REALTIME by CLOCK_SHIM_MS milliseconds and leaves every other clock alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long shift_ms(void) {
    static long long shift;
    static int known;
    if (!known) {
        const char *text = getenv("CLOCK_SHIM_MS");
        shift = text ? atoll(text) : 0;
        known = 1;
    }
    return shift;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, out);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long ns = out->tv_nsec + (shift_ms() % 1000) * 1000000LL;
        out->tv_sec += shift_ms() / 1000 + ns / 1000000000LL;
        out->tv_nsec = ns % 1000000000LL;
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
