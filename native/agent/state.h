/*
 * state.h - what the agent's own files share.
 */
#ifndef MSMEMSCOPE_AGENT_STATE_H
#define MSMEMSCOPE_AGENT_STATE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

enum { NS_PER_MS = 1000000 };

/* How long to wait for what; the tests are built with less patience. */
#ifndef HANDSHAKE_MS
#define HANDSHAKE_MS 10000 /* for the collector's welcome */
#define SILENCE_MS 100     /* without a heartbeat, before asking whether the collector lives */
#define PATIENCE_MS 30000  /* without a heartbeat, before giving up a collector that lives but does not answer */
#endif

enum life_state {
    LIFE_INIT, /* no event yet, or one thread shakes hands and others wait */
    LIFE_READY,
    LIFE_OFF,  /* nobody collects for us */
    LIFE_LOST, /* somebody did */
};

/*
 * The part of the state that a forked child must not inherit. It lives on a page that the kernel hands to a child as
 * zeros (MADV_WIPEONFORK), so that a child is LIFE_INIT however it was forked.
 */
struct life {
    uint32_t state;     /* enum life_state; futex */
    uint32_t connector; /* thread id of who shakes hands, or did; 0: nobody yet */
    uint32_t steering;  /* futex: 1 while a thread is in ms_start or ms_stop */
    int64_t next_probe; /* when the collector may be asked again whether it lives */
    uint64_t steps;
};

struct agent {
    struct life *life; /* NULL before the first event */
    struct ms_ring *ring;
    unsigned char *data;           /* mapped twice in a row */
    uint64_t size;                 /* of the data, a power of two */
    uint32_t generation;           /* counts connections; a thread of an older one has a stale tid */
    uint8_t mode[MS_INTERESTS][2]; /* enum ms_mode by interest and tracing */
    struct ms_config config;
    /* What a child by fork goes on with. */
    uint8_t inherited;        /* enum ms_inherited */
    uint32_t options_length;  /* bytes */
    char options[MS_ASK_MAX]; /* as given to ms_config last */
};

struct thread {
    uint32_t depth; /* > 0: hooks on this thread are silent */
    uint32_t generation;
    uint32_t tid;
    uint32_t mode; /* of the event that is being recorded */
    uint64_t head; /* ring.h: of the ring, when this thread read it last */
    /* pytrace.c */
    uint32_t trace_epoch;
    uint16_t device; /* the current one, some calls ago */
    uint16_t device_age;
    bool atb_kernel; /* watch.c: inside of a kernel of ATB */
};

extern struct agent agent;
extern __thread struct thread self __attribute__((tls_model("initial-exec")));

/* agent.c */
bool enter_slowly(void); /* the rest of enter(), for when not all is well */
void lose(const char *why);
void say(const char *text); /* to the user, on the target's standard error; changes errno */

/* connect.c */
bool connect_collector(void);
bool collector_lives(void);
int ask_collector(enum ms_ask what, const char *text, size_t length); /* a connection with the question sent, or -1 */
void take_options(const struct ms_config *config, const char *options, size_t length);

/* spawn.c */
bool start_collector(const char *path, int listener); /* a collector in a process of its own, on a listening socket */

/* trace.c */
size_t text_length(
    const char *text); /* of what a record takes of it: at most MS_TEXT_MAX bytes, whole characters; NULL is empty */

/* device.c */
void read_visible_devices(void);

/* abi.md 2.6; cards from 32 on have no bit. */
static inline bool device_wanted(uint16_t device)
{
    if (device == MS_DEVICE_CPU)
        return agent.config.cpu;
    return agent.config.all_npu || device == MS_DEVICE_NONE ||
           (device < 32 && (agent.config.npu_slots >> device & 1) != 0);
}

/* The thread id is asked for once per thread and connection. */
static inline void know_thread(void)
{
    if (__builtin_expect(self.generation != agent.generation, 0)) {
        self.tid = (uint32_t)syscall(SYS_gettid);
        self.head = 0;
        self.generation = agent.generation;
    }
}

static inline uint32_t life_state(void)
{
    struct life *life = __atomic_load_n(&agent.life, __ATOMIC_ACQUIRE);
    return life ? __atomic_load_n(&life->state, __ATOMIC_ACQUIRE) : LIFE_INIT;
}

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * What an event of the Python trace takes, beside ring.h. Inline: those events are the most frequent by far, and the calls
 * between the agent's files were a fifth to a third of what they cost.
 */

static inline void leave(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.depth = 0;
}

/* ms_enter without a look at what is wanted: true when connected; then ms_leave must follow. */
static inline bool enter(void)
{
    if (self.depth)
        return false;
    self.depth = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(life_state() == LIFE_READY, 1)) {
        know_thread();
        if (__builtin_expect(!__atomic_load_n(&agent.ring->closed, __ATOMIC_RELAXED), 1))
            return true;
    }
    return enter_slowly();
}

static inline enum ms_mode enter_for(enum ms_interest interest)
{
    if (!enter())
        return MS_SKIP;
    self.mode = agent.mode[interest][__atomic_load_n(&agent.ring->tracing, __ATOMIC_ACQUIRE) != 0];
    if (self.mode == MS_SKIP)
        leave();
    return (enum ms_mode)self.mode;
}

/*
 * System calls go through syscall(): the libc wrappers are cancellation points, which the hooked functions are not,
 * and may be interposed by somebody else's preload. Callers keep errno.
 */
static inline void futex_wait(uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

static inline void futex_wake_all(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A record of this thread that is wanted while tracing and has nothing but a name. Returns what the C API does: 0, or -1 when nobody collects. */
int put_named(enum ms_type type, const char *name);

#endif
