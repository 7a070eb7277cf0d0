/*
 * storm - many threads that allocate and free device memory as fast as they can.
 *
 * Each thread keeps a set of live blocks and replaces one of them per turn: halMemFree of the oldest, halMemAlloc of a new
 * one. It is the load of benchmarks and of the stress tests; the program knows nothing of any tool. At the end it prints
 * what it did and the nanoseconds per call as one thread saw them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ascend_hal.h"

static uint64_t threads = 4, events = 1000000, live = 64, size = 4096, device_count = 1;
static pthread_barrier_t start;

struct worker {
    pthread_t thread;
    uint64_t index;
    uint64_t calls, failed;
    int64_t ns;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    void **blocks = calloc(live, sizeof *blocks);
    if (!blocks) {
        fprintf(stderr, "storm: no memory for %llu blocks\n", (unsigned long long)live);
        exit(1);
    }
    const unsigned long long flag =
        (w->index % device_count) | MEM_DEV | MEM_TYPE_HBM | (unsigned long long)APP_MODULE_ID << MEM_MODULE_ID_BIT;
    uint64_t at = 0;
    pthread_barrier_wait(&start);
    int64_t begin = now_ns();
    while (w->calls < events) {
        if (blocks[at]) {
            w->failed += halMemFree(blocks[at]) != DRV_ERROR_NONE;
            w->calls++;
            blocks[at] = NULL;
            if (w->calls == events)
                break;
        }
        w->failed += halMemAlloc(&blocks[at], size, flag) != DRV_ERROR_NONE;
        w->calls++;
        at = at + 1 == live ? 0 : at + 1;
    }
    w->ns = now_ns() - begin;
    for (uint64_t i = 0; i < live; i++)
        if (blocks[i])
            w->failed += halMemFree(blocks[i]) != DRV_ERROR_NONE, w->calls++;
    free(blocks);
    return NULL;
}

static int usage(const char *wrong)
{
    fprintf(stderr,
            "storm: %s\n"
            "usage: storm [--threads N] [--events N] [--live N] [--size BYTES] [--devices N]\n"
            "  --threads  threads that storm, default 4\n"
            "  --events   calls of each thread, allocations plus frees, default 1000000\n"
            "  --live     blocks that each thread keeps, default 64\n"
            "  --size     bytes of a block, default 4096\n"
            "  --devices  cards that the threads are dealt out to, default 1\n",
            wrong);
    return 2;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *value;
    } options[] = {{"--threads", &threads},
                   {"--events", &events},
                   {"--live", &live},
                   {"--size", &size},
                   {"--devices", &device_count}};
    for (int i = 1; i < argc; i += 2) {
        uint64_t *value = NULL;
        for (size_t o = 0; o < sizeof options / sizeof *options; o++)
            if (!strcmp(argv[i], options[o].name))
                value = options[o].value;
        char *end = NULL;
        if (!value || i + 1 == argc)
            return usage(value ? "an option lacks its number" : "unknown option");
        *value = strtoull(argv[i + 1], &end, 10);
        if (!*value || *end || argv[i + 1][0] == '-')
            return usage("numbers are whole and at least 1");
    }

    struct worker *workers = calloc(threads, sizeof *workers);
    if (!workers || pthread_barrier_init(&start, NULL, (unsigned)threads + 1))
        return usage("too many threads");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10); /* thousands of threads must fit */
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].index = i;
        int error = pthread_create(&workers[i].thread, &attributes, work, &workers[i]);
        if (error) {
            fprintf(stderr, "storm: thread %llu: %s\n", (unsigned long long)i, strerror(error));
            return 1;
        }
    }
    pthread_barrier_wait(&start);
    int64_t begin = now_ns();
    uint64_t calls = 0, failed = 0;
    int64_t busy = 0;
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        calls += workers[i].calls;
        failed += workers[i].failed;
        busy += workers[i].ns;
    }
    int64_t wall = now_ns() - begin;
    printf("storm: %llu threads, %llu calls, %llu failed, %.3f s, %.1f ns per call and thread, %.2f million calls/s\n",
           (unsigned long long)threads, (unsigned long long)calls, (unsigned long long)failed, (double)wall / 1e9,
           (double)busy / (double)(events * threads), (double)calls / ((double)wall / 1e3));
    free(workers);
    return failed ? 1 : 0;
}
