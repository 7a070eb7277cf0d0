/*
 * bench_unwind.c - what a walk of 20 frames costs: the time of a recursion that ends in one, less that of one that does not.
 * Processor time; the least of several rounds. A program of many call sites, so that links are followed and missed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ms_unwind.h"

enum { DEPTH = 22, FRAMES = 20, WALKS = 400000, ROUNDS = 7 };

static ms_frame frames[FRAMES];
static volatile unsigned sink;

static __attribute__((noinline)) void hook(bool walk)
{
    struct ms_regs here;
    bool cut;
    MS_CALLER(here);
    if (walk && (sink = ms_unwind(&here, frames, FRAMES, &cut)) != FRAMES)
        abort();
}

typedef void step(unsigned depth, unsigned way, bool walk);
static step *steps[4];
/* Four functions that call each other as the bits of `way` say: different stacks go through the same code. */
#define STEP(name, bytes)                                                               \
    static __attribute__((noinline)) void name(unsigned depth, unsigned way, bool walk) \
    {                                                                                   \
        char room[bytes];                                                               \
        __asm__ volatile("" : : "r"(room) : "memory");                                  \
        if (depth == 0)                                                                 \
            hook(walk);                                                                 \
        else                                                                            \
            steps[(way >> (depth % 4 * 2)) & 3](depth - 1, way, walk);                  \
        __asm__ volatile("" : : "r"(room) : "memory");                                  \
    }
STEP(step_a, 8)
STEP(step_b, 100)
STEP(step_c, 24)
STEP(step_d, 250)

static double ns(bool walk, unsigned ways)
{
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (unsigned i = 0; i < WALKS; i++)
        steps[0](DEPTH, i % ways, walk);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / WALKS;
}

int main(void)
{
    const unsigned ways[] = {1, 256};
    steps[0] = step_a;
    steps[1] = step_b;
    steps[2] = step_c;
    steps[3] = step_d;
    for (unsigned w = 0; w < 2; w++) {
        double with = 1e9, without = 1e9;
        for (int round = 0; round < ROUNDS; round++) {
            double a = ns(true, ways[w]), b = ns(false, ways[w]);
            with = a < with ? a : with;
            without = b < without ? b : without;
        }
        printf("walk of %d frames, %3u stacks: %.0f ns\n", FRAMES, ways[w], with - without);
    }
    return 0;
}
