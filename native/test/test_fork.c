/*
 * test_fork.c - children made in every way. What they do must not touch the parent's ring.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "state.h"

static struct collector c;

static void put(uint64_t addr)
{
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 0, sizeof *r);
    r->addr = addr;
    ms_publish(&r->h);
    ms_leave();
}

static void start(void)
{
    collector_defaults(&c);
    collector_open(&c);
    collector_serve(&c);
}

/* The only record of a ring has this address and comes from this process's first thread. */
static void check_only(struct client *client, uint64_t addr, pid_t pid)
{
    struct ms_alloc *r = (struct ms_alloc *)client_peek(client);
    CHECK(r != NULL);
    CHECK_EQ(r->addr, addr);
    CHECK_EQ(record_tid(&r->h), pid);
    CHECK_EQ(client->pid, pid);
    CHECK_EQ(client->hello.pid, pid);
    client_done(client);
    CHECK(client_peek(client) == NULL);
}

static void await(pid_t pid)
{
    int status = -1;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

CASE(child_introduces_itself)
{
    start();
    put(1);
    pid_t pid = fork();
    if (pid == 0) {
        put(2);
        exit(0);
    }
    await(pid);
    check_only(collector_client(&c, 0), 1, getpid());
    check_only(collector_client(&c, 1), 2, pid);
    put(3);
    check_only(collector_client(&c, 0), 3, getpid());
    CHECK_EQ(collector_count(&c), 2);
}

CASE(silent_child)
{
    start();
    put(1);
    pid_t pid = fork();
    if (pid == 0)
        exit(0);
    await(pid);
    check_only(collector_client(&c, 0), 1, getpid());
    CHECK_EQ(collector_count(&c), 1);
}

/* Past the C library: no fork handlers run, the kernel wipes the page. */
CASE(bare_fork)
{
    start();
    put(1);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        put(2);
        _exit(0);
    }
    await(pid);
    check_only(collector_client(&c, 0), 1, getpid());
    check_only(collector_client(&c, 1), 2, pid);
}

/* A kernel without MADV_WIPEONFORK: the fork handler does it. */
CASE(older_kernel)
{
    static struct life not_wiped;
    agent.life = &not_wiped;
    start();
    put(1);
    CHECK_EQ(not_wiped.state, LIFE_READY);
    pid_t pid = fork();
    if (pid == 0) {
        put(2);
        exit(0);
    }
    await(pid);
    check_only(collector_client(&c, 0), 1, getpid());
    check_only(collector_client(&c, 1), 2, pid);
}

CASE(grandchild)
{
    start();
    put(1);
    pid_t pid = fork();
    if (pid == 0) {
        put(2);
        pid_t inner = fork();
        if (inner == 0) {
            put(3);
            exit(0);
        }
        await(inner);
        put(4);
        exit(0);
    }
    await(pid);
    CHECK_EQ(collector_count(&c), 3);
    struct client *child = collector_client(&c, 1);
    CHECK_EQ(((struct ms_alloc *)client_peek(child))->addr, 2);
    client_done(child);
    CHECK_EQ(((struct ms_alloc *)client_peek(child))->addr, 4);
    CHECK_EQ(((struct ms_alloc *)client_peek(collector_client(&c, 2)))->addr, 3);
}

/* A signal handler that forks amid a record: the child ends that record in memory of its own. */
CASE(fork_amid_a_record)
{
    start();
    put(1);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, 0, sizeof *r);
    pid_t pid = fork();
    r->addr = 5;
    ms_publish(&r->h);
    ms_leave();
    if (pid == 0) {
        put(2);
        exit(0);
    }
    await(pid);
    struct client *parent = collector_client(&c, 0);
    CHECK_EQ(((struct ms_alloc *)client_peek(parent))->addr, 1);
    client_done(parent);
    check_only(parent, 5, getpid());
    check_only(collector_client(&c, 1), 2, pid);
}

static void *first_event(void *arg)
{
    (void)arg;
    put(1);
    return NULL;
}

/* Another thread is in its handshake: the child does not wait for it, it is not there. */
CASE(fork_amid_a_handshake)
{
    pthread_t thread;
    collector_defaults(&c);
    c.delay_ms = 60; /* twice, one client after the other */
    collector_open(&c);
    collector_serve(&c);
    pthread_create(&thread, NULL, first_event, NULL);
    struct life *life;
    while (!(life = __atomic_load_n(&agent.life, __ATOMIC_ACQUIRE)) ||
           __atomic_load_n(&life->connector, __ATOMIC_ACQUIRE) == 0)
        ;
    pid_t pid = fork();
    if (pid == 0) {
        put(2);
        _exit(0); /* LeakSanitizer's check at exit hangs in a child whose parent had threads */
    }
    await(pid);
    pthread_join(thread, NULL);
    check_only(collector_client(&c, 1), 2, pid);
    CHECK_EQ(((struct ms_alloc *)client_peek(collector_client(&c, 0)))->addr, 1);
}

/* Children that share our memory until they exec must leave it alone. */
CASE(spawn_and_vfork)
{
    static char *const arguments[] = {"true", NULL};
    pid_t pid;
    start();
    put(1);
    CHECK_EQ(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ), 0);
    await(pid);
    pid = vfork();
    if (pid == 0) {
        execv("/bin/true", arguments);
        _exit(1);
    }
    await(pid);
    put(2);
    struct client *client = collector_client(&c, 0);
    CHECK_EQ(((struct ms_alloc *)client_peek(client))->addr, 1);
    client_done(client);
    check_only(client, 2, getpid());
    CHECK_EQ(collector_count(&c), 1);
}

static bool stop_storm, stop_drain;

static void *storm(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&stop_storm, __ATOMIC_RELAXED))
        put(7);
    return NULL;
}

static void *drain(void *arg)
{
    struct client *client = arg;
    while (!__atomic_load_n(&stop_drain, __ATOMIC_ACQUIRE) || client_peek(client)) {
        for (int i = 0; i < 1000 && client_peek(client); i++)
            client_done(client);
        client_turn(client);
    }
    return NULL;
}

/* Forks amid a storm on other threads. */
CASE(fork_in_a_storm)
{
    pthread_t threads[3];
    start();
    put(1);
    struct client *client = collector_client(&c, 0);
    pthread_create(&threads[0], NULL, drain, client);
    pthread_create(&threads[1], NULL, storm, NULL);
    pthread_create(&threads[2], NULL, storm, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            put(100 + i);
            _exit(0);
        }
        await(pid);
        check_only(collector_client(&c, 1 + (int)i), 100 + i, pid);
    }
    __atomic_store_n(&stop_storm, true, __ATOMIC_RELAXED);
    pthread_join(threads[1], NULL);
    pthread_join(threads[2], NULL);
    __atomic_store_n(&stop_drain, true, __ATOMIC_RELEASE);
    pthread_join(threads[0], NULL);
    CHECK_EQ(client->ring->head, client->ring->tail);
}

int test_fork(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_introduces_itself),
        cmocka_unit_test(silent_child),
        cmocka_unit_test(bare_fork),
        cmocka_unit_test(older_kernel),
        cmocka_unit_test(grandchild),
        cmocka_unit_test(fork_amid_a_record),
        cmocka_unit_test(fork_amid_a_handshake),
        cmocka_unit_test(spawn_and_vfork),
        cmocka_unit_test(fork_in_a_storm),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
