/*
 * ms_tools_ext.h - mstx: marks, ranges, domains and memory pools that a program tells to whatever tool is there.
 *
 * Names, values and layouts are the real ones (abi.md 3.1, 3.2); here the functions live in libms_tools_ext.so, where the
 * real header defines them inline. Without a tool all of them do nothing.
 */
#ifndef VNPU_MS_TOOLS_EXT_H
#define VNPU_MS_TOOLS_EXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSTX_SUCCESS 0
#define MSTX_FAIL 1
#define MSTX_TOOL_INVALID_ID 0x0

typedef uint64_t mstxRangeId;
typedef void *aclrtStream;
typedef struct mstxDomainRegistration_st *mstxDomainHandle_t;
typedef struct mstxMemHeap_st *mstxMemHeapHandle_t;
typedef struct mstxMemRegion_st *mstxMemRegionHandle_t;

typedef enum { MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0 } mstxMemHeapUsageType;
typedef enum { MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0 } mstxMemType;
typedef enum { MSTX_MEM_REGION_REF_TYPE_POINTER = 0, MSTX_MEM_REGION_REF_TYPE_HANDLE = 1 } mstxMemRegionRefType;

typedef struct {
    uint32_t deviceId;
    const void *ptr;
    int64_t size; /* bytes */
} mstxMemVirtualRangeDesc_t;

typedef struct {
    mstxMemHeapUsageType usage;
    mstxMemType type;
    const void *typeSpecificDesc; /* mstxMemVirtualRangeDesc_t */
} mstxMemHeapDesc_t;

typedef struct {
    mstxMemHeapHandle_t heap;
    mstxMemType regionType;
    size_t regionCount;
    const void *regionDescArray; /* mstxMemVirtualRangeDesc_t[] */
    mstxMemRegionHandle_t *regionHandleArrayOut;
} mstxMemRegionsRegisterBatch_t;

typedef struct {
    mstxMemRegionRefType refType;
    union {
        const void *pointer;
        mstxMemRegionHandle_t handle;
    };
} mstxMemRegionRef_t;

typedef struct {
    size_t refCount;
    const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

/* ------------------------------------------------------------------ for programs */

void mstxMarkA(const char *message, aclrtStream stream);
mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream); /* 0 without a tool */
void mstxRangeEnd(mstxRangeId id);
void mstxGetToolId(uint64_t *id);

mstxDomainHandle_t mstxDomainCreateA(const char *name); /* NULL: nobody listens to this domain */
void mstxDomainDestroy(mstxDomainHandle_t domain);
void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream);
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message, aclrtStream stream);
void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id);

mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc);
void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);
void mstxMemRegionsRegister(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc);
void mstxMemRegionsUnregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc);

/* ------------------------------------------------------------------ for tools
 *
 * A tool exports `int InitInjectionMstx(MstxGetModuleFuncTableFunc)`. Its getter gives, per module, a table of pointers to
 * slots; the tool stores its function in the slots that it wants. Entry 0 is NULL, valid ids are 1..size-1, and table[size]
 * is NULL.
 */
enum { MSTX_API_MODULE_CORE = 1, MSTX_API_MODULE_CORE_DOMAIN = 2, MSTX_API_MODULE_CORE_MEM = 3 };
typedef void (*MstxFuncPointer)(void);
typedef int (*MstxGetModuleFuncTableFunc)(int module, MstxFuncPointer ***outTable, unsigned int *outSize);

#ifdef __cplusplus
}
#endif
#endif
