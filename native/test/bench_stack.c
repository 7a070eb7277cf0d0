/*
 * bench_stack.c - a library for bench_stack.py: what an event of the driver's hook costs with call stacks, ns of the thread's
 * CPU time. The "driver" is two empty functions of this library.
 */
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default"), noinline))

enum { PAIRS = 2000, BURSTS = 101 };

EXPORT int halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag);
EXPORT int halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag)
{
    *pp = (void *)(size + flag);
    return 0;
}

EXPORT int halMemFreeInner(void *pp);
EXPORT int halMemFreeInner(void *pp)
{
    __asm__ volatile("" ::"r"(pp));
    return 0;
}

int halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
int halMemFree(void *pp);

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; between the bursts the collector gets the time to make room. */
EXPORT double events(void)
{
    double ns[BURSTS];
    for (int i = 0; i < BURSTS; i++) {
        struct timespec a, b, pause = {0, 3000000};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (int k = 0; k < PAIRS; k++) {
            void *p;
            halMemAlloc(&p, 4096, 1 << 14 | 3ULL << 56);
            halMemFree(p);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        ns[i] = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (2.0 * PAIRS);
        nanosleep(&pause, NULL);
    }
    qsort(ns, BURSTS, sizeof *ns, ascending);
    return ns[BURSTS / 2];
}

/* The same below so many calls. */
EXPORT double deep_events(int calls)
{
    double ns = calls ? deep_events(calls - 1) : events();
    __asm__ volatile("");
    return ns;
}
