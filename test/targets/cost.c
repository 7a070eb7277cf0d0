/*
 * cost - what a call of halMemAlloc or halMemFree costs one thread, for bench/.
 *
 * usage: cost CALLS [REST_MS]
 *
 * Prints the nanoseconds of processor time and of real time per call. CALLS are made after a warm-up of 1,000, which
 * also opens the connection of a tool, and a rest in which the tool can get ready.
 */
#define _GNU_SOURCE
#include "target.h"

#include <time.h>
#include <unistd.h>

enum { WINDOW = 64 };

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void calls(uint64_t n)
{
    static void *blocks[WINDOW];
    for (uint64_t i = 0; i < n; i += 2) {
        void **slot = &blocks[i / 2 % WINDOW];
        if (*slot)
            device_free(*slot);
        *slot = device_alloc(4096);
    }
}

int main(int argc, char **argv)
{
    uint64_t n = argument(argc, argv, 1, 400000);
    calls(1000);
    usleep((useconds_t)argument(argc, argv, 2, 100) * 1000);
    int64_t real = clock_ns(CLOCK_MONOTONIC), used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    calls(n);
    used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - used;
    real = clock_ns(CLOCK_MONOTONIC) - real;
    printf("%.2f ns of processor time, %.2f ns of real time per call\n", (double)used / (double)n,
           (double)real / (double)n);
    return 0;
}
