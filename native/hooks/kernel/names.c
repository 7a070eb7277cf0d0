/*
 * names.c - the host side of kernels: libprofapi.so tells us who launches what (abi.md 4.1).
 *
 * A kernel's name comes once, when the runtime asks for its id, and goes to the collector, which keeps the table. A launch then
 * is a record of fixed size. Only the newest callback of a kind is called, so where another profiler is at work, we stay away.
 */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "agent.h"

static const char library[] = "libprofapi.so";

typedef int32_t register_fn(int32_t type, void *callback, uint32_t length);
typedef int32_t command_fn(void *command, uint32_t length);

enum { CALLBACK_COMPACT = 4, CALLBACK_API_C = 9, CALLBACK_GET_HASH_ID_C = 12 };
enum { LEVEL_RUNTIME = 5000, TYPE_TASK_TRACK = 802, TYPE_STREAM_EXPAND = 804 };
enum { TASK_TIME = 0x800, RUNTIME_TRACE = 0x4000000, COMMAND_START = 1, COMMAND_STOP = 2 };

struct task_track {
    uint16_t device, stream;
    uint32_t task; /* times that the id has wrapped << 16 | id */
    uint64_t type;
    uint64_t name; /* 0: not a kernel */
};

struct compact_info {
    uint16_t magic, level;
    uint32_t type, thread, length;
    uint64_t time;
    union {
        uint8_t bytes[40];
        struct task_track track;
    } data;
};
_Static_assert(sizeof(struct compact_info) == 64, "abi.md 4.1");

struct command {
    uint64_t what, what_high;
    uint32_t device_count;
    uint32_t devices[64];
    uint32_t model;
    uint32_t type;
    uint32_t cache_flag;
    uint32_t path_length, storage_limit, data_length;
    char path[1024];
    char data[4096];
};
_Static_assert(offsetof(struct command, model) == 276 && offsetof(struct command, path_length) == 288, "abi.md 4.1");

/* Of the generation it is said for: whether we listen. */
static struct {
    uint32_t generation;
    bool listening;
} state;

static uint8_t expanded;

/* Ids whose names the collector has; the place is the id's remainder. Forgetting one only costs a record. */
enum { TOLD = 1024 };
static uint64_t told[TOLD];

uint64_t names_id(const char *text, size_t length)
{
    uint32_t high = 0, low = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t c = (uint32_t)(signed char)text[i];
        high = high * 29 + c;
        low = low * 131 + c;
    }
    return (uint64_t)high << 32 | low;
}

static uint64_t on_hash_id(const char *text, size_t length)
{
    if (!text)
        return 0;
    uint64_t id = names_id(text, length), mine;
    if (ms_enter(MS_KERNEL) == MS_SKIP)
        return id;
    uint64_t *place = &told[id % TOLD];
    mine = id ^ (uint64_t)ms_generation() << 32; /* a forked child's collector has heard nothing yet */
    if (__atomic_load_n(place, __ATOMIC_RELAXED) != mine) {
        char name[MS_TEXT_MAX + 2];
        size_t kept = length < sizeof name ? length : sizeof name - 1;
        memcpy(name, text, kept);
        name[kept] = 0;
        ms_put_text(MS_KERNEL_NAME, MS_DEVICE_NONE, id, name);
        __atomic_store_n(place, mine, __ATOMIC_RELAXED);
    }
    ms_leave();
    return id;
}

/*
 * `reporter`: who called us. The stack begins with who called the launch function; where we have no hook for that, with who
 * called the library that reports.
 */
static void put_launch(const struct task_track *t, const struct ms_regs *reporter)
{
    const bool hooked = kernel_launch.depth > 0;
    enum ms_mode mode = ms_enter(MS_KERNEL);
    if (mode == MS_NORMAL) {
        struct ms_kernel_launch *r =
            ms_reserve_from(MS_KERNEL_LAUNCH, MS_HOST, t->device, sizeof *r, hooked ? &kernel_launch.caller : reporter,
                            hooked ? MS_NOTHING : MS_ITS_FRAMES);
        if (r) {
            r->name = t->name;
            r->stream = t->stream;
            r->task = t->task;
            ms_publish(&r->h);
        }
        if (hooked && !kernel_launch.name) {
            kernel_launch.device = t->device;
            kernel_launch.name = t->name;
        }
    }
    if (mode != MS_SKIP)
        ms_leave();
}

/* On the launching thread, inside of the real launch. */
static int32_t on_compact(uint32_t aging, const void *data, uint32_t length)
{
    (void)aging;
    struct ms_regs reporter;
    MS_CALLER(reporter);
    const struct compact_info *info = data;
    if (!info || length != sizeof *info || info->level != LEVEL_RUNTIME)
        return 0;
    if (info->type == TYPE_STREAM_EXPAND)
        __atomic_store_n(&expanded, info->data.bytes[0] == 1, __ATOMIC_RELAXED);
    else if (info->type == TYPE_TASK_TRACK && info->data.track.name)
        put_launch(&info->data.track, &reporter);
    return 0;
}

/* Not of interest, but on A5 operations fail when nobody takes it. */
static int32_t on_api(uint32_t aging, const void *api)
{
    (void)aging, (void)api;
    return 0;
}

bool names_expanded(void)
{
    return __atomic_load_n(&expanded, __ATOMIC_RELAXED);
}

/* msprof, or a tool that asks libmspti.so, needs the callbacks for itself. */
static const char *rival(void)
{
    const char *msprof = getenv("PROFILER_SAMPLECONFIG"), *preload = getenv("LD_PRELOAD");
    if (msprof && *msprof)
        return "kernels are not recorded: msprof is at work";
    return preload && strstr(preload, "libmspti") ? "kernels are not recorded: libmspti.so is at work" : NULL;
}

static command_fn *find_command(void)
{
    static void *slot;
    return (command_fn *)ms_real(&slot, NULL, NULL, "profSetProfCommand", library);
}

/* Returns why that cannot be, or NULL. */
static const char *registered(void)
{
    static void *slot;
    register_fn *add = (register_fn *)ms_real(&slot, NULL, NULL, "MsprofRegisterProfileCallback", library);
    if (!add || !find_command())
        return "kernels are not recorded: libprofapi.so is missing or too old";
    if (add(CALLBACK_GET_HASH_ID_C, (void *)on_hash_id, sizeof(void *)) ||
        add(CALLBACK_COMPACT, (void *)on_compact, sizeof(void *)) ||
        add(CALLBACK_API_C, (void *)on_api, sizeof(void *)))
        return "kernels are not recorded: libprofapi.so refuses its callbacks";
    return NULL;
}

bool names_listen(bool last_chance)
{
    const uint32_t generation = ms_generation();
    if (__atomic_load_n(&state.generation, __ATOMIC_ACQUIRE) == generation)
        return __atomic_load_n(&state.listening, __ATOMIC_RELAXED);
    const char *failure = rival();
    if (!failure) {
        failure = registered();
        if (failure && !last_chance)
            return false; /* the library may come with the runtime */
    }
    if (failure)
        ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0, failure);
    __atomic_store_n(&state.listening, !failure, __ATOMIC_RELAXED);
    __atomic_store_n(&state.generation, generation, __ATOMIC_RELEASE);
    return !failure;
}

bool names_switch(uint16_t card, bool on)
{
    struct command command = {
        .what = TASK_TIME | RUNTIME_TRACE,
        .device_count = 1,
        .devices = {card},
        .model = UINT32_MAX,
        .type = on ? COMMAND_START : COMMAND_STOP,
    };
    command_fn *send = find_command();
    return send && send(&command, sizeof command) == 0;
}
