/*
 * pool.h - the memory functions of mstx, by which frameworks report their pools (abi.md 3.4 to 3.6).
 *
 * A pool tells what it has reserved with a heap, then each block that it hands out or takes back with a region.
 */
#ifndef MSMEMSCOPE_MSTX_POOL_H
#define MSMEMSCOPE_MSTX_POOL_H

#include "mstx_abi.h"

/*
 * The handle of the pool that reports under `name`, the same at every call; NULL for every other name. The user's own pools are
 * those of MSMEMSCOPE_POOLS, a list separated by commas that the launcher sets (--pools).
 */
mstxDomainHandle_t pool_domain(const char *name);
mstxMemHeapHandle_t pool_heap_register(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc);
void pool_heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);
void pool_regions_register(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc);
void pool_regions_unregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc);

#endif
