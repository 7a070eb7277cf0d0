/*
 * mstx.c - libms_tools_ext.so.
 *
 * The library's own hidden context: a slot for each function, and tables of pointers to the slots that a tool fills. The
 * first call of any function looks for the tool: `InitInjectionMstx` of the library named by MSTX_INJECTION_PATH, or of the
 * global scope. Without one the slots stay NULL for ever and every function does nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

#include "../common/export.h"
#include "mstx/ms_tools_ext.h"

static struct {
    void (*mark)(const char *, aclrtStream);
    mstxRangeId (*range_start)(const char *, aclrtStream);
    void (*range_end)(mstxRangeId);
    void (*tool_id)(uint64_t *);
    mstxDomainHandle_t (*domain_create)(const char *);
    void (*domain_destroy)(mstxDomainHandle_t);
    void (*domain_mark)(mstxDomainHandle_t, const char *, aclrtStream);
    mstxRangeId (*domain_range_start)(mstxDomainHandle_t, const char *, aclrtStream);
    void (*domain_range_end)(mstxDomainHandle_t, mstxRangeId);
    mstxMemHeapHandle_t (*heap_register)(mstxDomainHandle_t, const mstxMemHeapDesc_t *);
    void (*heap_unregister)(mstxDomainHandle_t, mstxMemHeapHandle_t);
    void (*regions_register)(mstxDomainHandle_t, const mstxMemRegionsRegisterBatch_t *);
    void (*regions_unregister)(mstxDomainHandle_t, const mstxMemRegionsUnregisterBatch_t *);
} slots;

#define SLOT(name) (MstxFuncPointer *)(void *)&slots.name

static MstxFuncPointer *core[] = {NULL, SLOT(mark), SLOT(range_start), SLOT(range_end), SLOT(tool_id), NULL};
static MstxFuncPointer *core_domain[] = {NULL,
                                         SLOT(domain_create),
                                         SLOT(domain_destroy),
                                         SLOT(domain_mark),
                                         SLOT(domain_range_start),
                                         SLOT(domain_range_end),
                                         NULL};
static MstxFuncPointer *core_mem[] = {
    NULL, SLOT(heap_register), SLOT(heap_unregister), SLOT(regions_register), SLOT(regions_unregister), NULL};

static int get_table(int module, MstxFuncPointer ***outTable, unsigned int *outSize)
{
    static const struct {
        MstxFuncPointer **table;
        size_t bytes;
    } modules[] = {
        [MSTX_API_MODULE_CORE] = {core, sizeof core},
        [MSTX_API_MODULE_CORE_DOMAIN] = {core_domain, sizeof core_domain},
        [MSTX_API_MODULE_CORE_MEM] = {core_mem, sizeof core_mem},
    };
    if (module < MSTX_API_MODULE_CORE || module > MSTX_API_MODULE_CORE_MEM || !outTable || !outSize)
        return MSTX_FAIL;
    *outTable = modules[module].table;
    *outSize = (unsigned int)(modules[module].bytes / sizeof(MstxFuncPointer *)) - 1;
    return MSTX_SUCCESS;
}

static enum { FRESH, SEARCHING, DONE } state;
static _Thread_local int searching; /* this thread is inside the tool's InitInjectionMstx */

static void find_tool(void)
{
    int expected = FRESH;
    if (searching)
        return; /* the tool itself calls mstx: it hears what it has installed so far */
    if (!__atomic_compare_exchange_n((int *)&state, &expected, SEARCHING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != DONE)
            sched_yield();
        return;
    }
    searching = 1;
    const char *path = getenv("MSTX_INJECTION_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*init)(MstxGetModuleFuncTableFunc);
    *(void **)&init = dlsym(library, "InitInjectionMstx"); /* NULL: the global scope */
    if (init && init(get_table) != MSTX_SUCCESS)
        for (int module = MSTX_API_MODULE_CORE; module <= MSTX_API_MODULE_CORE_MEM; module++) {
            MstxFuncPointer **table;
            unsigned int size;
            get_table(module, &table, &size);
            for (unsigned int id = 1; id < size; id++)
                *table[id] = NULL; /* a tool that failed half-way hears nothing */
        }
    searching = 0;
    __atomic_store_n(&state, DONE, __ATOMIC_RELEASE);
}

/* Calls the tool's function, if there is one. */
#define READY()                                                          \
    do {                                                                 \
        if (UNLIKELY(__atomic_load_n(&state, __ATOMIC_ACQUIRE) != DONE)) \
            find_tool();                                                 \
    } while (0)
#define TELL(slot, ...)              \
    do {                             \
        READY();                     \
        if (slots.slot)              \
            slots.slot(__VA_ARGS__); \
    } while (0)
#define ASK(slot, otherwise, ...)                                  \
    do {                                                           \
        READY();                                                   \
        return slots.slot ? slots.slot(__VA_ARGS__) : (otherwise); \
    } while (0)

VNPU_API void mstxMarkA(const char *message, aclrtStream stream)
{
    TELL(mark, message, stream);
}

VNPU_API mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream)
{
    ASK(range_start, 0, message, stream);
}

VNPU_API void mstxRangeEnd(mstxRangeId id)
{
    TELL(range_end, id);
}

VNPU_API void mstxGetToolId(uint64_t *id)
{
    if (!id)
        return;
    *id = MSTX_TOOL_INVALID_ID;
    TELL(tool_id, id);
}

VNPU_API mstxDomainHandle_t mstxDomainCreateA(const char *name)
{
    ASK(domain_create, NULL, name);
}

VNPU_API void mstxDomainDestroy(mstxDomainHandle_t domain)
{
    TELL(domain_destroy, domain);
}

VNPU_API void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    TELL(domain_mark, domain, message, stream);
}

VNPU_API mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    ASK(domain_range_start, 0, domain, message, stream);
}

VNPU_API void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id)
{
    TELL(domain_range_end, domain, id);
}

VNPU_API mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc)
{
    ASK(heap_register, NULL, domain, desc);
}

VNPU_API void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    TELL(heap_unregister, domain, heap);
}

VNPU_API void mstxMemRegionsRegister(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc)
{
    TELL(regions_register, domain, desc);
}

VNPU_API void mstxMemRegionsUnregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc)
{
    TELL(regions_unregister, domain, desc);
}
