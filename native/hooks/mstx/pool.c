/*
 * pool.c - see pool.h.
 *
 * Callers hold their allocator's lock: nothing here waits for anything but room in the ring.
 */
#include "pool.h"

#include <string.h>

#include "agent.h"

enum { POOL_DEVICES = 128 }; /* device ids are truncated to int8 (abi.md 2.5) */

struct mstxDomain {
    enum ms_pool pool;
    uint64_t reserved[POOL_DEVICES]; /* bytes, by logical device; kept up to date also while paused */
};

static struct mstxDomain pta_caching = {.pool = MS_PTA};

/*
 * The device of this thread's last heap. A region that goes is named by its address alone; its pool reports its heap just
 * before on the same thread, under its lock, so this is the heap that the region leaves.
 */
static __thread int8_t last_device __attribute__((tls_model("initial-exec")));

mstxDomainHandle_t pool_domain(const char *name)
{
    /* torch_npu asks for a domain "test" and takes NULL for "no profiler that records domains", which is right. */
    if (name && (strcmp(name, "ptaCaching") == 0 || strcmp(name, "msleaks") == 0))
        return &pta_caching;
    return NULL;
}

static uint64_t reserved(mstxDomainHandle_t domain, int8_t device)
{
    return device >= 0 ? __atomic_load_n(&domain->reserved[device], __ATOMIC_RELAXED) : 0;
}

mstxMemHeapHandle_t pool_heap_register(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc)
{
    if (domain && desc && desc->typeSpecificDesc) {
        last_device = (int8_t)desc->typeSpecificDesc->deviceId;
        if (last_device >= 0)
            __atomic_store_n(&domain->reserved[last_device], desc->typeSpecificDesc->size, __ATOMIC_RELAXED);
    }
    return NULL; /* the pools that are known here do not use it */
}

/* What is reserved comes with the next heap. */
void pool_heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    (void)domain, (void)heap;
}

void pool_regions_register(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc)
{
    if (!domain || !desc || !desc->regionDescArray || ms_enter(MS_MEMORY) == MS_SKIP)
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
        if (desc->refArray[i].refType != MSTX_MEM_REGION_REF_POINTER)
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
