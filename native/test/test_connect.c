/*
 * test_connect.c - the handshake, and every way in which it can go wrong without the target noticing.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "state.h"

static struct collector c;

/* The first event of a process that nobody collects for: nothing happens, nothing stays open. */
static void check_off(void)
{
    int before = open_descriptors();
    errno = EDOM;
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK_EQ(errno, EDOM);
    CHECK_EQ(open_descriptors(), before);
    CHECK(life_state() == LIFE_OFF);
    CHECK_EQ(ms_enter(MS_TRACE), MS_SKIP);
    CHECK_EQ(self.depth, 0);
}

static void check_fault(enum fault fault)
{
    collector_defaults(&c);
    c.fault = fault;
    collector_open(&c);
    collector_serve(&c);
    /* The server's own side comes and goes meanwhile: look at the numbers when it has ended. */
    int before = open_descriptors();
    errno = EDOM;
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK_EQ(errno, EDOM);
    CHECK(life_state() == LIFE_OFF);
    collector_close(&c);
    CHECK_EQ(open_descriptors(), before - 1 + (fault == FAULT_SILENT)); /* the listener has gone */
}

CASE(no_session)
{
    check_off();
}

CASE(empty_name)
{
    setenv("MSMEMSCOPE_SESSION", "", 1);
    check_off();
}

CASE(long_name)
{
    char name[200];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    setenv("MSMEMSCOPE_SESSION", name, 1);
    check_off();
}

CASE(nobody_listens)
{
    setenv("MSMEMSCOPE_SESSION", "msmemscope-test-nobody", 1);
    check_off();
}

CASE(hangs_up)
{
    check_fault(FAULT_HANG_UP);
}

CASE(short_welcome)
{
    check_fault(FAULT_SHORT);
}

CASE(wrong_magic)
{
    check_fault(FAULT_MAGIC);
}

CASE(wrong_version)
{
    check_fault(FAULT_VERSION);
}

CASE(no_memory)
{
    check_fault(FAULT_NO_MEMORY);
}

CASE(small_memory)
{
    check_fault(FAULT_SMALL_MEMORY);
}

CASE(odd_size)
{
    check_fault(FAULT_ODD_SIZE);
}

CASE(wrong_ring)
{
    check_fault(FAULT_RING_MAGIC);
}

CASE(silent_collector)
{
    int64_t began = now_ns();
    capture_stderr();
    check_fault(FAULT_SILENT);
    CHECK(now_ns() - began >= (HANDSHAKE_MS - 10) * (int64_t)NS_PER_MS);
    CHECK(strstr(captured_stderr(), "does not answer"));
}

CASE(refused)
{
    collector_defaults(&c);
    c.answer = MS_REFUSED_CLOSING;
    collector_open(&c);
    collector_serve(&c);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK(life_state() == LIFE_OFF);
}

CASE(stranger)
{
    if (geteuid() != 0)
        return; /* only root can be somebody else */
    collector_defaults(&c);
    CHECK(seteuid(65534) == 0);
    collector_open(&c);
    CHECK(seteuid(0) == 0);
    collector_serve(&c);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK(life_state() == LIFE_OFF);
    CHECK_EQ(collector_count(&c), 0);
}

CASE(accepted)
{
    collector_defaults(&c);
    c.config.npu_slots = 5;
    collector_open(&c);
    collector_serve(&c);
    int before = open_descriptors();
    errno = EDOM;
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    CHECK_EQ(errno, EDOM);
    ms_leave();
    struct client *client = collector_client(&c, 0);
    CHECK_EQ(client->hello.magic, MS_WIRE_MAGIC);
    CHECK_EQ(client->hello.version, MS_WIRE_VERSION);
    CHECK_EQ(client->hello.pid, getpid());
    CHECK_EQ(agent.config.npu_slots, 5);
    CHECK_EQ(agent.size, c.ring_size);
    collector_close(&c);
    CHECK_EQ(open_descriptors(), before - 1);
    /* Both halves of the mirror are the collector's memory. */
    agent.data[agent.size + 100] = 7;
    CHECK_EQ(agent.data[100], 7);
    CHECK_EQ(client->data[100], 7);
}

/* Mode by interest, tracing and --events: abi.md 1.2. */
CASE(modes)
{
    static const struct {
        uint32_t events, tracing;
        enum ms_mode memory, trace;
    } rows[] = {
        {7, 1, MS_NORMAL, MS_NORMAL}, {3, 1, MS_NORMAL, MS_NORMAL}, {4, 1, MS_SKIP, MS_NORMAL},
        {1, 1, MS_SKIP, MS_NORMAL},   {0, 1, MS_SKIP, MS_NORMAL},   {7, 0, MS_SHADOW, MS_SKIP},
        {1, 0, MS_SHADOW, MS_SKIP},   {2, 0, MS_SHADOW, MS_SKIP},   {12, 0, MS_SKIP, MS_SKIP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        collector_defaults(&c);
        c.config.events = rows[i].events;
        c.tracing = rows[i].tracing;
        collector_open(&c);
        collector_serve(&c);
        if (agent.life)
            memset(agent.life, 0, sizeof *agent.life); /* as a fork does */
        enum ms_mode memory = ms_enter(MS_MEMORY);
        if (memory != MS_SKIP)
            ms_leave();
        enum ms_mode trace = ms_enter(MS_TRACE);
        if (trace != MS_SKIP)
            ms_leave();
        CHECK_EQ(memory, rows[i].memory);
        CHECK_EQ(trace, rows[i].trace);
        CHECK_EQ(self.depth, 0);
        collector_close(&c);
    }
}

static void *first_event(void *arg)
{
    pthread_barrier_wait(arg);
    enum ms_mode mode = ms_enter(MS_MEMORY);
    CHECK_EQ(mode, MS_NORMAL);
    CHECK_EQ(self.tid, syscall(SYS_gettid));
    ms_leave();
    return NULL;
}

/* All threads come at once: one introduces the process, all go on. */
CASE(many_threads)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    collector_defaults(&c);
    c.delay_ms = 100;
    collector_open(&c);
    collector_serve(&c);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, first_event, &barrier), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(collector_count(&c), 1);
}

static int inner_mode = -1;

static void event_in_handler(int signal)
{
    (void)signal;
    inner_mode = (int)ms_enter(MS_MEMORY);
}

/* A handler that runs in the midst of the handshake passes through, and its interruption is no failure. */
CASE(signal_during_handshake)
{
    struct sigaction action = {.sa_handler = event_in_handler};
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGVTALRM);
    sigaddset(&alarms, SIGALRM);
    collector_defaults(&c);
    c.delay_ms = 150;
    collector_open(&c);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    collector_serve(&c); /* its thread does not see the signal */
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    setitimer(ITIMER_REAL, &never, NULL);
    ms_leave();
    CHECK_EQ(inner_mode, MS_SKIP);
    CHECK_EQ(collector_count(&c), 1);
}

/* The sanitizers do not follow threads that are torn out of their frames. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED
#endif
#ifndef SANITIZED

/* Where a thread is lost: the welcome takes longer than it lives. */
static void slow_collector(void)
{
    collector_defaults(&c);
    c.delay_ms = 100;
    collector_open(&c);
    collector_serve(&c);
}

static void *cancelled_event(void *arg)
{
    (void)arg;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    ms_enter(MS_MEMORY);
    return NULL;
}

/* The thread that shakes hands is cancelled: the next one introduces the process, at once. */
CASE(connector_gone)
{
    pthread_t thread;
    void *result;
    slow_collector();
    CHECK_EQ(pthread_create(&thread, NULL, cancelled_event, NULL), 0);
    poll(NULL, 0, 30);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(life_state() == LIFE_INIT);
    int64_t began = now_ns();
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    CHECK(now_ns() - began < HANDSHAKE_MS * (int64_t)NS_PER_MS);
    CHECK_EQ(self.tid, syscall(SYS_gettid));
    ms_leave();
}

/* Many such threads: the second handshake is not broken off any more. */
CASE(connectors_gone)
{
    enum { THREADS = 4 };
    pthread_t thread;
    slow_collector();
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, cancelled_event, NULL), 0);
        poll(NULL, 0, 30);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        CHECK(life_state() == (i == 0 ? LIFE_INIT : LIFE_READY));
    }
    CHECK_EQ(collector_count(&c), 2);
}

static void exit_thread(int signal)
{
    (void)signal;
    syscall(SYS_exit, 0); /* not pthread_exit: it would unwind through the frames of ThreadSanitizer */
}

static void *exiting_event(void *arg)
{
    __atomic_store_n((uint32_t *)arg, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    ms_enter(MS_MEMORY);
    return NULL;
}

/* The same with others already waiting: one of them takes over, and one only. */
CASE(connector_gone_amid_waiters)
{
    enum { WAITERS = 4 };
    pthread_t thread, waiters[WAITERS];
    pthread_barrier_t barrier;
    uint32_t tid = 0;
    slow_collector();
    signal(SIGUSR1, exit_thread);
    CHECK_EQ(pthread_create(&thread, NULL, exiting_event, &tid), 0);
    struct life *life;
    while (!(life = __atomic_load_n(&agent.life, __ATOMIC_ACQUIRE)) ||
           __atomic_load_n(&life->connector, __ATOMIC_ACQUIRE) == 0)
        poll(NULL, 0, 1);
    pthread_barrier_init(&barrier, NULL, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(pthread_create(&waiters[i], NULL, first_event, &barrier), 0);
    poll(NULL, 0, 20);
    syscall(SYS_tgkill, getpid(), __atomic_load_n(&tid, __ATOMIC_ACQUIRE), SIGUSR1);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(pthread_join(waiters[i], NULL), 0);
    collector_client(&c, 1); /* the lost thread's hello, and one more */
    CHECK_EQ(collector_count(&c), 2);
}

#endif

/* The thread lives, but does something else: others give up waiting, once for all. */
CASE(connector_elsewhere)
{
    collector_defaults(&c);
    collector_open(&c);
    collector_serve(&c);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    ms_leave();
    agent.life->connector = (uint32_t)getppid();
    agent.life->state = LIFE_INIT;
    int64_t began = now_ns();
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK(now_ns() - began >= 2 * HANDSHAKE_MS * (int64_t)NS_PER_MS);
    CHECK_EQ(self.depth, 0);
    CHECK(life_state() == LIFE_OFF);
    began = now_ns();
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
    CHECK(now_ns() - began < HANDSHAKE_MS * (int64_t)NS_PER_MS);
}

int test_connect(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_session),
        cmocka_unit_test(empty_name),
        cmocka_unit_test(long_name),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(hangs_up),
        cmocka_unit_test(short_welcome),
        cmocka_unit_test(wrong_magic),
        cmocka_unit_test(wrong_version),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(small_memory),
        cmocka_unit_test(odd_size),
        cmocka_unit_test(wrong_ring),
        cmocka_unit_test(silent_collector),
        cmocka_unit_test(refused),
        cmocka_unit_test(stranger),
        cmocka_unit_test(accepted),
        cmocka_unit_test(modes),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(signal_during_handshake),
#ifndef SANITIZED
        cmocka_unit_test(connector_gone),
        cmocka_unit_test(connectors_gone),
        cmocka_unit_test(connector_gone_amid_waiters),
#endif
        cmocka_unit_test(connector_elsewhere),
    };
    return cmocka_run_group_tests_name("connect", tests, NULL, NULL);
}
