/*
 * pool_report.c - mstx messages of the caching pool, in the order and with the contents of torch_npu (abi.md 3.6).
 *
 * torch_npu leaves usage, type, heap, regionType and regionHandleArrayOut uninitialised; here they are filled with rubbish
 * on purpose, so that a tool that reads them is caught.
 */
#define _GNU_SOURCE
#include "pool_report.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mstx/ms_tools_ext.h"

enum { RUBBISH = 0xA5 };

static const char hook[] = "libascend_kernel_hook.so";
static bool enabled;

/* Whether some element of LD_PRELOAD really is a file of the hook's name, links resolved. */
static bool tool_is_preloaded(void)
{
    const char *preload = getenv("LD_PRELOAD");
    char *list = preload ? strdup(preload) : NULL, *rest;
    bool found = false;
    for (char *element = list ? strtok_r(list, ": ", &rest) : NULL; element && !found;
         element = strtok_r(NULL, ": ", &rest)) {
        char path[PATH_MAX];
        size_t length = realpath(element, path) ? strlen(path) : 0;
        found = length > sizeof hook - 1 && !strcmp(path + length - (sizeof hook - 1), hook);
    }
    free(list);
    return found;
}

/* A profiler that answers to any domain is no memory tool: it must not get our messages. */
static void evaluate(void)
{
    enabled = tool_is_preloaded() && !mstxDomainCreateA("test");
}

static bool wanted(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, evaluate);
    return enabled;
}

/* Every message begins by saying how much the pool has reserved. */
static mstxDomainHandle_t report_reserved(uint32_t device, const void *block, uint64_t reserved)
{
    mstxDomainHandle_t domain = mstxDomainCreateA("ptaCaching");
    mstxMemVirtualRangeDesc_t range = {device, block, (int64_t)reserved};
    mstxMemHeapDesc_t heap;
    memset(&heap, RUBBISH, sizeof heap);
    heap.typeSpecificDesc = &range;
    mstxMemHeapRegister(domain, &heap);
    return domain;
}

void report_alloc(uint32_t device, const void *block, size_t bytes, uint64_t reserved)
{
    if (!wanted())
        return;
    mstxDomainHandle_t domain = report_reserved(device, block, reserved);
    mstxMemVirtualRangeDesc_t range = {device, block, (int64_t)bytes};
    mstxMemRegionsRegisterBatch_t batch;
    memset(&batch, RUBBISH, sizeof batch);
    batch.regionCount = 1;
    batch.regionDescArray = &range;
    mstxMemRegionsRegister(domain, &batch);
}

void report_free(uint32_t device, const void *block, uint64_t reserved)
{
    if (!wanted())
        return;
    mstxDomainHandle_t domain = report_reserved(device, block, reserved);
    mstxMemRegionRef_t reference = {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = block};
    mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &reference};
    mstxMemRegionsUnregister(domain, &batch);
}
