/* The machine's wall and monotonic clocks plus an offset that another process sets, for a program that is started with this library
 * in LD_PRELOAD. The offset, nanoseconds as a signed 64-bit number, is the content of the file that SOAK_CLOCK names.
 * Both move, as when time passes: times to live follow the monotonic clock. No other clock changes, nor does one of any
 * other process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

/* Waits until an instant of the monotonic clock end by the real one, which the kernel knows. */
long syscall(long number, ...) {
    static long (*real_syscall)(long, ...);
    if (!real_syscall)
        real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long args[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    struct timespec until;
    int waits = number == SYS_futex && (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    if (waits && args[3] && !(args[1] & FUTEX_CLOCK_REALTIME) && offset_ns) {
        until = *(struct timespec *)args[3];
        int64_t ns = until.tv_nsec - *offset_ns % 1000000000;
        until.tv_sec -= *offset_ns / 1000000000 + (ns < 0);
        until.tv_nsec = ns < 0 ? ns + 1000000000 : ns;
        args[3] = (long)&until;
    }
    return real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
