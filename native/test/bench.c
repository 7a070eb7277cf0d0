/*
 * bench.c - what a hook costs: ns per event on one thread, the real call excluded.
 *
 *   LD_PRELOAD=.../libleaks_ascend_hal_hook.so bench      prints, for each situation, the median and the best of 41 bursts
 *
 * The "driver" is two empty functions of this program. Time is the thread's own CPU
 * time, so that other work on the machine does not count.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector.h"

#define DRIVER __attribute__((visibility("default"), noinline))

enum { PAIRS = 100000, BURSTS = 41 };

DRIVER int halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag);
DRIVER int halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag)
{
    *pp = (void *)(size + flag);
    return 0;
}

DRIVER int halMemFreeInner(void *pp);
DRIVER int halMemFreeInner(void *pp)
{
    __asm__ volatile("" ::"r"(pp));
    return 0;
}

typedef int alloc_fn(void **, unsigned long long, unsigned long long);
typedef int free_fn(void *);

static double burst(alloc_fn *volatile alloc, free_fn *volatile free_)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < PAIRS; i++) {
        void *p;
        alloc(&p, 4096, 1 << 10);
        free_(p);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (2.0 * PAIRS);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void drain(struct client *client)
{
    while (client_peek(client))
        client_done(client);
}

static void report(const char *name, alloc_fn *alloc, free_fn *free_, struct client *drained, double base[2])
{
    double ns[BURSTS];
    for (int i = 0; i < BURSTS; i++) {
        ns[i] = burst(alloc, free_);
        if (drained)
            drain(drained);
    }
    qsort(ns, BURSTS, sizeof *ns, ascending);
    printf("%-34s %6.1f ns median %6.1f ns best\n", name, ns[BURSTS / 2] - base[0], ns[0] - base[1]);
    if (base[0] == 0) {
        base[0] = ns[BURSTS / 2];
        base[1] = ns[0];
    }
}

static volatile int stop;

static void *consume(void *arg)
{
    struct client *client = arg;
    while (!stop || client_peek(client)) {
        client_turn(client);
        if (client_peek(client))
            drain(client);
        else
            poll(NULL, 0, 1); /* as the real collector does */
    }
    return NULL;
}

int main(void)
{
    static struct collector c;
    alloc_fn *hook_alloc = (alloc_fn *)dlsym(RTLD_DEFAULT, "halMemAlloc");
    free_fn *hook_free = (free_fn *)dlsym(RTLD_DEFAULT, "halMemFree");
    int (*pause_)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "ms_stop");
    if (!hook_alloc || !hook_free || !pause_) {
        fprintf(stderr, "bench: preload libleaks_ascend_hal_hook.so\n");
        return 2;
    }
    double base[2] = {0, 0};
    pthread_t thread;
    void *p;
    report("driver alone", halMemAllocInner, halMemFreeInner, NULL, base);

    fflush(stdout);
    unsetenv("MSMEMSCOPE_SESSION");
    pid_t pid = fork(); /* a process connects once, or never */
    if (pid == 0) {
        report("hook, no session", hook_alloc, hook_free, NULL, base);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);

    collector_defaults(&c);
    c.ring_size = 32 << 20;
    collector_open(&c);
    collector_serve(&c);
    hook_alloc(&p, 1, 0);
    struct client *client = collector_client(&c, 0);
    drain(client);
    report("hook, recording", hook_alloc, hook_free, client, base);
    pthread_create(&thread, NULL, consume, client);
    report("hook, recording, consumer at work", hook_alloc, hook_free, NULL, base);
    stop = 1;
    pthread_join(thread, NULL);
    pause_();
    drain(client);
    report("hook, paused", hook_alloc, hook_free, client, base);
    return 0;
}
