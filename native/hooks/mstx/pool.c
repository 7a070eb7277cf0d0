/*
 * pool.c - see pool.h.
 *
 * Callers hold their allocator's lock: nothing here waits for anything but room in the ring.
 */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "agent.h"

enum { POOL_DEVICES = 128 }; /* device ids are truncated to int8 (abi.md 2.5) */

struct mstxDomain {
    enum ms_pool pool;
    bool many;    /* heaps add up and end one by one; otherwise each report of a heap has the size of all of them */
    bool handles; /* its regions get handles */
    uint64_t reserved[POOL_DEVICES]; /* bytes, by logical device; kept up to date also while paused */
};

static struct mstxDomain pta_caching = {.pool = MS_PTA};
static struct mstxDomain pta_workspace = {.pool = MS_PTA_WORKSPACE};
static struct mstxDomain mindspore = {.pool = MS_MINDSPORE};
static struct mstxDomain atb = {.pool = MS_ATB, .many = true, .handles = true};
static struct mstxDomain named[MS_POOLS - MS_NAMED];

/*
 * The device of this thread's last heap. A region that goes is named by its address alone; its pool reports its heap just
 * before on the same thread, under its lock, so this is the heap that the region leaves.
 */
static __thread int8_t last_device __attribute__((tls_model("initial-exec")));

/* The place of `name` in the list of the user's own pools, or -1. */
static int named_pool(const char *name)
{
    const char *list = getenv("MSMEMSCOPE_POOLS");
    size_t length = strlen(name);
    for (int i = 0; list && *list && i < MS_POOLS - MS_NAMED; i++) {
        size_t part = strcspn(list, ",");
        if (part == length && length > 0 && memcmp(list, name, length) == 0)
            return i;
        list += part + (list[part] == ',');
    }
    return -1;
}

/* strcmp, but here: torch_npu asks for its domain at every event, and the C library's is a jump through two tables. */
static inline bool same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

mstxDomainHandle_t pool_domain(const char *name)
{
    static const struct {
        const char *name;
        struct mstxDomain *domain;
    } known[] = {
        {"ptaCaching", &pta_caching},
        {"msleaks", &pta_caching},
        {"ptaWorkspace", &pta_workspace},
        {"mindsporeMemPool", &mindspore},
        {"atb", &atb},
    };
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (same(name, known[i].name))
            return known[i].domain;
    /* torch_npu asks for a domain "test" and takes NULL for "no profiler that records domains", which is right. */
    int i = name ? named_pool(name) : -1;
    if (i < 0)
        return NULL;
    named[i].many = named[i].handles = true;
    __atomic_store_n(&named[i].pool, MS_NAMED + i, __ATOMIC_RELEASE);
    return &named[i];
}

static uint64_t reserved(mstxDomainHandle_t domain, int8_t device)
{
    return device >= 0 ? __atomic_load_n(&domain->reserved[device], __ATOMIC_RELAXED) : 0;
}

/*
 * A heap that ends is named by its handle alone. The handle is never dereferenced by anybody, so it carries what we need to
 * know: bit 63, seven bits of device, 56 bits of size.
 */
enum { HEAP_DEVICE_SHIFT = 56 };
#define HEAP_SIZE_MASK ((UINT64_C(1) << HEAP_DEVICE_SHIFT) - 1)

mstxMemHeapHandle_t pool_heap_register(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc)
{
    if (!domain || !desc || !desc->typeSpecificDesc)
        return NULL;
    uint64_t size = desc->typeSpecificDesc->size & HEAP_SIZE_MASK;
    int8_t device = (int8_t)desc->typeSpecificDesc->deviceId;
    last_device = device;
    if (device < 0)
        return domain->many ? (mstxMemHeapHandle_t)desc->typeSpecificDesc->ptr : NULL;
    if (!domain->many) {
        __atomic_store_n(&domain->reserved[device], size, __ATOMIC_RELAXED);
        return NULL; /* these pools do not use it */
    }
    __atomic_add_fetch(&domain->reserved[device], size, __ATOMIC_RELAXED);
    return (mstxMemHeapHandle_t)(uintptr_t)(UINT64_C(1) << 63 | (uint64_t)device << HEAP_DEVICE_SHIFT | size);
}

/* What the other pools have reserved comes with their next heap. */
void pool_heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    uint64_t bits = (uintptr_t)heap;
    if (domain && domain->many && bits >> 63)
        __atomic_sub_fetch(&domain->reserved[bits >> HEAP_DEVICE_SHIFT & (POOL_DEVICES - 1)], bits & HEAP_SIZE_MASK,
                           __ATOMIC_RELAXED);
}

/* A region's handle is its address: one region lives at an address at a time. */
void pool_regions_register(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc)
{
    if (!domain || !desc || !desc->regionDescArray)
        return;
    for (size_t i = 0; domain->handles && desc->handles && i < desc->regionCount; i++)
        desc->handles[i] = (void *)desc->regionDescArray[i].ptr;
    if (ms_enter(MS_MEMORY) == MS_SKIP)
        return;
    for (size_t i = 0; i < desc->regionCount; i++) {
        const mstxMemVirtualRangeDesc_t *region = &desc->regionDescArray[i];
        int8_t device = (int8_t)region->deviceId;
        struct ms_alloc *r = ms_reserve(MS_ALLOC, domain->pool, ms_physical_device(device), sizeof *r);
        if (!r)
            continue;
        r->addr = (uint64_t)region->ptr;
        r->size = region->size;
        r->total = reserved(domain, device);
        ms_publish(&r->h);
    }
    ms_leave();
}

void pool_regions_unregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc)
{
    if (!domain || !desc || !desc->refArray || ms_enter(MS_MEMORY) == MS_SKIP)
        return;
    for (size_t i = 0; i < desc->refCount; i++) {
        int32_t type = desc->refArray[i].refType;
        if (type != MSTX_MEM_REGION_REF_POINTER && !(domain->handles && type == MSTX_MEM_REGION_REF_HANDLE))
            continue;
        struct ms_free *r = ms_reserve(MS_FREE, domain->pool, MS_DEVICE_NONE, sizeof *r);
        if (!r)
            continue;
        r->addr = (uint64_t)desc->refArray[i].pointer;
        r->total = reserved(domain, last_device);
        ms_publish(&r->h);
    }
    ms_leave();
}
