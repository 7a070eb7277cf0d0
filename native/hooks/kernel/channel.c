/*
 * channel.c - the card's side of kernels: the driver's STARS channel says when tasks begin and end (abi.md 4.2).
 *
 * Somebody has to fetch that from the driver, and only this process can, so here is the one thread of ours in a target. It begins
 * with the first launch of a traced kernel, copies what the driver has into the ring, sleeps, and ends with aclFinalize or
 * the process. Which launch a task is, and when it was in host time, the collector finds out.
 */
#include "kernel.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "stars.h"

static const char driver[] = "libascend_hal.so";

enum { CHANNEL_STARS_SOC_LOG = 50, CHANNEL_TYPE_TS = 0, SAMPLE_PERIOD = 20 };
enum { MODULE_SYSTEM = 0, INFO_SYS_COUNT = 13, INFO_OSC_FREQUENCY = 25, FALLBACK_KHZ = 50000 };
enum { CARDS = 64, BUFFER_BYTES = 256 << 10, READS_MOST = 64 };
enum {
    NS_PER_MS = 1000000,
    IDLE_LEAST_MS = 1, /* after much */
    IDLE_SOME_MS = 4,  /* after little */
    IDLE_MOST_MS = 8,  /* after nothing */
    MUCH_BYTES = 16 << 10,
    CLOCK_LEAST_MS = 20,
    CLOCK_MOST_MS = 1000,
    TURN_MS = 500,  /* for what may never end */
    END_MS = 30000, /* for the reader's last turn, as long as the driver answers */
};

struct start_parameters {
    int32_t type;
    uint32_t sample_period;
    uint32_t real_time;
    void *data;
    uint32_t data_bytes;
};

static struct {
    int (*start)(unsigned card, unsigned channel, struct start_parameters *parameters);
    int (*read)(unsigned card, unsigned channel, char *buffer, unsigned bytes);
    int (*stop)(unsigned card, unsigned channel);
    int (*info)(uint32_t card, int32_t module, int32_t info, int64_t *value);
    int (*flush)(unsigned card, unsigned channel, unsigned *bytes); /* newer drivers */
} call;

static enum stars_layout layout;

/* What is known of a card. The reader has `rest`, `live` and what follows for itself. */
static struct card {
    uint32_t settled; /* the generation in which it was decided whether it is listened to */
    uint8_t reading;
    bool live;          /* was tracing when last read empty: what comes now may belong to it */
    uint8_t rest_bytes; /* the beginning of a record whose end was not there yet */
    unsigned char rest[STARS_A2];
    uint64_t frequency; /* kHz */
    int64_t clock_due;  /* CLOCK_MONOTONIC ns */
    int64_t clock_ms;   /* until then; grows */
    int64_t narrowest;  /* ns between the two looks of the best reading; 0: none yet */
} cards[CARDS];

static struct {
    uint32_t opener;     /* futex-free lock of the slow path: the generation of who holds it */
    uint32_t generation; /* atomic: of the process that has the reader, 0: none */
    uint32_t stop;       /* futex */
    uint32_t done;       /* futex */
    uint32_t over;       /* the generation of a process that is ending */
    /* CLOCK_MONOTONIC ns: since when the reader is in the driver, which may never answer; 0: it is not */
    int64_t in_driver;
} reader;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_on(uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, &t, NULL, 0);
}

static void set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

/* ------------------------------------------------------------------ reading */

static void into_driver(void)
{
    ms_suppress_begin();
    __atomic_store_n(&reader.in_driver, now_ns(), __ATOMIC_RELAXED);
}

static void out_of_driver(void)
{
    __atomic_store_n(&reader.in_driver, 0, __ATOMIC_RELAXED);
    ms_suppress_end();
}

/*
 * Reads the card's counter between two looks at ours; the narrowest of a few counts, of more where all are wide for this card, as on a
 * busy machine. False: the driver does not tell.
 */
static bool read_clock(unsigned card, struct card *c, int64_t *when, uint64_t *count)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 4 || (i < 32 && best / 2 > c->narrowest); i++) {
        int64_t value = 0, before = now_ns();
        ms_suppress_begin();
        int failed = call.info(card, MODULE_SYSTEM, INFO_SYS_COUNT, &value);
        ms_suppress_end();
        int64_t width = now_ns() - before;
        if (!failed && width < best) {
            best = width;
            *when = before + width / 2;
            *count = (uint64_t)value;
        }
    }
    if (c->narrowest == 0 || best < c->narrowest)
        c->narrowest = best;
    c->clock_due = now_ns() + c->clock_ms * NS_PER_MS;
    c->clock_ms = c->clock_ms * 2 < CLOCK_MOST_MS ? c->clock_ms * 2 : CLOCK_MOST_MS;
    return best != INT64_MAX;
}

/* Between ms_enter and ms_leave. */
static void put_clock(unsigned card, const struct card *c, int64_t when, uint64_t count)
{
    struct ms_kernel_clock *r = ms_reserve(MS_KERNEL_CLOCK, MS_HOST, (uint16_t)card, sizeof *r);
    if (!r)
        return;
    r->when = when;
    r->count = count;
    r->frequency = c->frequency;
    ms_publish(&r->h);
}

/* Between ms_enter and ms_leave. Publishes whole records, keeps the rest. */
static void put_records(unsigned card, struct card *c, const unsigned char *data, size_t bytes, bool wanted)
{
    const bool expanded = names_expanded();
    for (; bytes >= layout; data += layout, bytes -= layout) {
        struct stars_event e;
        if (!wanted || !stars_parse(data, layout, expanded, &e))
            continue;
        struct ms_kernel_run *r = ms_reserve(MS_KERNEL_RUN, MS_HOST, (uint16_t)card, sizeof *r);
        if (!r)
            continue;
        r->count = e.count;
        r->stream = e.stream;
        r->task = e.task;
        r->end = e.end;
        ms_publish(&r->h);
    }
    memcpy(c->rest, data, bytes);
    c->rest_bytes = (uint8_t)bytes;
}

/* Fetches what the driver has of a card. Returns how many bytes that was; `*lost`: nobody records us any more. */
static size_t read_card(unsigned card, struct card *c, unsigned char *buffer, bool *lost)
{
    size_t all = 0;
    for (int i = 0; i < READS_MOST; i++) {
        memcpy(buffer, c->rest, c->rest_bytes);
        into_driver();
        int bytes =
            call.read(card, CHANNEL_STARS_SOC_LOG, (char *)buffer + c->rest_bytes, BUFFER_BYTES - c->rest_bytes);
        out_of_driver();
        enum ms_mode mode = ms_enter(MS_KERNEL);
        if (mode == MS_SKIP) {
            *lost = true;
            return all;
        }
        if (bytes > 0 && (size_t)bytes <= BUFFER_BYTES - (size_t)c->rest_bytes) {
            all += (size_t)bytes;
            c->live |= mode == MS_NORMAL;
            put_records(card, c, buffer, (size_t)bytes + c->rest_bytes, c->live);
        } else {
            c->live = mode == MS_NORMAL;
            if (bytes != 0) { /* stopped, the device was reset, or the driver is out of its mind */
                if (!__atomic_load_n(&reader.stop, __ATOMIC_RELAXED))
                    ms_log(MS_LOG_INFO, "card %u: the driver's kernel channel has ended (%d)", card, bytes);
                __atomic_store_n(&c->reading, 0, __ATOMIC_RELEASE);
            }
        }
        int64_t when;
        uint64_t count;
        if (now_ns() >= c->clock_due) {
            into_driver();
            bool told = read_clock(card, c, &when, &count);
            out_of_driver();
            if (told)
                put_clock(card, c, when, count);
        }
        ms_leave();
        if (bytes <= 0)
            break;
    }
    return all;
}

static size_t read_all(unsigned char *buffer, bool *lost)
{
    size_t all = 0;
    for (unsigned card = 0; card < CARDS && !*lost; card++)
        if (__atomic_load_n(&cards[card].reading, __ATOMIC_ACQUIRE))
            all += read_card(card, &cards[card], buffer, lost);
    return all;
}

/* Stops the channels; what the driver still has then is fetched, too. */
static void stop_all(unsigned char *buffer, bool lost)
{
    for (unsigned card = 0; card < CARDS; card++) {
        struct card *c = &cards[card];
        if (!__atomic_load_n(&c->reading, __ATOMIC_ACQUIRE))
            continue;
        unsigned bytes;
        into_driver();
        if (call.flush)
            call.flush(card, CHANNEL_STARS_SOC_LOG, &bytes);
        out_of_driver();
        if (!lost)
            read_card(card, c, buffer, &lost);
        into_driver();
        call.stop(card, CHANNEL_STARS_SOC_LOG);
        out_of_driver();
        if (!lost && __atomic_load_n(&c->reading, __ATOMIC_ACQUIRE))
            read_card(card, c, buffer, &lost);
        __atomic_store_n(&c->reading, 0, __ATOMIC_RELEASE);
    }
}

static void *read_channels(void *unused)
{
    (void)unused;
    static unsigned char buffer[BUFFER_BYTES]; /* there is one reader */
    bool lost = false;
    prctl(PR_SET_NAME, "msmemscope");
    for (int64_t idle = IDLE_LEAST_MS; !lost && !__atomic_load_n(&reader.stop, __ATOMIC_ACQUIRE);) {
        int64_t began = now_ns();
        size_t bytes = read_all(buffer, &lost);
        ms_settled(began);
        const int64_t most = bytes > MUCH_BYTES ? IDLE_LEAST_MS : bytes > 0 ? IDLE_SOME_MS : IDLE_MOST_MS;
        idle = idle * 2 < most ? idle * 2 : most;
        wait_on(&reader.stop, 0, idle * NS_PER_MS);
    }
    stop_all(buffer, lost);
    if (ms_enter(MS_KERNEL) != MS_SKIP) {
        ms_put_text(MS_KERNEL_CLOSED, MS_DEVICE_NONE, 0, NULL);
        ms_leave();
    }
    if (lost) { /* the options of a Python program may want kernels again */
        __atomic_store_n(&reader.generation, 0, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < CARDS; i++)
            __atomic_store_n(&cards[i].settled, 0, __ATOMIC_RELEASE);
    }
    set(&reader.done, 1);
    return NULL;
}

/* ------------------------------------------------------------------ opening */

static void at_exit(void)
{
    if (ms_enter(MS_KERNEL) == MS_SKIP)
        return;
    __atomic_store_n(&reader.over, ms_generation(), __ATOMIC_RELAXED);
    channel_close_all();
    ms_leave();
}

/* The thread has no signal of the target's to handle. pthread_create is looked up: up to glibc 2.33 it is in libpthread.so.0. */
static bool start_reader(void)
{
    static void *slot;
    typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create_fn *create = (create_fn *)ms_real(&slot, NULL, NULL, "pthread_create", "libpthread.so.0");
    pthread_attr_t attributes;
    pthread_t thread;
    if (!create || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    uint64_t all = ~0ULL, before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    reader.stop = reader.done = 0;
    bool started = create(&thread, &attributes, read_channels, NULL) == 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof all);
    pthread_attr_destroy(&attributes);
    return started;
}

static void *driver_function(void **slot, const char *name)
{
    return ms_real(slot, NULL, NULL, name, driver);
}

/* Once: the reader reads what is found here. */
static bool find_driver(void)
{
    if (call.start && call.read && call.stop && call.info)
        return true;
    static void *start, *read, *stop, *info, *flush, *soc;
    call.start = (__typeof__(call.start))driver_function(&start, "prof_drv_start");
    call.read = (__typeof__(call.read))driver_function(&read, "prof_channel_read");
    call.stop = (__typeof__(call.stop))driver_function(&stop, "prof_stop");
    call.info = (__typeof__(call.info))driver_function(&info, "halGetDeviceInfo");
    call.flush = (__typeof__(call.flush))driver_function(&flush, "halProfDataFlush");
    const char *(*soc_name)(void) =
        (const char *(*)(void))ms_real(&soc, NULL, NULL, "aclrtGetSocName", "libascendcl.so");
    layout = stars_layout(soc_name ? soc_name() : NULL);
    return call.start && call.read && call.stop && call.info;
}

static void notice(uint16_t card, const char *why, int code)
{
    char text[200];
    if (code)
        snprintf(text, sizeof text, "card %u: when kernels run is not recorded: %s (%d)", card, why, code);
    else
        snprintf(text, sizeof text, "card %u: when kernels run is not recorded: %s", card, why);
    ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0, text);
}

/* Depth of ms_enter is 1: the calls are silent. */
static void open_channel(uint16_t card)
{
    struct card *c = &cards[card];
    if (!names_listen(true))
        return;
    if (!names_switch(card, true)) {
        notice(card, "the runtime does not tell about launches", 0);
        return;
    }
    if (!find_driver()) {
        notice(card, "the driver has no profiling channel", 0);
        return;
    }
    int64_t frequency = 0, when;
    uint64_t count;
    if (call.info(card, MODULE_SYSTEM, INFO_OSC_FREQUENCY, &frequency) || frequency <= 0)
        frequency = FALLBACK_KHZ;
    c->frequency = (uint64_t)(frequency < 1000 ? frequency * 1000 : frequency); /* some drivers may say MHz */
    c->clock_ms = CLOCK_LEAST_MS;
    if (!read_clock(card, c, &when, &count)) {
        notice(card, "the driver does not tell the card's time", 0);
        return;
    }
    uint32_t what[11] = {[0] = 1, [6] = 1}; /* tasks, and the threads of tasks */
    struct start_parameters parameters = {CHANNEL_TYPE_TS, SAMPLE_PERIOD, 1, what,
                                          layout == STARS_A5 ? sizeof what : 9 * sizeof *what};
    int failed = call.start(card, CHANNEL_STARS_SOC_LOG, &parameters);
    if (failed) {
        notice(card, "the driver's channel is not to be had, perhaps another profiler holds it", failed);
        return;
    }
    put_clock(card, c, when, count);
    c->live = true;
    c->rest_bytes = 0;
    __atomic_store_n(&c->reading, 1, __ATOMIC_RELEASE);
    if (__atomic_load_n(&reader.generation, __ATOMIC_RELAXED) == ms_generation())
        return;
    static bool exit_watched;
    ms_settled(now_ns());
    if (!exit_watched)
        exit_watched = atexit(at_exit) == 0;
    if (start_reader()) {
        __atomic_store_n(&reader.generation, ms_generation(), __ATOMIC_RELAXED);
        return;
    }
    ms_put_text(MS_KERNEL_CLOSED, MS_DEVICE_NONE, 0, NULL);
    __atomic_store_n(&c->reading, 0, __ATOMIC_RELEASE);
    call.stop(card, CHANNEL_STARS_SOC_LOG);
    notice(card, "there is no thread to be had", errno);
}

/* One thread at a time; who waits for more than a moment goes without. A holder of another generation was left behind by a fork. */
static bool take_turn(uint32_t generation)
{
    for (int64_t deadline = now_ns() + (int64_t)TURN_MS * NS_PER_MS; now_ns() < deadline;) {
        uint32_t holder = __atomic_load_n(&reader.opener, __ATOMIC_RELAXED);
        if (holder == generation)
            wait_on(&reader.opener, holder, NS_PER_MS);
        else if (__atomic_compare_exchange_n(&reader.opener, &holder, generation, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

/* In a forked child, what the parent has left in the table is not ours. */
static void forget_parent(uint32_t generation)
{
    static uint32_t mine;
    if (mine == generation)
        return;
    for (unsigned i = 0; i < CARDS; i++)
        cards[i].reading = 0;
    __atomic_store_n(&reader.generation, 0, __ATOMIC_RELAXED);
    mine = generation;
}

void channel_open(uint16_t card)
{
    const uint32_t generation = ms_generation();
    if (card >= CARDS || __atomic_load_n(&cards[card].settled, __ATOMIC_ACQUIRE) == generation)
        return;
    if (__atomic_load_n(&reader.over, __ATOMIC_RELAXED) == generation || !ms_device_wanted(card))
        return;
    bool mine = take_turn(generation);
    if (mine && __atomic_load_n(&cards[card].settled, __ATOMIC_RELAXED) != generation) {
        forget_parent(generation);
        open_channel(card);
    }
    __atomic_store_n(&cards[card].settled, generation, __ATOMIC_RELEASE);
    if (mine)
        set(&reader.opener, 0);
}

/*
 * Waits for the reader's last turn; false: it hangs in the driver. What it waits for otherwise is its turn on a busy machine, or room in
 * the ring, as the program's own threads do: what it has not recorded by then is lost.
 */
static bool reader_ends(void)
{
    const int64_t began = now_ns();
    while (!__atomic_load_n(&reader.done, __ATOMIC_ACQUIRE)) {
        int64_t now = now_ns(), since = __atomic_load_n(&reader.in_driver, __ATOMIC_RELAXED);
        if ((since && now - (since > began ? since : began) > (int64_t)TURN_MS * NS_PER_MS) ||
            now - began > (int64_t)END_MS * NS_PER_MS)
            return false;
        wait_on(&reader.done, 0, NS_PER_MS);
    }
    return true;
}

void channel_close_all(void)
{
    const uint32_t generation = ms_generation();
    if (!take_turn(generation))
        return;
    if (__atomic_load_n(&reader.generation, __ATOMIC_RELAXED) == generation) {
        set(&reader.stop, 1);
        if (reader_ends()) { /* otherwise there is none to be had a second time */
            __atomic_store_n(&reader.generation, 0, __ATOMIC_RELAXED);
            for (unsigned i = 0; i < CARDS; i++)
                __atomic_store_n(&cards[i].settled, 0, __ATOMIC_RELEASE);
        }
    }
    set(&reader.opener, 0);
}
