/*
 * workload.c - the allocation loops that the host heap's hook is measured with: `workload W1|W2|W4|W5|storm [NUMBER]`. Prints
 * processor time and wall time per pair of one malloc and one free, in ns, from after the start of the program.
 *
 * W1 one thread, 64 B to 4 KiB, 20 frames deep, 256 stacks, 4096 places replaced at random. W2 the same in NUMBER threads, a
 * power of two; 12 of 100 blocks are freed by another one. W4 every 4th block leaks, up to NUMBER of them. W5 NUMBER blocks of
 * 48 bytes live, then random replacement.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 16, PLACES = 4096 }; /* with main, its caller, the loop and what is around malloc: 20 frames and more */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 31;
}

/* Two functions that call each other as the bits of `way` say: bits 1 to 8, 256 stacks. */
typedef void *step(unsigned way, int depth, size_t size);
static step *steps[2];
#define STEP(name, room)                                                                     \
    static __attribute__((noinline)) void *name(unsigned way, int depth, size_t size)        \
    {                                                                                        \
        char frame[room];                                                                    \
        __asm__ volatile("" : : "r"(frame) : "memory");                                      \
        void *p = depth == 0 ? malloc(size) : steps[way >> depth & 1](way, depth - 1, size); \
        __asm__ volatile("" : : "r"(frame) : "memory");                                      \
        return p;                                                                            \
    }
STEP(left, 24)
STEP(right, 56)

static void *allocate(uint64_t r)
{
    /* Multiples of 16: of more different pairs of size and stack the interpreter of heaptrack 1.4.0 runs out of memory. */
    size_t size = 64 + 16 * ((r >> 40) % ((r >> 52 & 7) ? 28 : 253));
    char *p = steps[0]((unsigned)(r >> 20) & 0x1ff, DEPTH, size);
    p[0] = 1;
    return p;
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What is measured. */
static double began, began_wall;

static void start(void)
{
    began_wall = now(CLOCK_MONOTONIC);
    began = now(CLOCK_PROCESS_CPUTIME_ID);
}

static void print(double count)
{
    printf("%.2f %.2f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - began) / count, (now(CLOCK_MONOTONIC) - began_wall) / count);
}

static const unsigned long pairs = 1000000;

static void *replace(void *seed)
{
    uint64_t state = (uintptr_t)seed;
    static __thread void *places[PLACES];
    for (unsigned long i = 0; i < pairs; i++) {
        uint64_t r = next_random(&state);
        unsigned place = r >> 8 & (PLACES - 1);
        free(places[place]);
        places[place] = allocate(r);
    }
    return NULL;
}

static void *exchange[4];
static unsigned places_each;

static void *replace_shared(void *seed)
{
    uint64_t state = (uintptr_t)seed;
    void **places = calloc(places_each, sizeof *places);
    for (unsigned long i = 0; i < pairs; i++) {
        uint64_t r = next_random(&state);
        unsigned place = r >> 8 & (places_each - 1);
        void *old = places[place];
        if ((r >> 32) % 100 < 12)
            old = __atomic_exchange_n(&exchange[r & 3], old, __ATOMIC_ACQ_REL);
        free(old);
        places[place] = allocate(r);
    }
    return NULL;
}

static int share(unsigned long number)
{
    pthread_t threads[64];
    if (number > sizeof threads / sizeof *threads)
        return 2;
    /* Many threads have as many blocks in all as two, lest their cost be that of what no cache holds. */
    places_each = number > 4 ? PLACES * 2 / (unsigned)number : PLACES;
    start();
    for (uintptr_t i = 0; i < number; i++)
        if (pthread_create(&threads[i], NULL, replace_shared, (void *)(i + 1)) != 0)
            return 1;
    for (unsigned long i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    print((double)(pairs * number));
    return 0;
}

static void leak(unsigned long number)
{
    uint64_t state = 5;
    start();
    for (unsigned long i = 0; i < number; i++)
        for (int k = 0; k < 4; k++) {
            void *p = allocate(next_random(&state));
            if (k)
                free(p);
        }
    print((double)number * 4);
}

static void churn(unsigned long number)
{
    uint64_t state = 9;
    void **blocks = malloc(number * sizeof *blocks);
    for (unsigned long i = 0; i < number; i++)
        blocks[i] = steps[0](i & 0x1ff, DEPTH, 48);
    start();
    for (unsigned long i = 0; i < pairs; i++) {
        uint64_t r = next_random(&state);
        unsigned long place = (r >> 8) % number;
        free(blocks[place]);
        blocks[place] = steps[0](r & 0x1ff, DEPTH, 48);
    }
    print((double)pairs);
}

/*
 * For TestInterimStorm: 4 threads replace NUMBER blocks at random, until a line comes in. Sizes are 7 modulo 16, which nothing
 * else here asks for; how many blocks are there then and their bytes is what it says, before it waits for another line.
 */
static unsigned long each;
static bool over;
static uint64_t storm_bytes;

static void *storm(void *seed)
{
    uint64_t state = (uintptr_t)seed, bytes = 0;
    struct {
        void *block;
        size_t size;
    } *places = calloc(each, sizeof *places);
    for (unsigned long i = 0; i < each || !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        uint64_t r = next_random(&state);
        unsigned long place = i < each ? i : (r >> 8) % each;
        free(places[place].block);
        bytes -= places[place].size;
        bytes += places[place].size = 7 + 16 * (r >> 40 & 7);
        places[place].block = steps[0](r & 0x1ff, DEPTH, places[place].size);
        if (i + 1 == each)
            (void)!write(1, ".", 1);
    }
    __atomic_fetch_add(&storm_bytes, bytes, __ATOMIC_RELAXED);
    return NULL;
}

static int run_storm(unsigned long number)
{
    pthread_t threads[4];
    char line;
    each = number / 4;
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, storm, (void *)(i + 1)) != 0)
            return 1;
    if (read(0, &line, 1) != 1)
        return 1;
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    dprintf(1, "%lu %lu\n", each * 4, (unsigned long)storm_bytes);
    return read(0, &line, 1) < 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    unsigned long number = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000000;
    steps[0] = left;
    steps[1] = right;
    if (strcmp(name, "storm") == 0)
        return run_storm(number);
    if (strcmp(name, "W2") == 0)
        return share(number);
    if (strcmp(name, "W1") == 0) {
        start();
        replace((void *)3);
        print((double)pairs);
    } else if (strcmp(name, "W4") == 0) {
        leak(number);
    } else if (strcmp(name, "W5") == 0) {
        churn(number);
    } else {
        fprintf(stderr, "workload: %s is none of W1, W2, W4, W5, storm\n", name);
        return 2;
    }
    return 0;
}
