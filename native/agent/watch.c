/*
 * watch.c - tensors around operators and kernels: which are watched, when they are dumped, and how they get out (contract 4). The bytes go
 * through the ring; what becomes of them, files or checksums, is the collector's.
 *
 * One thread at a time is in here, and it is between ms_enter and ms_leave, so that no signal handler or hook comes here again.
 * What it waits for, the card and room in the ring, ends.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "msmemscope.h"

enum {
    WATCHED_MOST = 256,
    STAGE_BYTES = 1 << 20, /* copied from the card at once */
    NAMES = 1 << 16,       /* whose calls are counted */
    NAME_BYTES = 65,
    ID_BYTES = 700,
    LOCK_MS = 30000,
    DEVICE_TO_HOST = 2,
};

struct watched {
    uint64_t addr;
    uint64_t size;
    int64_t left; /* dumps, -1 without end */
    unsigned index;
    bool own; /* registered by the program; else an output of the operator with which the window began */
    char name[NAME_BYTES];
};

struct calls {
    uint64_t name; /* hash; 0: free */
    uint32_t count;
};

static struct {
    uint32_t generation; /* whose all this is; a forked child begins anew */
    bool open;           /* the window */
    uint32_t windows;
    size_t count;
    struct watched watched[WATCHED_MOST];
    /* Of an operator of PyTorch that may open the window: its thread, and what it has written so far. */
    uint32_t opener;
    size_t written_count;
    struct ms_extent written[MS_OUTPUTS_MOST];

    unsigned char *stage;
    struct calls *calls; /* a hash table of NAMES */
    uint32_t names;
} watch;

static uint32_t lock_word; /* futex: the generation that holds it; that of a parent holds nothing */

static bool lock(void)
{
    const uint32_t mine = ms_generation();
    const int64_t deadline = now_ns() + (int64_t)LOCK_MS * NS_PER_MS;
    for (;;) {
        uint32_t seen = __atomic_load_n(&lock_word, __ATOMIC_RELAXED);
        if (seen != mine &&
            __atomic_compare_exchange_n(&lock_word, &seen, mine, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            break;
        if (seen == mine)
            futex_wait(&lock_word, mine, 20LL * NS_PER_MS);
        if (now_ns() > deadline)
            return false;
    }
    if (watch.generation != mine) {
        if (watch.calls)
            memset(watch.calls, 0, NAMES * sizeof *watch.calls);
        watch.open = false;
        watch.count = watch.written_count = watch.names = watch.windows = watch.opener = 0;
        watch.generation = mine;
    }
    return true;
}

static void unlock(void)
{
    __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
    futex_wake_all(&lock_word);
}

/* Begins: true with the lock held, when watching is wanted. */
static bool begin(void)
{
    if (ms_enter(MS_WATCH) == MS_SKIP)
        return false;
    if (!__atomic_load_n(&agent.ring->unwatched, __ATOMIC_RELAXED) && lock())
        return true;
    ms_leave();
    return false;
}

static void end(void)
{
    unlock();
    ms_leave();
}

static void *anonymous(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t hash_of(const char *item)
{
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (const char *c = item; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    return hash | (hash == 0);
}

/*
 * How often the operator or kernel of this hash has begun, with this time when `more`. Names of which there are no end, as those of ATB with the
 * number of the execution in them, are not counted any more when the table is full: they do not come twice.
 */
static uint32_t calls_of(uint64_t hash, bool more)
{
    if (!watch.calls && !(watch.calls = anonymous(NAMES * sizeof *watch.calls)))
        return 1;
    struct calls *at;
    for (size_t i = hash % NAMES;; i = (i + 1) % NAMES) {
        at = &watch.calls[i];
        if (at->name == hash)
            break;
        if (at->name == 0) {
            if (watch.names >= NAMES * 3 / 4)
                return 1;
            at->name = hash;
            watch.names++;
            break;
        }
    }
    at->count += more;
    return at->count ? at->count : 1; /* an end without a beginning: it has begun before the start of the recording */
}

static bool put(const unsigned char *bytes, size_t length, uint16_t device)
{
    for (size_t done = 0; done < length;) {
        size_t chunk = length - done < MS_WATCH_CHUNK ? length - done : MS_WATCH_CHUNK;
        struct ms_watch_data *r = ms_reserve(MS_WATCH_DATA, MS_HOST, device, sizeof *r + chunk);
        if (!r)
            return false;
        r->length = (uint32_t)chunk;
        memcpy(r + 1, bytes + done, chunk);
        ms_publish(&r->h);
        done += chunk;
    }
    return true;
}

typedef int copy_fn(void *to, size_t room, const void *from, size_t bytes, int kind);

static void dump_one(struct watched *w, enum ms_type type, const char *label, copy_fn *copy, uint16_t device)
{
    ms_put_text(type, device, w->size, label);
    int error = 0;
    for (uint64_t done = 0; done < w->size && !error;) {
        size_t part = w->size - done < STAGE_BYTES ? w->size - done : STAGE_BYTES;
        error = copy(watch.stage, STAGE_BYTES, (const void *)(uintptr_t)(w->addr + done), part, DEVICE_TO_HOST);
        if (!error && !put(watch.stage, part, device))
            return; /* nobody collects any more, or not from this card */
        done += part;
    }
    ms_put_text(MS_WATCH_END, device, (uint64_t)(uint32_t)error, NULL);
}

/* Everything that is watched, once. `id` NULL: which kernel it is of, put_kernel will say. */
static void dump(const char *id, uint32_t count, const char *side)
{
    static void *copy_slot, *wait_slot;
    copy_fn *copy = ms_real(&copy_slot, NULL, NULL, "aclrtMemcpy", "libascendcl.so");
    int (*wait)(void) = ms_real(&wait_slot, NULL, NULL, "aclrtSynchronizeDevice", "libascendcl.so");
    if (!copy || watch.count == 0 || (!watch.stage && !(watch.stage = anonymous(STAGE_BYTES))))
        return;
    if (wait)
        wait(); /* on which stream the operator runs is not known */
    uint16_t device = ms_current_device();
    for (size_t i = 0; i < watch.count; i++) {
        struct watched *w = &watch.watched[i];
        if (w->left == 0)
            continue;
        char label[MS_TEXT_MAX + 1];
        size_t used = id ? (size_t)snprintf(label, sizeof label, "%.*s_%u", ID_BYTES, id, count) : 0;
        snprintf(label + used, sizeof label - used, "-%s_%u_%s.bin",
                 w->own ? w->name : (const char *)agent.config.watch_start, w->index, side);
        dump_one(w, id ? MS_WATCH_BEGIN : MS_WATCH_AHEAD, label, copy, device);
        if (w->left > 0)
            w->left--;
    }
}

static const char *item_of(const char *id)
{
    const char *slash = strchr(id, '/');
    return slash ? slash + 1 : id;
}

static bool is(const char *item, const uint8_t *target)
{
    return target[0] != 0 && strncmp(item, (const char *)target, MS_WATCH_NAME - 2) == 0; /* names are cut there */
}

static void forget_outputs(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < watch.count; i++)
        if (watch.watched[i].own)
            watch.watched[kept++] = watch.watched[i];
    watch.count = kept;
}

static void open_window(const struct ms_extent *outputs, size_t count)
{
    const uint32_t only = agent.config.watch_output;
    for (size_t i = 0; i < count && watch.count < WATCHED_MOST; i++)
        if (only >= count || i == only)
            watch.watched[watch.count++] =
                (struct watched){.addr = outputs[i].addr, .size = outputs[i].size, .left = -1, .index = (unsigned)i};
    watch.open = true;
    watch.windows++;
}

static void close_window(void)
{
    watch.open = false;
    forget_outputs();
}

static void began(const char *id)
{
    uint32_t count = calls_of(hash_of(item_of(id)), true);
    if (watch.count)
        dump(id, count, "before");
}

static void ended(const char *id, const struct ms_extent *outputs, size_t count)
{
    const char *item = item_of(id);
    if (!watch.open && is(item, agent.config.watch_start)) {
        open_window(outputs, count);
        dump(id, watch.windows, "after");
        return;
    }
    if (watch.count)
        dump(id, calls_of(hash_of(item), false), "after");
    if (watch.open && is(item, agent.config.watch_end))
        close_window();
}

bool ms_watching(void)
{
    return life_state() == LIFE_READY && agent.config.watch_end[0] != 0;
}

void ms_watch_begin(const char *id, bool kernel)
{
    if (!ms_watching() || !begin())
        return;
    int saved = errno;
    self.atb_kernel = kernel;
    began(id);
    errno = saved;
    end();
}

void ms_watch_end(const char *id, const struct ms_extent *outputs, size_t count)
{
    if (!ms_watching() || !begin())
        return;
    int saved = errno;
    self.atb_kernel = false;
    ended(id, outputs, count);
    errno = saved;
    end();
}

/*
 * Nothing here calls the runtime while it tells a kernel's name: it may hold locks then, and the kernel may be running. So what lies
 * before it is dumped ahead of the launch, and named behind it.
 */
static void put_kernel(uint16_t device, uint64_t name, uint32_t count)
{
    struct ms_watch_kernel *r = ms_reserve(MS_WATCH_KERNEL, MS_HOST, device, sizeof *r);
    if (!r)
        return;
    r->name = name;
    r->count = count;
    ms_publish(&r->h);
}

bool ms_watch_launch(void)
{
    if (!ms_watching() || self.atb_kernel || !begin())
        return false;
    int saved = errno;
    dump(NULL, 0, "before");
    errno = saved;
    end();
    return true;
}

static void launched(uint16_t device, uint64_t kernel, uint64_t start, uint64_t finish)
{
    uint32_t count = calls_of(kernel, true);
    put_kernel(device, kernel, count);
    if (!watch.open && kernel == start) {
        open_window(NULL, 0);
        count = watch.windows;
    }
    if (watch.count) {
        dump(NULL, 0, "after");
        put_kernel(device, kernel, count);
    }
    if (watch.open && kernel == finish)
        close_window();
}

void ms_watch_launched(uint16_t device, uint64_t kernel, uint64_t (*id_of)(const char *text, size_t length))
{
    if (!begin())
        return;
    int saved = errno;
    const char *start = (const char *)agent.config.watch_start, *finish = (const char *)agent.config.watch_end;
    if (!kernel)
        put_kernel(ms_current_device(), 0, 0);
    else
        launched(device, kernel, *start ? id_of(start, strlen(start)) : 0, id_of(finish, strlen(finish)));
    errno = saved;
    end();
}

void ms_watch_aten(const char *name, bool finished)
{
    if (!ms_watching() || !name || !begin())
        return;
    int saved = errno;
    char id[ID_BYTES];
    snprintf(id, sizeof id, "%u_%u/%s", ms_current_device(), self.tid, name);
    if (!finished) {
        began(id);
        if (!watch.open && is(name, agent.config.watch_start)) {
            watch.opener = self.tid;
            watch.written_count = 0;
        }
    } else {
        ended(id, watch.written, watch.opener == self.tid ? watch.written_count : 0);
        if (watch.opener == self.tid && is(name, agent.config.watch_start))
            watch.opener = 0;
    }
    errno = saved;
    end();
}

void ms_watch_written(uint64_t addr, uint64_t size)
{
    if (!ms_watching() || !begin())
        return;
    bool known = watch.opener != self.tid || watch.written_count == MS_OUTPUTS_MOST;
    for (size_t i = 0; i < watch.written_count && !known; i++) /* an argument that is the result as well */
        known = watch.written[i].addr == addr;
    if (!known)
        watch.written[watch.written_count++] = (struct ms_extent){addr, size};
    end();
}

MS_EXPORT int ms_watch(uint64_t address, uint64_t bytes, const char *name, int times)
{
    int result = -1;
    if (!enter())
        return -1;
    if (ms_watching() && lock()) {
        if (watch.count < WATCHED_MOST) {
            struct watched *w = &watch.watched[watch.count++];
            *w = (struct watched){.addr = address, .size = bytes, .left = times, .own = true};
            snprintf(w->name, sizeof w->name, "%s", name);
            result = 0;
        }
        unlock();
    }
    ms_leave();
    return result;
}

MS_EXPORT int ms_unwatch(uint64_t address, uint64_t bytes)
{
    int result = -1;
    if (!enter())
        return -1;
    if (ms_watching() && lock()) {
        for (size_t i = 0; i < watch.count; i++)
            if (watch.watched[i].own && watch.watched[i].addr == address && watch.watched[i].size == bytes) {
                memmove(&watch.watched[i], &watch.watched[i + 1], (watch.count - i - 1) * sizeof *watch.watched);
                watch.count--;
                result = 0;
                break;
            }
        unlock();
    }
    ms_leave();
    return result;
}
