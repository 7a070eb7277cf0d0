/*
 * random - a random program that logs what it does, for test/property/model.py to say what a recording of it shows.
 *
 * usage: random SEED OPERATIONS THREADS
 *
 * Operations have one order: a lock is held around each one and its line. SEED determines them, whichever thread has its turn. A
 * line is one write to standard output, a file opened for appending, since forked children write there as well:
 *
 *     @ pid tid before after operation arguments...        before, after: the wall clock, ns, around the call
 *
 *     begin tracing               the first line of a process; what the recording says of itself, -1 without one
 *     alloc result addr bytes flag             free result addr          halMemAlloc, halMemFree
 *     create result handle bytes side card pages module   release result handle
 *     pin result addr bytes                    unpin result addr
 *     heap pool device bytes handle            unheap pool handle
 *     region pool device addr bytes            unregion pool addr
 *     stop  start  fork pid  mark device text
 *     end                         the last one
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "acl/acl.h"
#include "msmemscope.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

enum { POOLS = 5, CARDS = 2, SLOTS = 12, SLOT_BYTES = 1 << 16, LIVE = 48, HEAPS = 4, CHILDREN = 2, PAGE = 4096 };

static const char *const domain_names[POOLS] = {"ptaCaching", "ptaWorkspace", "mindsporeMemPool", "atb", "arena"};
static const char *const pool_names[POOLS] = {"PTA", "PTA_WORKSPACE", "MINDSPORE", "ATB", "arena"};
enum { WORKSPACE = 1, FIRST_WITH_HANDLES = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t state;
static long left; /* operations */
static mstxDomainHandle_t domains[POOLS];
static mstxMemHeapHandle_t heaps[POOLS][HEAPS];
static uint64_t slots[POOLS][CARDS][SLOTS]; /* bytes of the region there, 0: none */
static struct {
    void *at;
    enum { EMPTY, DRIVER, HANDLE } kind;
} live[LIVE];
static char pages[SLOTS * PAGE] __attribute__((aligned(PAGE)));
static bool pinned[SLOTS];
static pid_t children[CHILDREN];
static int forks;
static __thread int32_t current;

static uint64_t random_below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * UINT64_C(0x2545F4914F6CDD1D) >> 32) % n;
}

__attribute__((format(printf, 2, 3))) static void say(uint64_t before, const char *format, ...)
{
    char line[300];
    int n = snprintf(line, sizeof line, "@ %d %d %llu %llu ", getpid(), gettid(), (unsigned long long)before,
                     (unsigned long long)told_clock());
    va_list arguments;
    va_start(arguments, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    va_end(arguments);
    line[n++] = '\n';
    if (write(1, line, (size_t)n) != n)
        _exit(98);
}

/* A place in `live` of that kind, from a random one on; -1 if there is none. */
static int find(int kind)
{
    int from = (int)random_below(LIVE);
    for (int i = 0; i < LIVE; i++)
        if ((int)live[(from + i) % LIVE].kind == kind)
            return (from + i) % LIVE;
    return -1;
}

static void driver_alloc(void)
{
    static const uint64_t pages_of[] = {0, 0, MEM_PAGE_HUGE, MEM_PAGE_GIANT};
    int i = find(EMPTY);
    if (i < 0)
        return;
    uint64_t bytes = 1 + random_below(1 << 20);
    uint64_t flag = random_below(80) << MEM_MODULE_ID_BIT;
    if (random_below(4) == 0)
        flag |= MEM_HOST;
    else
        flag |= MEM_DEV | MEM_TYPE_HBM | pages_of[random_below(4)] | random_below(CARDS);
    void *block = NULL;
    uint64_t t = told_clock();
    int result = halMemAlloc(&block, bytes, flag);
    say(t, "alloc %d %llu %llu %llu", result, (unsigned long long)(uintptr_t)block, (unsigned long long)bytes,
        (unsigned long long)flag);
    if (!result) {
        live[i].at = block;
        live[i].kind = DRIVER;
    }
}

static void driver_free(void)
{
    int i = find(DRIVER);
    if (i < 0)
        return;
    char *block = live[i].at;
    if (random_below(16) == 0)
        block += 64; /* no block of the driver's: it refuses */
    uint64_t t = told_clock();
    int result = halMemFree(block);
    say(t, "free %d %llu", result, (unsigned long long)(uintptr_t)block);
    if (!result)
        live[i].kind = EMPTY;
}

static void create(void)
{
    const uint64_t granule = 2 << 20;
    int i = find(EMPTY);
    if (i < 0)
        return;
    struct drv_mem_prop prop = {.side = random_below(4) ? MEM_DEV_SIDE : MEM_HOST_SIDE,
                                .devid = (uint32_t)random_below(CARDS),
                                .module_id = (uint32_t)random_below(80),
                                .pg_type = (uint32_t)random_below(2)};
    uint64_t bytes = granule * (1 + random_below(4));
    drv_mem_handle_t *handle = NULL;
    uint64_t t = told_clock();
    int result = halMemCreate(&handle, bytes, &prop, 0);
    say(t, "create %d %llu %llu %u %u %u %u", result, (unsigned long long)(uintptr_t)handle, (unsigned long long)bytes,
        prop.side, prop.devid, prop.pg_type, prop.module_id);
    if (result)
        return;
    live[i].at = handle;
    live[i].kind = HANDLE;
    void *range; /* that it is mapped for a while is nothing that a dump shows */
    if (random_below(2) && (halMemAddressReserve(&range, bytes, 0, NULL, MEM_HUGE_PAGE_TYPE) ||
                            halMemMap(range, bytes, 0, handle, 0) || halMemUnmap(range) || halMemAddressFree(range)))
        die("mapping", 0);
}

static void release(void)
{
    int i = find(HANDLE);
    if (i < 0)
        return;
    uint64_t t = told_clock();
    int result = halMemRelease(live[i].at);
    say(t, "release %d %llu", result, (unsigned long long)(uintptr_t)live[i].at);
    if (!result)
        live[i].kind = EMPTY;
}

static void pin(void)
{
    int i = (int)random_below(SLOTS);
    char *at = pages + i * PAGE;
    uint64_t bytes = 1 + random_below(PAGE), t = told_clock();
    if (pinned[i]) {
        int result = aclrtHostUnregister(at);
        say(t, "unpin %d %llu", result, (unsigned long long)(uintptr_t)at);
    } else {
        int result = aclrtHostRegisterV2(at, bytes, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED);
        say(t, "pin %d %llu %llu", result, (unsigned long long)(uintptr_t)at, (unsigned long long)bytes);
    }
    pinned[i] = !pinned[i];
}

/* Pools register a heap right before what they hand out or take back, on the same thread. */
static void heap(int pool, int device)
{
    uint64_t bytes = 1 + random_below(1 << 30);
    mstxMemVirtualRangeDesc_t range = {.deviceId = (uint32_t)device, .ptr = pages, .size = bytes};
    mstxMemHeapDesc_t desc = {.typeSpecificDesc = &range};
    uint64_t t = told_clock();
    mstxMemHeapHandle_t handle = mstxMemHeapRegister(domains[pool], &desc);
    say(t, "heap %s %d %llu %llu", pool_names[pool], device, (unsigned long long)bytes,
        (unsigned long long)(uintptr_t)handle);
    if (!handle)
        return;
    mstxMemHeapHandle_t *old = &heaps[pool][random_below(HEAPS)];
    if (*old) {
        t = told_clock();
        mstxMemHeapUnregister(domains[pool], *old);
        say(t, "unheap %s %llu", pool_names[pool], (unsigned long long)(uintptr_t)*old);
    }
    *old = handle;
}

/* Where the pools' blocks seem to be: each pool and card has addresses of its own. */
static uint64_t place(int pool, int device, int slot)
{
    return (uint64_t)(0x1000 + pool * CARDS + device) << 32 | (uint64_t)slot * SLOT_BYTES;
}

static void region(int pool, int device)
{
    mstxMemVirtualRangeDesc_t range[3];
    mstxMemRegionHandle_t handles[3];
    size_t n = 0;
    int from = (int)random_below(SLOTS), most = pool == WORKSPACE ? 1 : 1 + (int)random_below(3);
    bool again = pool != WORKSPACE && random_below(12) == 0; /* also where a block lives, which nobody has freed */
    for (int i = 0; i < SLOTS && pool == WORKSPACE; i++)
        if (slots[pool][device][i])
            return; /* `used` is defined for one block at a time */
    for (int i = 0; i < most; i++) {
        int slot = (from + i) % SLOTS;
        if (slots[pool][device][slot] && !again)
            continue;
        slots[pool][device][slot] = 2 + random_below(SLOT_BYTES - 2);
        range[n++] = (mstxMemVirtualRangeDesc_t){
            .deviceId = (uint32_t)device, .ptr = (void *)place(pool, device, slot), .size = slots[pool][device][slot]};
    }
    mstxMemRegionsRegisterBatch_t batch = {.regionCount = n, .regionDescArray = range, .regionHandleArrayOut = handles};
    uint64_t t = told_clock();
    mstxMemRegionsRegister(domains[pool], &batch);
    for (size_t i = 0; i < n; i++)
        say(t, "region %s %d %llu %llu", pool_names[pool], device, (unsigned long long)(uintptr_t)range[i].ptr,
            (unsigned long long)range[i].size);
}

static void unregion(int pool, int device)
{
    int slot = (int)random_below(SLOTS);
    bool unknown = random_below(16) == 0; /* a block that nobody has allocated, or that was freed already */
    for (int i = 0; i < SLOTS && !slots[pool][device][slot] && !unknown; i++)
        slot = (slot + 1) % SLOTS;
    uint64_t bytes = slots[pool][device][slot], at = place(pool, device, slot);
    if (!bytes && !unknown)
        return;
    if (bytes && pool != WORKSPACE && random_below(12) == 0)
        at += bytes / 2; /* inside of the block */
    slots[pool][device][slot] = 0;
    mstxMemRegionRef_t ref = {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = (void *)at};
    if (pool >= FIRST_WITH_HANDLES && random_below(2))
        ref = (mstxMemRegionRef_t){.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE, .handle = (mstxMemRegionHandle_t)at};
    mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &ref};
    uint64_t t = told_clock();
    mstxMemRegionsUnregister(domains[pool], &batch);
    say(t, "unregion %s %llu", pool_names[pool], (unsigned long long)at);
}

static void steer(const char *word)
{
    char name[20];
    snprintf(name, sizeof name, "ms_%s", word);
    int (*function)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, name);
    uint64_t t = told_clock();
    if (function && function() != 0)
        die(name, -1);
    say(t, "%s", word);
}

static void mark(void)
{
    char text[20];
    snprintf(text, sizeof text, "mark %llu", (unsigned long long)random_below(1000));
    uint64_t t = told_clock();
    mstxMarkA(text, NULL);
    say(t, "mark %d %s", current, text);
}

static void begin(void)
{
    struct ms_options options;
    int (*function)(struct ms_options *) = (int (*)(struct ms_options *))dlsym(RTLD_DEFAULT, "ms_options");
    uint64_t t = told_clock();
    bool known = function && function(&options) == 0;
    say(t, "begin %d", known ? options.tracing : -1);
}

static void step(void);

/* Ends the process in one of three ways; all must leave the same. */
static void end(uint64_t how)
{
    for (int i = 0; i < forks; i++) {
        int status;
        if (waitpid(children[i], &status, 0) != children[i] || (status && status != SIGKILL))
            die("child", status);
    }
    say(told_clock(), "end");
    if (how == 0)
        raise(SIGKILL);
    if (how == 1)
        _exit(0);
    exit(0);
}

static void split(void)
{
    if (forks == CHILDREN)
        return;
    uint64_t t = told_clock(), seed = random_below(1 << 30) + 1;
    long share = left / 3;
    pid_t child = fork();
    if (child < 0)
        die("fork", child);
    if (child > 0) {
        children[forks++] = child;
        say(t, "fork %d", child);
        return;
    }
    state = seed;
    forks = CHILDREN; /* has none of its own ... */
    children[0] = children[1] = 0;
    begin();
    for (left = share; left > 0; left--)
        step();
    forks = 0; /* ... to wait for */
    end(random_below(3));
}

static void step(void)
{
    int pool = (int)random_below(POOLS), device = (int)random_below(CARDS);
    switch (random_below(48)) {
    case 0:
        steer("stop");
        break;
    case 1:
    case 2:
        steer("start");
        break;
    case 3:
        split();
        break;
    case 4:
    case 5:
        mark();
        break;
    case 6 ... 9:
        pin();
        break;
    case 10 ... 14:
        create();
        break;
    case 15 ... 18:
        release();
        break;
    case 19 ... 24:
        driver_alloc();
        break;
    case 25 ... 29:
        driver_free();
        break;
    case 30 ... 38:
        if (!domains[pool])
            break;
        heap(pool, device);
        region(pool, device);
        break;
    default:
        if (!domains[pool])
            break;
        heap(pool, device);
        unregion(pool, device);
    }
}

static void *work(void *device)
{
    current = (int32_t)(intptr_t)device;
    if (aclrtSetDevice(current))
        die("aclrtSetDevice", 0);
    for (bool more = true; more;) {
        pthread_mutex_lock(&lock);
        if ((more = left-- > 0))
            step();
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    state = argument(argc, argv, 1, 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    left = (long)argument(argc, argv, 2, 100);
    int threads = (int)argument(argc, argv, 3, 2);
    pthread_t running[16];
    if (threads < 1 || threads > 16)
        die("the number of threads", threads);
    for (int i = 0; i < POOLS; i++)
        domains[i] = mstxDomainCreateA(domain_names[i]);
    begin();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&running[i], NULL, work, (void *)(intptr_t)(i % CARDS)))
            die("pthread_create", 0);
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    end(random_below(3));
}
