/* Stands between a process and its disk (LD_PRELOAD): records every change under one directory in
 * the order in which it was made, or lets one call fail.
 *
 *   DISK_SHIM_ROOT    only files below this directory are looked at
 *   DISK_SHIM_TRACE   append a record of each change to this file (format: disk_trace.py)
 *   DISK_SHIM_FAULTS  read this file at each change: "ERRNO SKIP KIND PATTERN AFTER", where KIND is
 *                     sync or write, PATTERN is matched (fnmatch) with the path below the root, and
 *                     AFTER is "-" or a pattern that must have been synced before. The call fails
 *                     once; what failed is appended to FILE.hit with the size that file had at its
 *                     last sync that succeeded, and the fault is spent.
 *
 * A lock is held over each call and its record, so the order of the records is the order of effects.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static pthread_mutex_t gate = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[PATH_MAX];
static size_t root_size;
static int trace_fd = -1;
static const char *faults;

/* Synced sizes, by path: few files are written at a time. */
#define FILES 512
static struct { char path[256]; long long size; } synced[FILES];
static int synced_count;

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("DISK_SHIM_ROOT"), *trace = getenv("DISK_SHIM_TRACE");
    faults = getenv("DISK_SHIM_FAULTS");
    if (!given || !realpath(given, root)) return;
    root_size = strlen(root);
    if (trace) 
        trace_fd = (int)syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                                0644);
}

/* The path below the root, or NULL when the file is none of ours. */
static const char *below(const char *path) {
    if (!root_size || strncmp(path, root, root_size)) return NULL;
    if (path[root_size] == 0) return ".";
    return path[root_size] == '/' ? path + root_size + 1 : NULL;
}

static const char *of_fd(int fd, char *room) {
    char link[64];
    if (!root_size) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, room, PATH_MAX - 1);
    if (size < 0) return NULL;
    room[size] = 0;
    return below(room);
}

static const char *of_name(int dirfd, const char *name, char *room) {
    if (!root_size || !name) return NULL;
    char place[PATH_MAX];
    if (name[0] == '/') {
        snprintf(place, sizeof place, "%s", name);
    } else if (dirfd == AT_FDCWD) {
        if (!getcwd(place, sizeof place)) return NULL;
        strncat(place, "/", sizeof place - strlen(place) - 1);
        strncat(place, name, sizeof place - strlen(place) - 1);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
        ssize_t size = readlink(link, place, sizeof place - 1);
        if (size < 0) return NULL;
        place[size] = 0;
        strncat(place, "/", sizeof place - strlen(place) - 1);
        strncat(place, name, sizeof place - strlen(place) - 1);
    }
    /* The parent is resolved, the name itself need not exist. */
    char *slash = strrchr(place, '/');
    if (!slash) return NULL;
    char last[NAME_MAX + 1];
    snprintf(last, sizeof last, "%s", slash + 1);
    *slash = 0;
    if (!realpath(place[0] ? place : "/", room)) return NULL;
    size_t size = strlen(room);
    snprintf(room + size, PATH_MAX - size, "/%s", last);
    return below(room);
}

/* ---- trace */

static void record(char kind, const char *path, const char *other, long long at, const void *data,
                   size_t size) {
    if (trace_fd < 0) return;
    uint32_t path_size = strlen(path), other_size = other ? strlen(other) : 0;
    size_t total = 1 + 4 + 4 + 8 + 8 + path_size + other_size + size;
    char *bytes = malloc(total), *p = bytes;
    uint64_t offset = at, length = size;
    *p++ = kind;
    memcpy(p, &path_size, 4), p += 4;
    memcpy(p, &other_size, 4), p += 4;
    memcpy(p, &offset, 8), p += 8;
    memcpy(p, &length, 8), p += 8;
    memcpy(p, path, path_size), p += path_size;
    if (other_size) memcpy(p, other, other_size), p += other_size;
    if (size) memcpy(p, data, size);
    if (syscall(SYS_write, trace_fd, bytes, total) != (long)total) abort();
    free(bytes);
}

/* Called by the program that is recorded: what it has promised by now. */
void disk_shim_mark(const char *text) {
    pthread_mutex_lock(&gate);
    record('M', text, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&gate);
}

/* ---- faults */

static void remember(const char *path, long long size) {
    int at = 0;
    while (at < synced_count && strcmp(synced[at].path, path)) at++;
    if (at == synced_count) {
        if (synced_count == FILES) at = rand() % FILES; else synced_count++;
        snprintf(synced[at].path, sizeof synced[at].path, "%s", path);
    }
    synced[at].size = size;
}

static long long remembered(const char *path) {
    for (int at = 0; at < synced_count; at++)
        if (!strcmp(synced[at].path, path)) return synced[at].size;
    return 0;
}

/* A rename keeps what was synced. */
static void renamed(const char *from, const char *to) { remember(to, remembered(from)); }

static void tell_hit(const char *kind, const char *path, int number) {
    char hit[PATH_MAX], line[1024];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(hit, sizeof hit, "%s.hit", faults);
    int size = snprintf(line, sizeof line, "%s %s %d %lld %lld\n", kind, path, number,
                        remembered(path), (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
    int out = (int)syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0 || syscall(SYS_write, out, line, size) != size) abort();
    syscall(SYS_close, out);
    syscall(SYS_unlinkat, AT_FDCWD, faults, 0);
}

/* The errno with which this call is to fail, or 0. */
static int fault(const char *kind, const char *path) {
    static char known[1024];
    static int seen_after, skipped;
    char text[1024], which[16], pattern[256], after[256];
    int number, skip;
    if (!faults) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, faults, O_RDONLY, 0);
    if (fd < 0) return 0;
    long size = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (size <= 0) return 0;
    text[size] = 0;
    if (strcmp(text, known)) {
        strcpy(known, text);
        seen_after = skipped = 0;
    }
    if (sscanf(text, "%d %d %15s %255s %255s", &number, &skip, which, pattern, after) != 5) return 0;
    if (strcmp(after, "-") && !seen_after) {
        seen_after = !strcmp(kind, "sync") && !fnmatch(after, path, 0);
        return 0;
    }
    if (strcmp(which, kind) || fnmatch(pattern, path, 0) || skipped++ < skip) return 0;
    tell_hit(kind, path, number);
    known[0] = 0;
    return number;
}

/* ---- what is stood before */

#define ENTER char room[PATH_MAX]; pthread_mutex_lock(&gate)
#define LEAVE(result) \
    do { int kept = errno; pthread_mutex_unlock(&gate); errno = kept; return result; } while (0)
#define MAY_FAIL(kind, path) \
    do { int number = (path) ? fault(kind, path) : 0; \
         if (number) { pthread_mutex_unlock(&gate); errno = number; return -1; } } while (0)

static int sync_file(int fd, int (*real)(int)) {
    ENTER;
    const char *path = of_fd(fd, room);
    MAY_FAIL("sync", path);
    int result = real(fd);
    struct stat about;
    if (path && !result && !fstat(fd, &about)) {
        remember(path, about.st_size);
        record(S_ISDIR(about.st_mode) ? 'D' : 'S', path, NULL, 0, NULL, 0);
    }
    LEAVE(result);
}

int fsync(int fd) { REAL(fsync); return sync_file(fd, real); }
int fdatasync(int fd) { REAL(fdatasync); return sync_file(fd, real); }

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    ENTER;
    const char *path = of_fd(fd, room);
    MAY_FAIL("write", path);
    ssize_t result = real(fd, data, size, at);
    if (path && result > 0) record('W', path, NULL, at, data, result);
    LEAVE(result);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return pwrite64(fd, data, size, at);
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    ENTER;
    const char *path = of_fd(fd, room);
    MAY_FAIL("write", path);
    long long at = path ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t result = real(fd, data, size);
    if (path && result > 0) record('W', path, NULL, at, data, result);
    LEAVE(result);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    ENTER;
    const char *path = of_fd(fd, room);
    int result = real(fd, size);
    if (path && !result) record('T', path, NULL, size, NULL, 0);
    LEAVE(result);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int open_file(int dirfd, const char *name, int flags, mode_t mode) {
    REAL(openat64);
    ENTER;
    const char *path = (flags & (O_CREAT | O_TRUNC)) ? of_name(dirfd, name, room) : NULL;
    struct stat about;
    int was_there = path && !fstatat(dirfd, name, &about, 0);
    int fd = real(dirfd, name, flags, mode);
    if (path && fd >= 0) {
        if (!was_there) record('C', path, NULL, 0, NULL, 0);
        else if (flags & O_TRUNC) record('T', path, NULL, 0, NULL, 0);
    }
    LEAVE(fd);
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open64(const char *name, int flags, ...) { MODE; return open_file(AT_FDCWD, name, flags, mode); }
int open(const char *name, int flags, ...) { MODE; return open_file(AT_FDCWD, name, flags, mode); }
int openat64(int dirfd, const char *name, int flags, ...) {
    MODE;
    return open_file(dirfd, name, flags, mode);
}
int openat(int dirfd, const char *name, int flags, ...) {
    MODE;
    return open_file(dirfd, name, flags, mode);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    REAL(renameat);
    char other[PATH_MAX];
    ENTER;
    const char *old = of_name(from_fd, from, room), *new = of_name(to_fd, to, other);
    int result = real(from_fd, from, to_fd, to);
    if (old && new && !result) {
        renamed(old, new);
        record('R', old, new, 0, NULL, 0);
    }
    LEAVE(result);
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int dirfd, const char *name, int flags) {
    REAL(unlinkat);
    ENTER;
    const char *path = of_name(dirfd, name, room);
    int result = real(dirfd, name, flags);
    if (path && !result) record('U', path, NULL, 0, NULL, 0);
    LEAVE(result);
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int dirfd, const char *name, mode_t mode) {
    REAL(mkdirat);
    ENTER;
    const char *path = of_name(dirfd, name, room);
    int result = real(dirfd, name, mode);
    if (path && !result) record('K', path, NULL, 0, NULL, 0);
    LEAVE(result);
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
