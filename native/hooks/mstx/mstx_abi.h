/*
 * mstx_abi.h - the parts of the mstx interface that the hook meets (abi.md 3.1, 3.2). Names are those of the interface.
 * Fields that the frameworks leave uninitialised are called `unset`: they are never read.
 */
#ifndef MSMEMSCOPE_MSTX_ABI_H
#define MSMEMSCOPE_MSTX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { MSTX_SUCCESS = 0, MSTX_FAIL = 1 };

typedef void (*MstxFuncPointer)(void);
/* Fills in the slots of one module: outTable[id] points to the slot of function id, valid ids are 1 to outSize-1. */
typedef int (*MstxGetModuleFuncTableFunc)(int module, MstxFuncPointer ***outTable, unsigned int *outSize);

enum { MSTX_CORE = 1, MSTX_CORE_DOMAIN = 2, MSTX_CORE_MEM = 3, MSTX_MODULES = 4 };
enum { MSTX_MARK_A = 1, MSTX_RANGE_START_A = 2, MSTX_RANGE_END = 3 };
enum {
    MSTX_DOMAIN_CREATE_A = 1,
    MSTX_DOMAIN_DESTROY = 2,
    MSTX_DOMAIN_MARK_A = 3,
    MSTX_DOMAIN_RANGE_START_A = 4,
    MSTX_DOMAIN_RANGE_END = 5
};
enum {
    MSTX_MEM_HEAP_REGISTER = 1,
    MSTX_MEM_HEAP_UNREGISTER = 2,
    MSTX_MEM_REGIONS_REGISTER = 3,
    MSTX_MEM_REGIONS_UNREGISTER = 4
};

typedef struct mstxDomain *mstxDomainHandle_t;
typedef struct mstxMemHeap *mstxMemHeapHandle_t;

typedef struct {
    uint32_t deviceId;
    const void *ptr;
    uint64_t size; /* bytes */
} mstxMemVirtualRangeDesc_t;

typedef struct {
    int32_t unset[2]; /* usage, type */
    const mstxMemVirtualRangeDesc_t *typeSpecificDesc;
} mstxMemHeapDesc_t;

typedef struct {
    uint64_t unset[2]; /* heap, regionType */
    size_t regionCount;
    const mstxMemVirtualRangeDesc_t *regionDescArray;
    void **handles; /* regionHandleArrayOut; unset, too, from PyTorch and MindSpore */
} mstxMemRegionsRegisterBatch_t;

enum { MSTX_MEM_REGION_REF_POINTER = 0, MSTX_MEM_REGION_REF_HANDLE = 1 };

typedef struct {
    int32_t refType;
    const void *pointer; /* or the handle */
} mstxMemRegionRef_t;

typedef struct {
    size_t refCount;
    const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

_Static_assert(sizeof(mstxMemVirtualRangeDesc_t) == 24, "mstxMemVirtualRangeDesc_t");
_Static_assert(sizeof(mstxMemHeapDesc_t) == 16, "mstxMemHeapDesc_t");
_Static_assert(sizeof(mstxMemRegionsRegisterBatch_t) == 40, "mstxMemRegionsRegisterBatch_t");
_Static_assert(sizeof(mstxMemRegionRef_t) == 16, "mstxMemRegionRef_t");
_Static_assert(sizeof(mstxMemRegionsUnregisterBatch_t) == 16, "mstxMemRegionsUnregisterBatch_t");

#endif
