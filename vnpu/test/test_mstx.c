/* test_mstx.c - mstx in a process whose global scope has a tool: this program exports InitInjectionMstx. */
#define _GNU_SOURCE
#include "child.h"

#include <pthread.h>

#include "mstx/ms_tools_ext.h"

static int inits, result, calls[14];
static int slow, recursive;

static void mark(const char *message, aclrtStream stream)
{
    __atomic_add_fetch(&calls[1], message && stream == (void *)1, __ATOMIC_RELAXED);
}

static mstxRangeId range_start(const char *message, aclrtStream stream)
{
    (void)message, (void)stream;
    return 42;
}

static void range_end(mstxRangeId id)
{
    calls[3] += id == 42;
}

static void tool_id(uint64_t *id)
{
    *id = 0x1003;
}

static mstxDomainHandle_t domain_create(const char *name)
{
    return strcmp(name, "ptaCaching") ? NULL : (mstxDomainHandle_t)5;
}

static void domain_destroy(mstxDomainHandle_t domain)
{
    calls[6] += domain == (mstxDomainHandle_t)5;
}

static void domain_mark(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    calls[7] += domain && message && !stream;
}

static mstxRangeId domain_range_start(mstxDomainHandle_t domain, const char *message, aclrtStream stream)
{
    (void)message, (void)stream;
    return domain ? 43 : 0;
}

static void domain_range_end(mstxDomainHandle_t domain, mstxRangeId id)
{
    calls[9] += domain && id == 43;
}

static mstxMemHeapHandle_t heap_register(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc)
{
    return domain ? (mstxMemHeapHandle_t)desc->typeSpecificDesc : NULL;
}

static void heap_unregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap)
{
    calls[11] += domain && heap;
}

static void regions_register(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc)
{
    calls[12] += domain && desc->regionCount == 1;
}

static void regions_unregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc)
{
    calls[13] += domain && desc->refCount == 1;
}

static const MstxFuncPointer tool[3][5] = {
    {(MstxFuncPointer)mark, (MstxFuncPointer)range_start, (MstxFuncPointer)range_end, (MstxFuncPointer)tool_id},
    {(MstxFuncPointer)domain_create, (MstxFuncPointer)domain_destroy, (MstxFuncPointer)domain_mark,
     (MstxFuncPointer)domain_range_start, (MstxFuncPointer)domain_range_end},
    {(MstxFuncPointer)heap_register, (MstxFuncPointer)heap_unregister, (MstxFuncPointer)regions_register,
     (MstxFuncPointer)regions_unregister},
};

__attribute__((visibility("default"))) int InitInjectionMstx(MstxGetModuleFuncTableFunc getter)
{
    static const unsigned sizes[] = {5, 6, 5};
    __atomic_add_fetch(&inits, 1, __ATOMIC_RELAXED);
    MstxFuncPointer **table;
    unsigned int size;
    EXPECT(getter(0, &table, &size) == MSTX_FAIL);
    EXPECT(getter(4, &table, &size) == MSTX_FAIL);
    EXPECT(getter(1, NULL, &size) == MSTX_FAIL);
    EXPECT(getter(1, &table, NULL) == MSTX_FAIL);
    for (int module = 1; module <= 3; module++) {
        EXPECT(getter(module, &table, &size) == MSTX_SUCCESS);
        EXPECT(size == sizes[module - 1]);
        EXPECT(table[0] == NULL && table[size] == NULL);
        for (unsigned id = 1; id < size; id++)
            *table[id] = tool[module - 1][id - 1];
    }
    if (recursive)
        mstxMarkA("from inside", (void *)1); /* must not wait for itself */
    if (slow)
        usleep(50000);
    return result;
}

static void every_function_arrives(void)
{
    uint64_t id = 0;
    mstxMarkA("m", (void *)1);
    EXPECT(calls[1] == 1);
    EXPECT(mstxRangeStartA("r", NULL) == 42);
    mstxRangeEnd(42);
    EXPECT(calls[3] == 1);
    mstxGetToolId(&id);
    EXPECT(id == 0x1003);
    EXPECT(mstxDomainCreateA("test") == NULL);
    mstxDomainHandle_t domain = mstxDomainCreateA("ptaCaching");
    EXPECT(domain != NULL);
    mstxDomainMarkA(domain, "m", NULL);
    mstxDomainRangeEnd(domain, mstxDomainRangeStartA(domain, "r", NULL));
    mstxMemVirtualRangeDesc_t range = {0, &id, 8};
    mstxMemHeapDesc_t desc = {.typeSpecificDesc = &range};
    mstxMemRegionsRegisterBatch_t batch = {.regionCount = 1, .regionDescArray = &range};
    mstxMemRegionRef_t reference = {.pointer = &id};
    mstxMemRegionsUnregisterBatch_t unregister = {1, &reference};
    mstxMemHeapHandle_t heap = mstxMemHeapRegister(domain, &desc);
    EXPECT(heap == (mstxMemHeapHandle_t)&range);
    mstxMemRegionsRegister(domain, &batch);
    mstxMemRegionsUnregister(domain, &unregister);
    mstxMemHeapUnregister(domain, heap);
    mstxDomainDestroy(domain);
    for (int id7 = 6; id7 <= 13; id7++)
        EXPECT(calls[id7] == (id7 != 8 && id7 != 10));
    EXPECT(inits == 1);
}

static void a_tool_in_the_global_scope_hears_everything(void **state)
{
    (void)state;
    in_child(every_function_arrives, NULL, NULL, 0);
}

static void nobody_hears(void)
{
    result = MSTX_FAIL;
    mstxMarkA("m", (void *)1);
    EXPECT(mstxRangeStartA("r", NULL) == 0);
    EXPECT(calls[1] == 0 && inits == 1);
}

static void a_tool_that_fails_hears_nothing(void **state)
{
    (void)state;
    in_child(nobody_hears, NULL, NULL, 0);
}

static void both_marks_arrive(void)
{
    recursive = 1;
    alarm(20);
    mstxMarkA("m", (void *)1);
    EXPECT(calls[1] == 2);
}

static void a_tool_may_call_mstx_while_it_starts(void **state)
{
    (void)state;
    in_child(both_marks_arrive, NULL, NULL, 0);
}

static void *mark_once(void *unused)
{
    mstxMarkA("m", (void *)1);
    return unused;
}

static void sixteen_threads_at_once(void)
{
    slow = 1;
    pthread_t threads[16];
    for (int i = 0; i < 16; i++)
        EXPECT(pthread_create(&threads[i], NULL, mark_once, NULL) == 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    EXPECT(inits == 1);
    EXPECT(calls[1] == 16); /* nobody ran past a tool that was still starting */
}

static void first_calls_of_many_threads_wait_for_the_tool(void **state)
{
    (void)state;
    in_child(sixteen_threads_at_once, NULL, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tool_in_the_global_scope_hears_everything),
        cmocka_unit_test(a_tool_that_fails_hears_nothing),
        cmocka_unit_test(a_tool_may_call_mstx_while_it_starts),
        cmocka_unit_test(first_calls_of_many_threads_wait_for_the_tool),
    };
    return cmocka_run_group_tests_name("mstx", tests, NULL, NULL);
}
