/*
 * stress.c - kills targets at random instants, and looks whether every event that was finished by then arrived exactly once.
 *
 *   stress [-k KILLS] [-t THREADS] [-i IDLE] [-m MILLISECONDS] [-r RING_BYTES] [-s SEED]
 *
 * KILLS times (100): a target with THREADS threads (4) that record numbered events as fast as they can and note each number
 * when its hook has returned, and IDLE threads (0) that only exist, is killed by SIGKILL after up to MILLISECONDS (20).
 * The consumer stalls now and then, so that the ring (1 MiB) is full again and again. Prints one line and fails when an event
 * was lost, doubled, out of order or torn.
 */
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "collector.h"

enum { THREADS_MAX = 256, PATTERN_BYTES = 1000 };

/* Shared with the target: the number of the last event of each thread whose hook has returned, from 1. */
static uint64_t *noted;

static int kills = 100, threads = 4, idle, milliseconds = 20;
static long ring_bytes = MS_RING_MIN_BYTES;
static unsigned int seed = 1;

/* The filler of an event: a torn record would not match. */
static size_t filler(uint64_t number)
{
    return number * 2654435761u % PATTERN_BYTES;
}

static void *record(void *arg)
{
    uint64_t thread = (uint64_t)arg;
    for (uint64_t number = 1;; number++) {
        if (ms_enter(MS_MEMORY) == MS_SKIP)
            abort();
        size_t bytes = filler(number);
        struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 0, sizeof *r + bytes);
        if (!r)
            abort();
        r->addr = thread;
        r->size = number;
        memset(r + 1, (int)(number & 0xff), bytes);
        ms_publish(&r->h);
        ms_leave();
        __atomic_store_n(&noted[thread], number, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *sleep_forever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void target(void)
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < idle; i++)
        if (pthread_create(&thread, &small, sleep_forever, NULL) != 0)
            _exit(3);
    for (uint64_t i = 1; i < (uint64_t)threads; i++)
        pthread_create(&thread, &small, record, (void *)i);
    record(0);
}

struct tally {
    uint64_t next[THREADS_MAX]; /* number that each thread's next event has to have */
    int64_t stamp[THREADS_MAX];
    uint64_t events, bad;
};

static void check(struct tally *t, struct client *client)
{
    struct ms_alloc *r = (struct ms_alloc *)client_peek(client);
    size_t bytes = filler(r->size);
    const unsigned char *fill = (const unsigned char *)(r + 1);
    bool good = record_type(&r->h) == MS_ALLOC && r->addr < (uint64_t)threads && r->h.pos == client->head &&
                r->size == t->next[r->addr] && r->h.stamp >= t->stamp[r->addr] &&
                record_bytes(&r->h) == ((sizeof *r + bytes + 7) & ~(size_t)7);
    for (size_t i = 0; good && i < bytes; i++)
        good = fill[i] == (r->size & 0xff);
    if (good) {
        t->next[r->addr]++;
        t->stamp[r->addr] = r->h.stamp;
    }
    t->bad += !good;
    t->events++;
    client_done(client);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* One target from birth to death. Adds to the sums; returns the number of events that went wrong. */
static uint64_t run(struct collector *c, int round, uint64_t *events, uint64_t *debris)
{
    struct tally t = {.events = 0};
    for (int i = 0; i < THREADS_MAX; i++)
        t.next[i] = 1;
    memset(noted, 0, THREADS_MAX * sizeof *noted);
    pid_t pid = fork();
    if (pid == 0) {
        target();
        _exit(0);
    }
    struct client *client = collector_client(c, round);
    int64_t end = now_ms() + 1 + rand() % milliseconds;
    while (now_ms() < end) {
        for (int i = rand() % 3000; i > 0 && client_peek(client); i--)
            check(&t, client);
        client_turn(client);
        if (rand() % 20 == 0)
            poll(NULL, 0, 1 + rand() % 5);
    }
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    do {
        while (client_peek(client))
            check(&t, client);
    } while (client_skip_debris(client));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        t.bad++;
    for (int i = 0; i < threads; i++) {
        uint64_t last = t.next[i] - 1; /* at most one was published without being noted */
        t.bad += last != noted[i] && last != noted[i] + 1;
    }
    t.bad += client->lost > (uint64_t)threads;
    *events += t.events;
    *debris += client->lost;
    munmap(client->ring, MS_RING_HEADER_BYTES + 2 * (size_t)ring_bytes);
    return t.bad;
}

int main(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "k:t:i:m:r:s:")) != -1;) {
        long value = optarg ? atol(optarg) : 0;
        switch (option) {
        case 'k':
            kills = (int)value;
            break;
        case 't':
            threads = (int)value;
            break;
        case 'i':
            idle = (int)value;
            break;
        case 'm':
            milliseconds = (int)value;
            break;
        case 'r':
            ring_bytes = value;
            break;
        case 's':
            seed = (unsigned int)value;
            break;
        default:
            kills = 0;
        }
    }
    if (kills < 1 || threads < 1 || threads > THREADS_MAX || milliseconds < 1 || ring_bytes < MS_RING_MIN_BYTES) {
        fprintf(stderr,
                "usage: stress [-k KILLS] [-t THREADS] [-i IDLE] [-m MILLISECONDS] [-r RING_BYTES] [-s SEED]\n");
        return 2;
    }
    srand(seed);
    noted = mmap(NULL, THREADS_MAX * sizeof *noted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t events = 0, debris = 0, bad = 0;
    for (int done = 0; done < kills;) {
        static struct collector c;
        collector_defaults(&c);
        c.ring_size = (uint64_t)ring_bytes;
        collector_open(&c);
        collector_serve(&c);
        for (int round = 0; round < CLIENTS_MAX && done < kills; round++, done++)
            bad += run(&c, round, &events, &debris);
        collector_close(&c);
    }
    printf("stress: %d kills, %llu events arrived, %llu torn by death and skipped, %llu wrong\n", kills,
           (unsigned long long)events, (unsigned long long)debris, (unsigned long long)bad);
    return bad != 0;
}
