/* The machine's wall and monotonic clocks plus an offset that another process sets, for a program that is started with this library
 * in LD_PRELOAD. The offset, nanoseconds as a signed 64-bit number, is the content of the file that SOAK_CLOCK names.
 * Both move, as when time passes: times to live follow the monotonic clock. No other clock changes, nor does one of any
 * other process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock)(clockid_t, struct timespec *);
static volatile int64_t *offset_ns;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        abort();
    close(file);
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    offset_ns = map;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!offset_ns)
        abort();
    int result = real_clock(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC)) {
        int64_t ns = time->tv_nsec + *offset_ns % 1000000000;
        time->tv_sec += *offset_ns / 1000000000 + ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return result;
}
