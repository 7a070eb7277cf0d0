/*
 * test_kernel.c - the ACL and kernel hooks.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "msmemscope.h"
#include "stars.h"

static struct collector c;

/* A collector that wants kernels and operators; a test may change that before collector_serve. */
static void open_collector(void)
{
    collector_defaults(&c);
    collector_open(&c);
    c.config.level = 3;
    fake.profiling.frequency = 48000;
}

static void start(void)
{
    open_collector();
    c.config.level = 1;
    collector_serve(&c);
}

static struct ms_text *next_text(enum ms_type type)
{
    struct ms_text *r = (struct ms_text *)client_peek(collector_client(&c, 0));
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), type);
    CHECK_EQ(r->h.device, MS_DEVICE_NONE);
    return r;
}

static void next(enum ms_type type)
{
    struct ms_text *r = next_text(type);
    CHECK_EQ(r->h.flags, 0);
    CHECK_EQ(r->length, 0);
    client_done(collector_client(&c, 0));
}

CASE(acl_events)
{
    start();
    CHECK_EQ(aclInit(NULL), 0);
    fake.result = 100002;
    CHECK_EQ(aclInit("acl.json"), 100002);
    CHECK_EQ(aclrtSetDevice(3), 100002);
    CHECK_EQ(fake.device, 3);
    CHECK_EQ(aclFinalize(), 100002);
    CHECK_EQ(ms_stop(), 0);
    CHECK_EQ(aclFinalize(), 100002);
    CHECK_EQ(fake.calls, 5);
    next(MS_ACL_INIT);
    next(MS_ACL_INIT);
    next(MS_ACL_FINI);
    next(MS_STOP_TRACE);
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

CASE(no_acl)
{
    use_stack("none");
    start();
    CHECK_EQ(aclInit(NULL), 500000);
    CHECK_EQ(aclrtSetDevice(0), 500000);
    CHECK_EQ(aclFinalize(), 500000);
    CHECK_EQ(collector_count(&c), 0);
}

/* ------------------------------------------------------------------ launches */

#define P(n) ((void *)(0x1111111100000000 + (n)))

/* Every hook with arguments of all widths; returns what the i-th returns, and its name. */
static int launch(int i, const char **name)
{
    static const char *const names[] = {
        "rtKernelLaunch",
        "rtKernelLaunchWithHandleV2",
        "rtKernelLaunchWithFlagV2",
        "rtAicpuKernelLaunchExWithArgs",
        "rtLaunchKernelByFuncHandle",
        "rtLaunchKernelByFuncHandleV2",
        "aclrtLaunchKernelImpl",
        "aclrtLaunchKernelV2Impl",
        "aclrtLaunchKernelWithConfig",
        "aclrtLaunchKernelWithHostArgs",
    };
    *name = names[i];
    switch (i) {
    case 0:
        return rtKernelLaunch(P(1), 2, P(3), 4, P(5), P(6));
    case 1:
        return rtKernelLaunchWithHandleV2(P(1), 0x1111111100000002, 3, P(4), P(5), P(6), P(7));
    case 2:
        return rtKernelLaunchWithFlagV2(P(1), 2, P(3), P(4), P(5), 6, P(7));
    case 3:
        return rtAicpuKernelLaunchExWithArgs(1, P(2), 3, P(4), P(5), P(6), 7);
    case 4:
        return rtLaunchKernelByFuncHandle(P(1), 2, P(3), P(4));
    case 5:
        return rtLaunchKernelByFuncHandleV2(P(1), 2, P(3), P(4), P(5));
    case 6:
        return aclrtLaunchKernelImpl(P(1), 2, P(3), 0x1111111100000004, P(5));
    case 7:
        return aclrtLaunchKernelV2Impl(P(1), 2, P(3), 0x1111111100000004, P(5), P(6));
    case 8:
        return aclrtLaunchKernelWithConfig(P(1), 2, P(3), P(4), P(5), P(6));
    default:
        return aclrtLaunchKernelWithHostArgs(P(1), 2, P(3), P(4), P(5), 0x1111111100000006, P(7), 0x1111111100000008);
    }
}

enum { LAUNCHES = 10 };

static void check_launches(void)
{
    static const int counts[LAUNCHES] = {6, 7, 7, 7, 4, 5, 5, 6, 6, 8};
    for (int i = 0; i < LAUNCHES; i++) {
        const char *name;
        fake.result = 77 + i;
        errno = ERANGE;
        CHECK_EQ(launch(i, &name), 77 + i);
        CHECK_EQ(errno, EDOM);
        CHECK(strcmp(fake.launch.name, name) == 0);
        for (int k = 0; k < 8; k++)
            CHECK_EQ(fake.launch.arguments[k] & 0xffffffff, k < counts[i] ? k + 1 : 0);
        for (int k = 0; k < counts[i]; k++)
            CHECK(fake.launch.arguments[k] >> 32 == 0 || fake.launch.arguments[k] >> 32 == 0x11111111);
        CHECK_EQ(fake.launch.count, i + 1);
    }
}

/* Without a collector, at operator level, at kernel level, on the old stack: the same calls, the same results. */
CASE(falls_through_alone)
{
    check_launches();
}

CASE(falls_through_recorded)
{
    open_collector();
    collector_serve(&c);
    check_launches();
    CHECK_EQ(fake.profiling.started, 1);
}

CASE(falls_through_old_stack)
{
    use_stack("plain");
    open_collector();
    collector_serve(&c);
    check_launches();
}

CASE(nothing_there)
{
    use_stack("none");
    for (int i = 0; i < LAUNCHES; i++) {
        const char *name;
        CHECK_EQ(launch(i, &name), i < 6 ? 0x99 : 500003);
    }
}

CASE(not_wanted)
{
    static const struct {
        uint32_t events, level;
    } rows[] = {{7, 1}, {3, 2}, {3, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            open_collector();
            c.config.events = rows[i].events;
            c.config.level = rows[i].level;
            collector_serve(&c);
            CHECK_EQ(aclInit(NULL), 0);
            CHECK_EQ(aclrtSetDevice(0), 0);
            CHECK_EQ(rtKernelLaunch(P(1), 1, NULL, 0, NULL, NULL), 0);
            CHECK(!fake.profiling.callback[4] && !fake.profiling.commands && !fake.profiling.started);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

/* ------------------------------------------------------------------ names and launches */

typedef uint64_t hash_fn(const char *text, size_t length);
typedef int32_t compact_fn(uint32_t aging, const void *data, uint32_t length);
typedef int32_t api_fn(uint32_t aging, const void *data);

static uint64_t hash_of(const char *text)
{
    return ((hash_fn *)fake.profiling.callback[12])(text, strlen(text));
}

struct compact {
    uint16_t magic, level;
    uint32_t type, thread, bytes;
    uint64_t time;
    uint16_t device, stream;
    uint32_t task;
    uint64_t kind, name;
    uint64_t rest[2];
};

static void report(struct compact info, uint32_t length)
{
    CHECK_EQ(((compact_fn *)fake.profiling.callback[4])(1, &info, length), 0);
}

static void start_kernels(void)
{
    open_collector();
    c.config.level = 2;
    collector_serve(&c);
}

/* The next record that is not of the channel. */
static struct ms_head *next_of_host(void)
{
    struct client *client = collector_client(&c, 0);
    for (;;) {
        struct ms_head *h = client_peek(client);
        if (!h || record_type(h) != MS_KERNEL_CLOCK)
            return h;
        client_done(client);
    }
}

static void next_name(uint64_t id, const char *text, size_t length)
{
    struct ms_text *r = (struct ms_text *)next_of_host();
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), MS_KERNEL_NAME);
    CHECK_EQ(r->value, id);
    CHECK_EQ(r->length, length);
    CHECK(memcmp(r + 1, text, length) == 0);
    client_done(collector_client(&c, 0));
}

static void next_notice(const char *begin)
{
    struct ms_text *r = (struct ms_text *)next_of_host();
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), MS_KERNEL_NOTICE);
    if (strncmp((char *)(r + 1), begin, strlen(begin)) != 0)
        fprintf(stderr, "notice: %.*s\n", (int)r->length, (char *)(r + 1));
    CHECK(r->length >= strlen(begin) && strncmp((char *)(r + 1), begin, strlen(begin)) == 0);
    client_done(collector_client(&c, 0));
}

static void inside_launch(void)
{
    report((struct compact){.level = 5000, .type = 802, .device = 0, .stream = 7, .task = 0x20005, .name = 99}, 64);
}

CASE(launches)
{
    start_kernels();
    CHECK_EQ(aclInit(NULL), 0);
    CHECK(fake.profiling.callback[4] && fake.profiling.callback[9] && fake.profiling.callback[12]);
    CHECK_EQ(fake.profiling.commands, 0); /* no card yet */
    next(MS_ACL_INIT);

    CHECK_EQ(hash_of("abc"), 0x00014a26001998f2);
    CHECK_EQ(hash_of("abc"), 0x00014a26001998f2);
    CHECK_EQ(hash_of("\xff"), 0xffffffffffffffff); /* sign-extended */
    CHECK_EQ(((hash_fn *)fake.profiling.callback[12])(NULL, 3), 0);
    next_name(0x00014a26001998f2, "abc", 3);
    next_name(UINT64_MAX, "\xff", 1);
    char longer[3000];
    memset(longer, 'k', sizeof longer);
    longer[sizeof longer - 1] = 0;
    uint64_t id = hash_of(longer);
    next_name(id, longer, MS_TEXT_MAX);

    fake.profiling.on_launch = inside_launch;
    CHECK_EQ(aclrtLaunchKernelImpl(P(1), 1, NULL, 0, NULL), 0);
    struct ms_kernel_launch *r = (struct ms_kernel_launch *)next_of_host();
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), MS_KERNEL_LAUNCH);
    CHECK_EQ(record_tid(&r->h), gettid());
    CHECK_EQ(r->h.device, 0);
    CHECK_EQ(r->h.flags, 0);
    CHECK_EQ(r->stream, 7);
    CHECK_EQ(r->task, 0x20005);
    CHECK_EQ(r->name, 99);
    client_done(collector_client(&c, 0));

    /* What is not a kernel, not of the runtime, or not whole. */
    report((struct compact){.level = 5000, .type = 802, .name = 0}, 64);
    report((struct compact){.level = 5000, .type = 801, .name = 1}, 64);
    report((struct compact){.level = 10000, .type = 802, .name = 1}, 64);
    report((struct compact){.level = 5000, .type = 802, .name = 1}, 63);
    CHECK_EQ(((compact_fn *)fake.profiling.callback[4])(1, NULL, 64), 0);
    CHECK_EQ(((api_fn *)fake.profiling.callback[9])(1, NULL), 0);
    CHECK(next_of_host() == NULL);

    /* While paused: names, because launches will mean them; no launches. */
    CHECK_EQ(ms_stop(), 0);
    next(MS_STOP_TRACE);
    inside_launch();
    next_name(hash_of("later"), "later", 5);
    CHECK(next_of_host() == NULL);
}

CASE(the_command)
{
    start_kernels();
    CHECK_EQ(aclInit(NULL), 0);
    fake.device = 3;
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(fake.profiling.commands, 1);
    CHECK_EQ(fake.profiling.command_bytes, 5424);
    struct {
        uint64_t what, high;
        uint32_t count, devices[64], model, type;
    } command;
    memcpy(&command, fake.profiling.command, sizeof command);
    CHECK_EQ(command.what, 0x4000800);
    CHECK_EQ(command.count, 1);
    CHECK_EQ(command.devices[0], 3);
    CHECK_EQ(command.model, UINT32_MAX);
    CHECK_EQ(command.type, 1);
    CHECK_EQ(fake.profiling.started, 1U << 3);
    CHECK_EQ(fake.profiling.config_bytes, 36);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(fake.profiling.config[i], i == 0 || i == 6);
    fake.device = 5; /* another card: its own channel, once */
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(fake.profiling.commands, 2);
    CHECK_EQ(fake.profiling.started, 1U << 3 | 1U << 5);
}

CASE(card_not_wanted)
{
    open_collector();
    c.config.all_npu = 0;
    c.config.npu_slots = 2;
    collector_serve(&c);
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(fake.profiling.commands, 0);
    fake.device = 1;
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(fake.profiling.started, 2);
}

CASE(paused)
{
    open_collector();
    c.tracing = 0;
    collector_serve(&c);
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK(fake.profiling.callback[12] != NULL);
    CHECK_EQ(fake.profiling.commands, 0);
    CHECK_EQ(ms_start(), 0);
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(fake.profiling.started, 1);
}

/* ------------------------------------------------------------------ what is missing is said, once */

static void say_once(const char *notice)
{
    const char *name;
    for (int i = 0; i < LAUNCHES; i++)
        launch(i, &name);
    next_notice(notice);
    CHECK(next_of_host() == NULL);
}

CASE(profapi_refuses)
{
    start_kernels();
    fake.profiling.register_result = -1;
    CHECK_EQ(aclInit(NULL), 0); /* it may still change its mind */
    next(MS_ACL_INIT);
    say_once("kernels are not recorded: libprofapi.so refuses its callbacks");
}

CASE(old_profapi)
{
    use_stack("plain");
    start_kernels();
    say_once("kernels are not recorded: libprofapi.so is missing or too old");
}

CASE(msprof_at_work)
{
    start_kernels();
    setenv("PROFILER_SAMPLECONFIG", "{}", 1);
    say_once("kernels are not recorded: msprof is at work");
    CHECK(!fake.profiling.callback[4]);
}

CASE(mspti_at_work)
{
    start_kernels();
    setenv("LD_PRELOAD", "/usr/lib/libmspti.so", 1);
    say_once("kernels are not recorded: libmspti.so is at work");
}

CASE(command_refused)
{
    start_kernels();
    fake.profiling.command_result = -1;
    say_once("card 0: when kernels run is not recorded: the runtime does not tell about launches");
    CHECK_EQ(fake.profiling.started, 0);
}

CASE(channel_held)
{
    start_kernels();
    fake.profiling.start_result = -3;
    say_once("card 0: when kernels run is not recorded: the driver's channel is not to be had, perhaps another "
             "profiler holds it (-3)");
    inside_launch(); /* launches are told all the same */
    CHECK_EQ(record_type(next_of_host()), MS_KERNEL_LAUNCH);
}

CASE(no_card_time)
{
    start_kernels();
    fake.profiling.info_result = -1;
    say_once("card 0: when kernels run is not recorded: the driver does not tell the card's time");
}

/* ------------------------------------------------------------------ the channel */

static void put(unsigned char *record, uint32_t function, uint32_t sqe, uint16_t stream, uint16_t task, uint64_t count)
{
    uint32_t head = function | sqe << 10 | 0x6bd3U << 16;
    memcpy(record, &head, 4);
    memcpy(record + 4, &stream, 2);
    memcpy(record + 6, &task, 2);
    memcpy(record + 8, &count, 8);
}

CASE(records)
{
    static const struct {
        uint32_t function, sqe;
        uint16_t s, t;
        bool expanded;
        uint32_t stream, task;
    } rows[] = {
        {0, 0, 5, 9, false, 5, 9},
        {1, 0, 2047, 65535, false, 2047, 65535},
        {0, 0, 0x1000 | 0xe000 | 77, 0x1abc, false, 77, 0xfabc},
        {0, 0, 0x1000 | 77, 0xffff, false, 77, 0x1fff},
        {1, 0, 0x2000 | 0xabc, 0x7000 | 77, false, 77, 0x7abc},
        {1, 0, 0x2000 | 0xabc, 0xf000 | 0x800 | 77, false, 77, 0xfabc},
        {0, 0, 0xc000 | 5, 9, false, 5, 9},
        {0, 0, 0x7abc, 0xfedc, true, 0x7abc, 0xfedc},
        {1, 0, 0x8000 | 0x1234, 0x8000 | 0x7abc, true, 0x7abc, 0x9234},
        {1, 0, 0x8000 | 0x1234, 0x0005, true, 5, 0x1234},
        {1, 3, 0x8000 | 0x1234, 0x8005, true, 0x1234, 0x8005},
        {1, 4, 0x8000 | 0x1234, 0x8005, true, 0x1234, 0x8005},
    };
    unsigned char record[64] = {0};
    struct stars_event e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(record, rows[i].function, rows[i].sqe, rows[i].s, rows[i].t, 0x123456789abcdef0);
        CHECK(stars_parse(record, STARS_A2, rows[i].expanded, &e));
        CHECK_EQ(e.stream, rows[i].stream);
        CHECK_EQ(e.task, rows[i].task);
        CHECK_EQ(e.count, 0x123456789abcdef0);
        CHECK_EQ(e.end, rows[i].function == 1);
        CHECK(stars_parse(record, STARS_A5, rows[i].expanded, &e));
        CHECK_EQ(e.stream, MS_STREAM_NONE);
        CHECK_EQ(e.task, rows[i].s | (uint32_t)rows[i].t << 16);
    }
    for (uint32_t function = 2; function < 64; function++) {
        put(record, function, 0, 1, 1, 1);
        CHECK(!stars_parse(record, STARS_A2, false, &e) && !stars_parse(record, STARS_A5, false, &e));
    }
    CHECK_EQ(stars_layout(NULL), STARS_A2);
    CHECK_EQ(stars_layout("Ascend910B3"), STARS_A2);
    CHECK_EQ(stars_layout("Ascend910_9589"), STARS_A2);
    CHECK_EQ(stars_layout("Ascend950PR"), STARS_A5);
    CHECK_EQ(stars_layout("Ascend960"), STARS_A5);
}

/* What the driver has, handed out in pieces. */
static unsigned char feed[64 * 40];
static size_t feed_size, feed_piece, feed_at;
static int feed_end; /* result once everything is read */

static int read_feed(unsigned card, char *buffer, unsigned bytes)
{
    (void)card;
    size_t at = __atomic_load_n(&feed_at, __ATOMIC_ACQUIRE), n = __atomic_load_n(&feed_size, __ATOMIC_ACQUIRE) - at;
    if (n == 0)
        return feed_end;
    n = n < feed_piece ? n : feed_piece;
    CHECK(n <= bytes);
    memcpy(buffer, feed + at, n);
    __atomic_store_n(&feed_at, at + n, __ATOMIC_RELEASE);
    return (int)n;
}

static struct ms_head *next_of_channel(enum ms_type type)
{
    struct client *client = collector_client(&c, 0);
    for (int ms = 0; ms < 5000; usleep(1000), ms++)
        for (struct ms_head *h; (h = client_peek(client)); client_done(client))
            if (record_type(h) == type)
                return h;
    CHECK(!"a record of the channel");
    return NULL;
}

static struct ms_kernel_run *next_run(void)
{
    return (struct ms_kernel_run *)next_of_channel(MS_KERNEL_RUN);
}

static void check_feed(size_t layout, size_t piece)
{
    start_kernels();
    fake.profiling.soc = layout == 32 ? "Ascend950PR" : NULL;
    feed_size = layout * 40;
    feed_piece = piece;
    for (unsigned i = 0; i < 40; i++) /* every fourth is something else */
        put(feed + i * layout, i % 4 == 3 ? 20 : i % 2, 0, 7, (uint16_t)i, 1000 + i);
    fake.profiling.read = read_feed;
    CHECK_EQ(aclInit(NULL), 0);
    CHECK_EQ(aclrtLaunchKernelImpl(P(1), 1, NULL, 0, NULL), 0);
    CHECK_EQ(fake.profiling.config_bytes, layout == 32 ? 44 : 36);
    for (unsigned i = 0; i < 40; i++) {
        if (i % 4 == 3)
            continue;
        struct ms_kernel_run *r = next_run();
        CHECK_EQ(r->h.device, 0);
        CHECK_EQ(r->count, 1000 + i);
        CHECK_EQ(r->end, i % 2);
        CHECK_EQ(r->task, layout == 32 ? 7 | i << 16 : i);
        CHECK_EQ(r->stream, layout == 32 ? MS_STREAM_NONE : 7);
        client_done(collector_client(&c, 0));
    }
    CHECK(collector_client(&c, 0)->ring->settled != 0);
    CHECK_EQ(fake.profiling.stopped, 0);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(fake.profiling.stopped, 1);
    next_of_channel(MS_KERNEL_CLOSED);
}

CASE(channel_whole)
{
    check_feed(64, 64 * 40);
}

CASE(channel_pieces)
{
    check_feed(64, 37);
}

CASE(channel_a5)
{
    check_feed(32, 32 * 40);
}

CASE(channel_a5_pieces)
{
    check_feed(32, 1);
}

/* The clock comes first; a driver that speaks of MHz is understood, one that says nothing gets the usual 50. */
CASE(the_clock)
{
    static const long long rows[][2] = {{48000, 48000}, {50, 50000}, {1000000, 1000000}, {0, 50000}, {-1, 50000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct timespec before, after;
            start_kernels();
            fake.profiling.frequency = rows[i][0];
            clock_gettime(CLOCK_MONOTONIC, &before);
            CHECK_EQ(aclrtSetDevice(0), 0);
            clock_gettime(CLOCK_MONOTONIC, &after);
            struct ms_kernel_clock *r = (struct ms_kernel_clock *)client_peek(collector_client(&c, 0));
            CHECK(r != NULL);
            CHECK_EQ(record_type(&r->h), MS_KERNEL_CLOCK);
            CHECK_EQ(r->count, 1000);
            CHECK_EQ(r->frequency, rows[i][1]);
            CHECK(r->when >= before.tv_sec * 1000000000 + before.tv_nsec &&
                  r->when <= after.tv_sec * 1000000000 + after.tv_nsec);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

/* A device reset ends its channel; a length that cannot be is the end, too. */
static void check_end(int result)
{
    start_kernels();
    feed_piece = feed_size = 64;
    put(feed, 0, 0, 1, 2, 3);
    feed_end = result;
    fake.profiling.read = read_feed;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(next_run()->task, 2);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(fake.profiling.stopped, 0);
    CHECK_EQ(aclrtSetDevice(0), 0); /* begins anew */
    CHECK_EQ(fake.profiling.commands, 2);
}

CASE(channel_ends)
{
    check_end(-4);
}

CASE(channel_lies)
{
    check_end(1 << 30);
}

/* What the driver still has when a pause or the end comes is published; what it tells later is not. */
CASE(rest_after_pause)
{
    start_kernels();
    feed_piece = 64;
    fake.profiling.read = read_feed;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(aclrtSetDevice(0), 0);
    put(feed, 0, 0, 1, 2, 3);
    put(feed + 64, 1, 0, 1, 2, 4);
    __atomic_store_n(&feed_size, 128, __ATOMIC_RELEASE);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(next_run()->count, 3);
    client_done(collector_client(&c, 0));
    CHECK_EQ(next_run()->count, 4);
}

static uint32_t reading;

static int read_nothing(unsigned card, char *buffer, unsigned bytes)
{
    (void)card, (void)buffer, (void)bytes;
    __atomic_store_n(&reading, 1, __ATOMIC_RELEASE);
    return 0;
}

/* A forked child does not stop its parent's channel, and opens its own with its own launches. */
CASE(forked)
{
    start_kernels();
    fake.profiling.read = read_nothing;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(fake.profiling.commands, 1);
    /* A thread that begins holds locks of the address sanitizer, which the child would wait for. */
    for (int ms = 0; ms < 5000 && !__atomic_load_n(&reading, __ATOMIC_ACQUIRE); ms++)
        usleep(1000);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(aclFinalize(), 0);
        CHECK_EQ(fake.profiling.stopped, 0);
        CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
        CHECK_EQ(fake.profiling.commands, 2);
        CHECK_EQ(aclFinalize(), 0);
        CHECK_EQ(fake.profiling.stopped, 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_EQ(fake.profiling.stopped, 0);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(fake.profiling.stopped, 1);
}

/* Threads whose first launch is the same moment: one opens the channel, and no launch comes before it is open. */
static void *first_launch(void *unused)
{
    (void)unused;
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
    CHECK_EQ(__atomic_load_n(&fake.profiling.started, __ATOMIC_SEQ_CST), 1);
    return NULL;
}

CASE(threads)
{
    pthread_t threads[8];
    fake.launch.only_count = true;
    start_kernels();
    CHECK_EQ(aclInit(NULL), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, first_launch, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(fake.launch.count, 8);
    CHECK_EQ(fake.profiling.commands, 1);
}

static int hang(unsigned card, char *buffer, unsigned bytes)
{
    (void)card, (void)buffer, (void)bytes;
    sleep(1000);
    return 0;
}

/* A driver that never answers does not keep the process from ending. */
CASE(driver_hangs)
{
    start_kernels();
    fake.profiling.read = hang;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(rtLaunchKernelByFuncHandle(P(1), 1, NULL, NULL), 0);
}

static int read_slowly(unsigned card, char *buffer, unsigned bytes)
{
    usleep(100000);
    return read_feed(card, buffer, bytes);
}

/* One that takes its time is waited for: all of it together may take longer than a call. */
CASE(driver_is_slow)
{
    start_kernels();
    feed_piece = 64;
    feed_size = 64 * 10;
    for (unsigned i = 0; i < 10; i++)
        put(feed + (size_t)i * 64, i % 2, 0, 7, (uint16_t)i, 1000 + i);
    fake.profiling.read = read_slowly;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(aclFinalize(), 0);
    CHECK_EQ(feed_at, feed_size);
    CHECK_EQ(fake.profiling.stopped, 1);
    for (unsigned i = 0; i < 10; i++, client_done(collector_client(&c, 0)))
        CHECK_EQ(next_run()->count, 1000 + i);
}

enum { MUCH = 40 }; /* readings, together ten rings */

static int read_much(unsigned card, char *buffer, unsigned bytes)
{
    (void)card;
    static int times;
    if (times == MUCH)
        return 0;
    times++;
    memset(buffer, 0, bytes); /* beginnings of tasks */
    return (int)(bytes / 64 * 64);
}

/* Takes nothing for longer than a hanging driver is waited for. Counts what comes before the end of ACL. */
static void *read_late(void *runs)
{
    struct client *client = collector_client(&c, 0);
    for (int i = 0; i < 70; i++, usleep(10000))
        client_turn(client);
    for (bool over = false; !over; client_turn(client), usleep(1000))
        for (struct ms_head *h; !over && (h = client_peek(client)); client_done(client)) {
            *(int *)runs += record_type(h) == MS_KERNEL_RUN;
            over = record_type(h) == MS_ACL_FINI;
        }
    return NULL;
}

/* The ring is full: the reader waits for room, and is waited for. */
CASE(collector_is_slow)
{
    pthread_t late;
    int runs = 0;
    start_kernels();
    fake.profiling.read = read_much;
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(pthread_create(&late, NULL, read_late, &runs), 0);
    CHECK_EQ(aclFinalize(), 0);
    pthread_join(late, NULL);
    CHECK_EQ(runs, MUCH * (256 << 10) / 64);
}

int test_kernel(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acl_events),
        cmocka_unit_test(no_acl),
        cmocka_unit_test(falls_through_alone),
        cmocka_unit_test(falls_through_recorded),
        cmocka_unit_test(falls_through_old_stack),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(not_wanted),
        cmocka_unit_test(launches),
        cmocka_unit_test(the_command),
        cmocka_unit_test(card_not_wanted),
        cmocka_unit_test(paused),
        cmocka_unit_test(profapi_refuses),
        cmocka_unit_test(old_profapi),
        cmocka_unit_test(msprof_at_work),
        cmocka_unit_test(mspti_at_work),
        cmocka_unit_test(command_refused),
        cmocka_unit_test(channel_held),
        cmocka_unit_test(no_card_time),
        cmocka_unit_test(records),
        cmocka_unit_test(channel_whole),
        cmocka_unit_test(channel_pieces),
        cmocka_unit_test(channel_a5),
        cmocka_unit_test(channel_a5_pieces),
        cmocka_unit_test(the_clock),
        cmocka_unit_test(channel_ends),
        cmocka_unit_test(channel_lies),
        cmocka_unit_test(rest_after_pause),
        cmocka_unit_test(forked),
        cmocka_unit_test(threads),
        cmocka_unit_test(driver_hangs),
        cmocka_unit_test(driver_is_slow),
        cmocka_unit_test(collector_is_slow),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
