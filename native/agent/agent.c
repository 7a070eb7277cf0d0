/*
 * agent.c - one event's frame (enter, leave), and the life of the connection: first event, fork, loss.
 */
#include "state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14; the oldest C library that we build for does not name it */
#endif

struct agent agent;
__thread struct thread self;

static struct life *life_page(void)
{
    static struct life fallback;
    struct life *life = __atomic_load_n(&agent.life, __ATOMIC_ACQUIRE);
    if (life)
        return life;
    size_t length = (size_t)sysconf(_SC_PAGESIZE);
    struct life *page = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        page = &fallback;
    else
        madvise(page, length, MADV_WIPEONFORK); /* where the kernel is too old, after_fork does it */
    if (__atomic_compare_exchange_n(&agent.life, &life, page, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return page;
    if (page != &fallback)
        munmap(page, length);
    return life;
}

/*
 * In the child of fork(). What the kernel has wiped already is wiped once more for kernels that cannot, and a record
 * that a signal handler interrupted before it forked gets memory to end in: the ring is not mapped here.
 */
static void after_fork(void)
{
    int saved = errno;
    if (agent.life)
        memset(agent.life, 0, sizeof *agent.life);
    if (self.depth && agent.ring)
        mmap(agent.ring, MS_RING_HEADER_BYTES + 2 * agent.size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved;
}

/* What pthread_atfork is made of: that one would cost every process libpthread, where the C library is older than 2.34. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

/* The only thing done at load: registering later could deadlock when the first event comes from a fork handler. */
__attribute__((constructor)) static void watch_forks(void)
{
    __register_atfork(NULL, NULL, after_fork, NULL);
}

/* tkill asks about any thread of the system, so that a vfork child that waits for its parent's thread is right, too. */
static bool thread_gone(uint32_t tid)
{
    return syscall(SYS_tkill, tid, 0) < 0 && errno == ESRCH;
}

static void shake_hands(struct life *life)
{
    __atomic_store_n(&life->state, connect_collector() ? LIFE_READY : LIFE_OFF, __ATOMIC_RELEASE);
    futex_wake_all(&life->state);
}

/* After a first handshake that was broken off: no signal handler can break off this one. */
static void shake_hands_undisturbed(struct life *life)
{
    uint64_t all = ~0ULL, before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* the C library would spare its own signals */
    shake_hands(life);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof all);
}

/*
 * Gets the connection out of LIFE_INIT, or waits while another thread does that. Returns what came of it.
 *
 * The thread that shakes hands may never come back: cancelled, ended or jumped away by a signal handler. When it is gone,
 * a waiter goes on in its place; when it is this very thread, it came back by another way. A thread that lives but has
 * jumped away cannot be told from a slow one, so after twice the handshake's own limit nobody waits any more.
 */
static __attribute__((noinline)) uint32_t settle(void)
{
    int saved = errno;
    struct life *life = life_page();
    const uint32_t me = (uint32_t)syscall(SYS_gettid);
    int64_t deadline = now_ns() + 2LL * HANDSHAKE_MS * NS_PER_MS;
    uint32_t state;
    while ((state = __atomic_load_n(&life->state, __ATOMIC_ACQUIRE)) == LIFE_INIT) {
        uint32_t connector = __atomic_load_n(&life->connector, __ATOMIC_ACQUIRE);
        if (connector == 0 || connector == me || thread_gone(connector)) {
            /* The state once more: the thread may have settled it before it went. */
            if (__atomic_compare_exchange_n(&life->connector, &connector, me, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED) &&
                __atomic_load_n(&life->state, __ATOMIC_ACQUIRE) == LIFE_INIT) {
                if (connector == 0)
                    shake_hands(life);
                else
                    shake_hands_undisturbed(life);
            }
        } else if (now_ns() > deadline) {
            __atomic_compare_exchange_n(&life->state, &state, LIFE_OFF, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        } else {
            futex_wait(&life->state, LIFE_INIT, 100LL * NS_PER_MS);
        }
    }
    errno = saved;
    return state;
}

/* One line on the target's standard error, if that costs the target nothing: no SIGPIPE, no waiting for a full pipe. */
void say(const char *text)
{
    char line[256];
    int length = snprintf(line, sizeof line, "[msmemscope] Warn: process %d: %s\n", (int)getpid(), text);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec at_once = {0, 0};
    if (syscall(SYS_ppoll, &out, 1, &at_once, NULL, 0) != 1 || out.revents != POLLOUT)
        return;
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, &pipe_signal, &before);
    if (syscall(SYS_write, STDERR_FILENO, line, length) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        syscall(SYS_rt_sigtimedwait, &pipe_signal, NULL, &at_once, _NSIG / 8);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void lose(const char *why)
{
    int saved = errno;
    uint32_t ready = LIFE_READY;
    if (__atomic_compare_exchange_n(&agent.life->state, &ready, LIFE_LOST, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
        !agent.config.launched)
        say(why);
    errno = saved;
}

bool enter_slowly(void)
{
    uint32_t state = life_state();
    if (state == LIFE_INIT)
        state = settle();
    if (state == LIFE_READY) {
        know_thread();
        if (!__atomic_load_n(&agent.ring->closed, __ATOMIC_RELAXED))
            return true;
        lose("the collector takes no more events; the program goes on without recording");
    }
    if (life_state() == LIFE_LOST)
        __atomic_fetch_add(&agent.ring->skipped, 1, __ATOMIC_RELAXED);
    leave();
    return false;
}

enum ms_mode ms_enter(enum ms_interest interest)
{
    return enter_for(interest);
}

void ms_leave(void)
{
    leave();
}

void ms_suppress_begin(void)
{
    self.depth++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void ms_suppress_end(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.depth--;
}

uint32_t ms_generation(void)
{
    return agent.generation;
}
