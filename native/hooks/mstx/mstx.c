/*
 * mstx.c - marks, ranges, and the way in (abi.md 3.1, 3.3). The pools are in pool.c.
 */
#include "agent.h"
#include "pool.h"

#include <string.h>

/* What follows `prefix` in the message, NULL when it does not begin so. */
static const char *after(const char *message, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(message, prefix, length) == 0 ? message + length : NULL;
}

/* Messages that are not the user's own are no marks: operators of PyTorch, and what goes to the NPU sanitizer. */
static bool special(const char *message, void *stream)
{
    if (*message != 'm' && *message != 's')
        return false;
    const char *aten = after(message, "memscope-aten-");
    if (aten)
        ms_aten_mark(aten);
    else if (after(message, "sanitizer-op:"))
        ms_sanitizer_mark(message, stream);
    else
        return false;
    return true;
}

/* A text that a spreadsheet would take for a formula becomes empty. */
static const char *harmless(const char *message)
{
    return *message && strchr("=+-@", *message) ? "" : message;
}

static void mark(const char *message, void *stream)
{
    message = message ? message : "";
    if (special(message, stream) || ms_enter(MS_TRACE) == MS_SKIP)
        return;
    ms_put_text(MS_MARK, ms_current_device(), 0, harmless(message));
    ms_leave();
}

/* Returns 0 while not tracing, so that its end is not recorded either. */
static uint64_t range_start(const char *message, void *stream)
{
    static uint64_t last_id;
    (void)stream;
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return 0;
    uint64_t id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    ms_put_text(MS_RANGE_START, ms_current_device(), id, harmless(message ? message : ""));
    ms_leave();
    return id;
}

static void range_end(uint64_t id)
{
    if (id == 0 || ms_enter(MS_TRACE) == MS_SKIP)
        return;
    ms_put_text(MS_RANGE_END, ms_current_device(), id, NULL);
    ms_leave();
}

/* Marks and ranges are recorded in the default domain only; in the others they cost their caller nothing. */
static void domain_destroy(mstxDomainHandle_t domain)
{
    (void)domain;
}

static void domain_mark(mstxDomainHandle_t domain, const char *message, void *stream)
{
    (void)domain, (void)message, (void)stream;
}

static uint64_t domain_range_start(mstxDomainHandle_t domain, const char *message, void *stream)
{
    (void)domain, (void)message, (void)stream;
    return 0;
}

static void domain_range_end(mstxDomainHandle_t domain, uint64_t id)
{
    (void)domain, (void)id;
}

/* Once in a process: several libraries may be as old. */
static int refuse(void)
{
    static bool told;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED) && ms_enter(MS_MEMORY) != MS_SKIP) {
        ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0, "marks and pools are not recorded: an mstx here is too old");
        ms_leave();
    }
    return MSTX_FAIL;
}

/* Called once by each library that embeds mstx, possibly at the same time by several: every table gets filled. */
MS_EXPORT int InitInjectionMstx(MstxGetModuleFuncTableFunc getFuncTable)
{
    const struct {
        int module;
        unsigned int id;
        MstxFuncPointer function;
    } functions[] = {
        {MSTX_CORE, MSTX_MARK_A, (MstxFuncPointer)mark},
        {MSTX_CORE, MSTX_RANGE_START_A, (MstxFuncPointer)range_start},
        {MSTX_CORE, MSTX_RANGE_END, (MstxFuncPointer)range_end},
        {MSTX_CORE_DOMAIN, MSTX_DOMAIN_CREATE_A, (MstxFuncPointer)pool_domain},
        {MSTX_CORE_DOMAIN, MSTX_DOMAIN_DESTROY, (MstxFuncPointer)domain_destroy},
        {MSTX_CORE_DOMAIN, MSTX_DOMAIN_MARK_A, (MstxFuncPointer)domain_mark},
        {MSTX_CORE_DOMAIN, MSTX_DOMAIN_RANGE_START_A, (MstxFuncPointer)domain_range_start},
        {MSTX_CORE_DOMAIN, MSTX_DOMAIN_RANGE_END, (MstxFuncPointer)domain_range_end},
        {MSTX_CORE_MEM, MSTX_MEM_HEAP_REGISTER, (MstxFuncPointer)pool_heap_register},
        {MSTX_CORE_MEM, MSTX_MEM_HEAP_UNREGISTER, (MstxFuncPointer)pool_heap_unregister},
        {MSTX_CORE_MEM, MSTX_MEM_REGIONS_REGISTER, (MstxFuncPointer)pool_regions_register},
        {MSTX_CORE_MEM, MSTX_MEM_REGIONS_UNREGISTER, (MstxFuncPointer)pool_regions_unregister},
    };
    MstxFuncPointer **table[MSTX_MODULES] = {NULL};
    unsigned int size[MSTX_MODULES] = {0};
    for (int module = MSTX_CORE; module < MSTX_MODULES; module++)
        if (!getFuncTable || getFuncTable(module, &table[module], &size[module]) != MSTX_SUCCESS || !table[module])
            return refuse();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        int module = functions[i].module;
        unsigned int id = functions[i].id;
        if (id < size[module] && table[module][id])
            *table[module][id] = functions[i].function;
    }
    return MSTX_SUCCESS;
}
