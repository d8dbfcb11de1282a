/* The machine's clocks as another process changes them, for a program that is started with this library in LD_PRELOAD:
 *
 *   time = start + (real time - start) / divisor + offset        start: when the library was loaded
 *
 * The file that TESTBED_CLOCK names has the two numbers, signed 64-bit: the offset in nanoseconds, which may grow while
 * the program runs, and the divisor, which may not change. The wall clock and the monotonic clock follow them: times to
 * live follow the monotonic clock. No other clock changes, nor does one of any other process. Time never runs back. */
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

#define NS_A_SECOND 1000000000

static int (*real_clock)(clockid_t, struct timespec *);
static volatile int64_t *offset_ns;
static int64_t divisor;
static int64_t start_wall_ns, start_monotonic_ns;

static int64_t ns_of(const struct timespec *time) { return time->tv_sec * NS_A_SECOND + time->tv_nsec; }

static struct timespec time_of(int64_t ns) {
    struct timespec time = {ns / NS_A_SECOND, ns % NS_A_SECOND};
    return time;
}

static int64_t real_ns(clockid_t clock) {
    struct timespec time;
    if (real_clock(clock, &time))
        abort();
    return ns_of(&time);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TESTBED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, 2 * sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        abort();
    close(file);
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    start_wall_ns = real_ns(CLOCK_REALTIME);
    start_monotonic_ns = real_ns(CLOCK_MONOTONIC);
    offset_ns = map;
    divisor = offset_ns[1];
    if (divisor < 1)
        abort();
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!offset_ns)
        abort();
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int result = real_clock(clock, time);
    if (result == 0 && (is_wall || clock == CLOCK_MONOTONIC)) {
        int64_t start = is_wall ? start_wall_ns : start_monotonic_ns;
        *time = time_of(start + (ns_of(time) - start) / divisor + *offset_ns);
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
        int64_t since;
        if (!__builtin_mul_overflow(ns_of((struct timespec *)args[3]) - *offset_ns - start_monotonic_ns, divisor, &since)) {
            until = time_of(start_monotonic_ns + since);
            args[3] = (long)&until;
        }
    }
    return real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
