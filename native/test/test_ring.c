/*
 * test_ring.c - records, order, a full ring, and collectors that die, freeze or close.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "state.h"

static struct collector c;

static struct client *start(void)
{
    collector_open(&c);
    collector_serve(&c);
    CHECK(ms_enter(MS_MEMORY) == MS_NORMAL);
    ms_leave();
    return collector_client(&c, 0);
}

static bool put(uint64_t addr)
{
    if (ms_enter(MS_MEMORY) == MS_SKIP)
        return false;
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 3, sizeof *r);
    if (r) {
        r->addr = addr;
        ms_publish(&r->h);
    }
    ms_leave();
    return r != NULL;
}

/* As many records as fit. */
static uint64_t fill(void)
{
    uint64_t n = 0;
    while (agent.ring->tail - agent.ring->head + sizeof(struct ms_alloc) <= agent.size)
        CHECK(put(++n));
    return n;
}

CASE(record)
{
    collector_defaults(&c);
    struct client *client = start();
    CHECK(client_peek(client) == NULL);
    int64_t before = now_ns();
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP); /* inside a record this thread is silent */
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_PTA, 3, sizeof *r);
    CHECK(client_peek(client) == NULL); /* busy */
    r->addr = 0x1234;
    r->size = 99;
    ms_publish(&r->h);
    ms_leave();
    struct ms_alloc *seen = (struct ms_alloc *)client_peek(client);
    CHECK(seen != NULL);
    CHECK_EQ(record_type(&seen->h), MS_ALLOC);
    CHECK_EQ(record_bytes(&seen->h), sizeof *seen);
    CHECK_EQ(record_tid(&seen->h), syscall(SYS_gettid));
    CHECK_EQ(seen->h.pos, 0);
    CHECK(seen->h.stamp >= before && seen->h.stamp <= now_ns());
    CHECK_EQ(seen->h.device, 3);
    CHECK_EQ(seen->h.pool, MS_PTA);
    CHECK_EQ(seen->h.flags, 0);
    CHECK_EQ(seen->h.stack, 0);
    CHECK_EQ(seen->addr, 0x1234);
    CHECK_EQ(seen->size, 99);
    CHECK_EQ(seen->detail, 0);
    client_done(client);
    CHECK(client_peek(client) == NULL);
    CHECK_EQ(agent.ring->head, sizeof *seen);
}

CASE(lengths_are_rounded)
{
    collector_defaults(&c);
    struct client *client = start();
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    for (size_t bytes = sizeof(struct ms_head) + 1; bytes <= sizeof(struct ms_head) + 9; bytes += 4) {
        struct ms_head *h = ms_reserve(MS_MARK, MS_HOST, 0, bytes);
        ms_publish(h);
        h = client_peek(client);
        CHECK_EQ(record_bytes(h), (bytes + 7) / 8 * 8);
        client_done(client);
    }
    ms_leave();
}

/* Three laps in records whose length does not divide the ring: all arrive, whole, in order. */
CASE(laps)
{
    collector_defaults(&c);
    struct client *client = start();
    uint64_t records = 3 * MS_RING_MIN_BYTES / (sizeof(struct ms_alloc) + 40), wrapped = 0;
    for (uint64_t i = 0; i < records; i++) {
        CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
        struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 0, sizeof *r + 40);
        wrapped += (unsigned char *)(r + 1) + 40 > agent.data + agent.size;
        memset(r + 1, (int)(i & 0xff), 40);
        r->addr = i;
        ms_publish(&r->h);
        ms_leave();
        if (i % 7000 != 0 && i != records - 1)
            continue;
        for (struct ms_alloc *seen; (seen = (struct ms_alloc *)client_peek(client)) != NULL; client_done(client)) {
            static uint64_t next;
            CHECK_EQ(seen->addr, next);
            CHECK_EQ(((unsigned char *)(seen + 1))[39], next & 0xff);
            CHECK_EQ(seen->h.pos, client->head);
            next++;
        }
    }
    CHECK(wrapped > 0);
    CHECK_EQ(client->head, records * (sizeof(struct ms_alloc) + 40));
}

CASE(filters)
{
    static const struct {
        uint8_t all, cpu;
        uint32_t slots;
        uint16_t device;
        bool recorded;
    } rows[] = {
        {1, 0, 0, 7, true},
        {1, 0, 0, MS_DEVICE_NONE, true},
        {1, 0, 0, MS_DEVICE_CPU, false},
        {1, 1, 0, MS_DEVICE_CPU, true},
        {0, 1, 0, MS_DEVICE_CPU, true},
        {0, 0, 5, 0, true},
        {0, 0, 5, 1, false},
        {0, 0, 5, 2, true},
        {0, 0, 5, 32, false},
        {0, 0, 5, 34, false},
        {0, 0, 5, MS_DEVICE_NONE, true},
        {0, 0, 1u << 31, 31, true},
    };
    collector_defaults(&c);
    start();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        agent.config.all_npu = rows[i].all;
        agent.config.cpu = rows[i].cpu;
        agent.config.npu_slots = rows[i].slots;
        CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
        struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, rows[i].device, sizeof *r);
        if (r)
            ms_publish(&r->h);
        ms_leave();
        if ((r != NULL) != rows[i].recorded)
            fprintf(stderr, "row %zu\n", i);
        CHECK_EQ(r != NULL, rows[i].recorded);
    }
}

static void *drain_later(void *arg)
{
    struct client *client = arg;
    for (int i = 0; i < 3 * SILENCE_MS / 5; i++) {
        client_turn(client);
        poll(NULL, 0, 5);
    }
    while (client_peek(client))
        client_done(client);
    client_turn(client);
    return NULL;
}

CASE(full_waits)
{
    pthread_t thread;
    collector_defaults(&c);
    struct client *client = start();
    fill();
    pthread_create(&thread, NULL, drain_later, client);
    int64_t began = now_ns();
    errno = EDOM;
    CHECK(put(1));
    CHECK_EQ(errno, EDOM);
    CHECK(now_ns() - began > 2 * SILENCE_MS * (int64_t)NS_PER_MS);
    CHECK_EQ(agent.ring->wait_count, 1);
    CHECK(agent.ring->wait_ns > 2 * SILENCE_MS * (uint64_t)NS_PER_MS);
    CHECK_EQ(agent.ring->waiters, 0);
    CHECK_EQ(agent.ring->skipped, 0);
    CHECK(life_state() == LIFE_READY);
    pthread_join(thread, NULL);
}

/* A full ring whose collector is gone: found out at once, said once, and from then on the program runs freely. */
static void check_gone(bool launched)
{
    collector_defaults(&c);
    c.config.launched = launched;
    start();
    fill();
    collector_close(&c);
    capture_stderr();
    int64_t began = now_ns();
    CHECK(!put(1));
    CHECK(now_ns() - began < PATIENCE_MS * (int64_t)NS_PER_MS);
    CHECK(life_state() == LIFE_LOST);
    for (int i = 0; i < 1000; i++)
        CHECK(!put(1));
    const char *said = captured_stderr();
    CHECK_EQ(agent.ring->skipped, 1001);
    if (launched)
        CHECK_EQ(strlen(said), 0);
    else
        CHECK(strstr(said, "the collector is gone") && strchr(said, '\n') == said + strlen(said) - 1);
}

CASE(gone)
{
    check_gone(false);
}

CASE(gone_launched)
{
    check_gone(true);
}

/* Accepts, but its heart stands still. */
CASE(frozen)
{
    collector_defaults(&c);
    c.config.launched = 0;
    start();
    fill();
    capture_stderr();
    int64_t began = now_ns();
    CHECK(!put(1));
    CHECK(now_ns() - began >= PATIENCE_MS * (int64_t)NS_PER_MS);
    CHECK(life_state() == LIFE_LOST);
    CHECK(strstr(captured_stderr(), "does not answer"));
}

static void *close_ring_later(void *arg)
{
    (void)arg;
    poll(NULL, 0, 30);
    __atomic_store_n(&agent.ring->closed, 1, __ATOMIC_RELEASE);
    return NULL;
}

CASE(closed_while_waiting)
{
    pthread_t thread;
    collector_defaults(&c);
    start();
    fill();
    pthread_create(&thread, NULL, close_ring_later, NULL);
    CHECK(!put(1));
    CHECK(!put(1));
    CHECK(life_state() == LIFE_LOST);
    CHECK_EQ(agent.ring->skipped, 2);
    pthread_join(thread, NULL);
}

CASE(closed)
{
    collector_defaults(&c);
    struct client *client = start();
    CHECK(put(1));
    client->ring->closed = 1;
    CHECK(!put(2));
    CHECK(life_state() == LIFE_LOST);
    CHECK_EQ(client->ring->skipped, 1);
    CHECK_EQ(client->ring->tail, sizeof(struct ms_alloc));
}

/* Nobody reads standard error, or it is full: the line is dropped, and nothing else happens. */
CASE(nobody_hears)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    collector_defaults(&c);
    c.config.launched = 0;
    start();
    int original = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    lose("test");
    dup2(original, STDERR_FILENO);
    CHECK(life_state() == LIFE_LOST);
}

CASE(stderr_is_full)
{
    int ends[2];
    char byte = 0;
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], &byte, 1) == 1)
        ;
    CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0); /* a write would block from here on */
    collector_defaults(&c);
    c.config.launched = 0;
    start();
    int original = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    lose("test");
    dup2(original, STDERR_FILENO);
    CHECK(life_state() == LIFE_LOST);
}

enum { STORM_THREADS = 6, STORM_EVENTS = 60000 };

static void *storm(void *arg)
{
    uint64_t thread = (uint64_t)arg;
    for (uint64_t i = 0; i < STORM_EVENTS; i++)
        CHECK(put(thread << 32 | i));
    return NULL;
}

/*
 * Many producers on a small ring against one consumer, which reads through the producers' own mapping so that
 * ThreadSanitizer sees both sides of every access.
 */
CASE(many_producers)
{
    pthread_t threads[STORM_THREADS];
    uint64_t next[STORM_THREADS] = {0}, total = 0;
    int64_t last[STORM_THREADS] = {0};
    collector_defaults(&c);
    struct client *client = start();
    client->ring = agent.ring;
    client->data = agent.data;
    for (uint64_t i = 0; i < STORM_THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
    while (total < (uint64_t)STORM_THREADS * STORM_EVENTS) {
        struct ms_alloc *r = (struct ms_alloc *)client_peek(client);
        if (!r || total % 1000 == 0)
            client_turn(client);
        if (!r)
            continue;
        uint64_t thread = r->addr >> 32;
        CHECK_EQ(r->addr & 0xffffffff, next[thread]);
        CHECK(r->h.stamp >= last[thread]);
        CHECK_EQ(r->h.pos, client->head);
        last[thread] = r->h.stamp;
        next[thread]++;
        total++;
        client_done(client);
    }
    for (int i = 0; i < STORM_THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(client_peek(client) == NULL);
    CHECK_EQ(client->ring->waiters, 0);
}

static volatile int handled;

static void event_in_handler(int signal)
{
    (void)signal;
    put(~0ULL);
    handled++;
}

/* A handler that allocates while its thread is in a record passes through; one that comes between records is recorded. */
CASE(signals)
{
    struct sigaction action = {.sa_handler = event_in_handler};
    collector_defaults(&c);
    struct client *client = start();
    sigaction(SIGUSR1, &action, NULL);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 0, sizeof *r);
    raise(SIGUSR1);
    r->addr = 5;
    ms_publish(&r->h);
    ms_leave();
    raise(SIGUSR1);
    CHECK_EQ(handled, 2);
    CHECK_EQ(((struct ms_alloc *)client_peek(client))->addr, 5);
    client_done(client);
    CHECK_EQ(((struct ms_alloc *)client_peek(client))->addr, ~0ULL);
    client_done(client);
    CHECK(client_peek(client) == NULL);
}

CASE(suppressed)
{
    collector_defaults(&c);
    struct client *client = start();
    ms_suppress_begin();
    ms_suppress_begin();
    CHECK(!put(1));
    ms_suppress_end();
    CHECK(!put(1));
    ms_suppress_end();
    CHECK(put(2));
    CHECK_EQ(((struct ms_alloc *)client_peek(client))->addr, 2);
}

int test_ring(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record),
        cmocka_unit_test(lengths_are_rounded),
        cmocka_unit_test(laps),
        cmocka_unit_test(filters),
        cmocka_unit_test(full_waits),
        cmocka_unit_test(gone),
        cmocka_unit_test(gone_launched),
        cmocka_unit_test(frozen),
        cmocka_unit_test(closed_while_waiting),
        cmocka_unit_test(closed),
        cmocka_unit_test(nobody_hears),
        cmocka_unit_test(stderr_is_full),
        cmocka_unit_test(many_producers),
        cmocka_unit_test(signals),
        cmocka_unit_test(suppressed),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
