/*
 * test_mstx.c - injection, marks, ranges, and pools as torch_npu reports them.
 */
#include <pthread.h>
#include <string.h>

#include "../hooks/mstx/mstx_abi.h"
#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "msmemscope.h"

int InitInjectionMstx(MstxGetModuleFuncTableFunc getter);

static struct collector c;

/* A context of mstx: its slots, and the getter that hands them out. */
static struct {
    void (*mark)(const char *, void *);
    uint64_t (*range_start)(const char *, void *);
    void (*range_end)(uint64_t);
    MstxFuncPointer tool_id;
    mstxDomainHandle_t (*domain_create)(const char *);
    void (*domain_destroy)(mstxDomainHandle_t);
    void (*domain_mark)(mstxDomainHandle_t, const char *, void *);
    uint64_t (*domain_range_start)(mstxDomainHandle_t, const char *, void *);
    void (*domain_range_end)(mstxDomainHandle_t, uint64_t);
    mstxMemHeapHandle_t (*heap_register)(mstxDomainHandle_t, const mstxMemHeapDesc_t *);
    void (*heap_unregister)(mstxDomainHandle_t, mstxMemHeapHandle_t);
    void (*regions_register)(mstxDomainHandle_t, const mstxMemRegionsRegisterBatch_t *);
    void (*regions_unregister)(mstxDomainHandle_t, const mstxMemRegionsUnregisterBatch_t *);
} api;

#define SLOT(name) ((MstxFuncPointer *)&api.name)
static MstxFuncPointer *core[] = {NULL, SLOT(mark), SLOT(range_start), SLOT(range_end), SLOT(tool_id), NULL};
static MstxFuncPointer *domains[] = {NULL,
                                     SLOT(domain_create),
                                     SLOT(domain_destroy),
                                     SLOT(domain_mark),
                                     SLOT(domain_range_start),
                                     SLOT(domain_range_end),
                                     NULL};
static MstxFuncPointer *mem[] = {
    NULL, SLOT(heap_register), SLOT(heap_unregister), SLOT(regions_register), SLOT(regions_unregister), NULL};

static int missing_module;
static unsigned int domain_size = 6;

static int getter(int module, MstxFuncPointer ***table, unsigned int *size)
{
    if (module == missing_module)
        return 1;
    if (module == -missing_module) { /* succeeds with nothing in hand */
        *table = NULL;
        return 0;
    }
    *table = module == MSTX_CORE ? core : module == MSTX_CORE_DOMAIN ? domains : mem;
    *size = module == MSTX_CORE_DOMAIN ? domain_size : 5;
    return 0;
}

static void start(void)
{
    collector_defaults(&c);
    collector_open(&c);
    collector_serve(&c);
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
}

static struct ms_text next_text(enum ms_type type, const char *text)
{
    struct client *client = collector_client(&c, 0);
    struct ms_text *r = (struct ms_text *)client_peek(client), copy;
    CHECK(r != NULL);
    copy = *r;
    CHECK_EQ(record_type(&r->h), type);
    CHECK_EQ(r->length, strlen(text));
    CHECK(memcmp(r + 1, text, r->length) == 0);
    client_done(client);
    return copy;
}

static void check_next(enum ms_type type, uint16_t device, uint64_t addr, uint64_t size, uint64_t total, uint8_t flags)
{
    struct client *client = collector_client(&c, 0);
    struct ms_head *h = client_peek(client);
    CHECK(h != NULL);
    CHECK_EQ(record_type(h), type);
    CHECK_EQ(h->pool, MS_PTA);
    CHECK_EQ(h->device, device);
    CHECK_EQ(h->flags, flags);
    if (type == MS_ALLOC) {
        CHECK_EQ(((struct ms_alloc *)h)->addr, addr);
        CHECK_EQ(((struct ms_alloc *)h)->size, size);
        CHECK_EQ(((struct ms_alloc *)h)->total, total);
    } else {
        CHECK_EQ(((struct ms_free *)h)->addr, addr);
        CHECK_EQ(((struct ms_free *)h)->total, total);
    }
    client_done(client);
}

static void no_more(void)
{
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

CASE(injection)
{
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
    CHECK(api.mark && api.range_start && api.range_end && api.domain_create && api.domain_destroy && api.domain_mark);
    CHECK(api.domain_range_start && api.domain_range_end && api.heap_register && api.heap_unregister);
    CHECK(api.regions_register && api.regions_unregister);
    CHECK(api.tool_id == NULL);
    memset(&api, 0, sizeof api); /* another context */
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
    CHECK(api.mark && api.regions_unregister);
}

CASE(smaller_tables)
{
    domain_size = 2;   /* an mstx that knows DomainCreateA only */
    domains[2] = NULL; /* beyond its end */
    core[2] = NULL;    /* and one without a slot */
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
    CHECK(api.domain_create && !api.domain_mark && api.mark && !api.range_start);
}

CASE(bad_getters)
{
    CHECK_EQ(InitInjectionMstx(NULL), MSTX_FAIL);
    for (missing_module = MSTX_CORE; missing_module < MSTX_MODULES; missing_module++)
        CHECK_EQ(InitInjectionMstx(getter), MSTX_FAIL);
    missing_module = -MSTX_CORE_MEM;
    CHECK_EQ(InitInjectionMstx(getter), MSTX_FAIL);
    CHECK(!api.mark && !api.heap_register); /* nothing by halves */
}

CASE(older)
{
    start();
    missing_module = MSTX_CORE_MEM;
    CHECK_EQ(InitInjectionMstx(getter), MSTX_FAIL);
    next_text(MS_KERNEL_NOTICE, "marks and pools are not recorded: an mstx here is too old");
    CHECK_EQ(InitInjectionMstx(getter), MSTX_FAIL);
    no_more(); /* once is enough */
}

CASE(marks)
{
    start();
    api.mark("hello", NULL);
    struct ms_text r = next_text(MS_MARK, "hello");
    CHECK_EQ(r.value, 0);
    CHECK_EQ(r.h.device, MS_DEVICE_NONE);
    api.mark(NULL, NULL);
    next_text(MS_MARK, "");
    api.mark("", NULL);
    next_text(MS_MARK, "");
    static const char *const formulas[] = {"=1+1", "+x", "-x", "@x"};
    for (int i = 0; i < 4; i++) {
        api.mark(formulas[i], NULL);
        next_text(MS_MARK, "");
    }
    api.mark("a=b", NULL);
    next_text(MS_MARK, "a=b");
    api.mark("sanitizer-op: name=add", NULL);
    api.mark("memscope-aten-b: name=add", NULL);
    next_text(MS_ATEN_START, "add");
    no_more();
    ms_stop();
    next_text(MS_STOP_TRACE, "");
    api.mark("paused", NULL);
    no_more();
}

CASE(ranges)
{
    start();
    CHECK_EQ(api.range_start("step start", NULL), 1);
    CHECK_EQ(api.range_start(NULL, NULL), 2);
    CHECK_EQ(api.range_start("=x", NULL), 3);
    api.range_end(2);
    CHECK_EQ(next_text(MS_RANGE_START, "step start").value, 1);
    CHECK_EQ(next_text(MS_RANGE_START, "").value, 2);
    CHECK_EQ(next_text(MS_RANGE_START, "").value, 3);
    CHECK_EQ(next_text(MS_RANGE_END, "").value, 2);
    api.range_end(0); /* began while paused */
    ms_stop();
    next_text(MS_STOP_TRACE, "");
    CHECK_EQ(api.range_start("paused", NULL), 0);
    api.range_end(1);
    no_more();
}

CASE(other_domains)
{
    start();
    CHECK(api.domain_create("test") == NULL);
    CHECK(api.domain_create(NULL) == NULL);
    CHECK(api.domain_create("") == NULL);
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    CHECK(pta != NULL);
    CHECK(api.domain_create("ptaCaching") == pta && api.domain_create("msleaks") == pta);
    api.domain_mark(pta, "x", NULL);
    api.domain_mark(NULL, NULL, NULL);
    CHECK_EQ(api.domain_range_start(pta, "x", NULL), 0);
    api.domain_range_end(pta, 0);
    api.domain_destroy(pta);
    api.domain_destroy(NULL);
    api.heap_unregister(pta, NULL);
    CHECK_EQ(collector_count(&c), 0);
}

/* What torch_npu leaves uninitialised is poison here. */
static void heap(mstxDomainHandle_t domain, uint32_t device, uint64_t reserved)
{
    mstxMemVirtualRangeDesc_t range = {device, (void *)0x100, reserved};
    mstxMemHeapDesc_t desc;
    memset(&desc, 0xee, sizeof desc);
    desc.typeSpecificDesc = &range;
    CHECK(api.heap_register(domain, &desc) == NULL);
}

static void regions(mstxDomainHandle_t domain, size_t count, const mstxMemVirtualRangeDesc_t *array)
{
    mstxMemRegionsRegisterBatch_t batch;
    memset(&batch, 0xee, sizeof batch);
    batch.regionCount = count;
    batch.regionDescArray = array;
    api.regions_register(domain, &batch);
}

static void regions_gone(mstxDomainHandle_t domain, size_t count, const mstxMemRegionRef_t *array)
{
    api.regions_unregister(domain, &(mstxMemRegionsUnregisterBatch_t){count, array});
}

CASE(caching_pool)
{
    setenv("ASCEND_RT_VISIBLE_DEVICES", "4,5", 1);
    start();
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    heap(pta, 1, 1 << 20);
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){1, (void *)0xa0, 512});
    check_next(MS_ALLOC, 5, 0xa0, 512, 1 << 20, 0);
    /* Every region of a batch counts. */
    heap(pta, 0, 77);
    regions(pta, 3, (mstxMemVirtualRangeDesc_t[]){{0, (void *)1, 10}, {1, (void *)2, 20}, {0, (void *)3, 30}});
    check_next(MS_ALLOC, 4, 1, 10, 77, 0);
    check_next(MS_ALLOC, 5, 2, 20, 1 << 20, 0);
    check_next(MS_ALLOC, 4, 3, 30, 77, 0);
    /* Gone by pointer, with what the heap named just before has left; handles are not this pool's. */
    heap(pta, 1, 1 << 19);
    regions_gone(pta, 3, (mstxMemRegionRef_t[]){{0, (void *)0xa0}, {1, (void *)9}, {0, (void *)2}});
    check_next(MS_FREE, MS_DEVICE_NONE, 0xa0, 0, 1 << 19, 0);
    check_next(MS_FREE, MS_DEVICE_NONE, 2, 0, 1 << 19, 0);
    no_more();
}

CASE(odd_devices)
{
    start();
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    heap(pta, 0x103, 99); /* cut to int8: 3 */
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){0x203, (void *)1, 10});
    check_next(MS_ALLOC, 3, 1, 10, 99, 0);
    heap(pta, 0xff, 98); /* -1 */
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){0xff, (void *)2, 10});
    check_next(MS_ALLOC, MS_DEVICE_NONE, 2, 10, 0, 0);
    heap(pta, 127, 97);
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){127, (void *)3, 10});
    check_next(MS_ALLOC, 127, 3, 10, 97, 0);
}

CASE(paused_pool)
{
    start();
    ms_stop();
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    heap(pta, 0, 55);
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){0, (void *)1, 10});
    regions_gone(pta, 1, &(mstxMemRegionRef_t){0, (void *)1});
    ms_start();
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){0, (void *)2, 10}); /* reserved while paused is known */
    next_text(MS_STOP_TRACE, "");
    check_next(MS_ALLOC, 0, 1, 10, 55, MS_F_SHADOW);
    check_next(MS_FREE, MS_DEVICE_NONE, 1, 0, 55, MS_F_SHADOW);
    next_text(MS_START_TRACE, "");
    check_next(MS_ALLOC, 0, 2, 10, 55, 0);
}

CASE(filtered_device)
{
    collector_defaults(&c);
    c.config.all_npu = 0;
    c.config.npu_slots = 2;
    collector_open(&c);
    collector_serve(&c);
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
    regions(api.domain_create("ptaCaching"), 2, (mstxMemVirtualRangeDesc_t[]){{0, (void *)1, 10}, {1, (void *)2, 20}});
    check_next(MS_ALLOC, 1, 2, 20, 0, 0);
    no_more();
}

CASE(nonsense)
{
    start();
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    CHECK(api.heap_register(NULL, NULL) == NULL);
    CHECK(api.heap_register(pta, NULL) == NULL);
    CHECK(api.heap_register(pta, &(mstxMemHeapDesc_t){.typeSpecificDesc = NULL}) == NULL);
    api.regions_register(NULL, NULL);
    api.regions_register(pta, NULL);
    regions(pta, 5, NULL);
    regions(NULL, 1, &(mstxMemVirtualRangeDesc_t){0, (void *)1, 10});
    api.regions_unregister(NULL, NULL);
    api.regions_unregister(pta, NULL);
    regions_gone(pta, 5, NULL);
    regions_gone(NULL, 1, &(mstxMemRegionRef_t){0, (void *)1});
    CHECK_EQ(collector_count(&c), 0);
}

static void *inject(void *arg)
{
    (void)arg;
    CHECK_EQ(InitInjectionMstx(getter), MSTX_SUCCESS);
    return NULL;
}

CASE(nobody_collects)
{
    inject(NULL);
    mstxDomainHandle_t pta = api.domain_create("ptaCaching");
    api.mark("x", NULL);
    CHECK_EQ(api.range_start("x", NULL), 0);
    api.range_end(1);
    heap(pta, 0, 1);
    regions(pta, 1, &(mstxMemVirtualRangeDesc_t){0, (void *)1, 10});
    regions_gone(pta, 1, &(mstxMemRegionRef_t){0, (void *)1});
}

int test_mstx(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injection),       cmocka_unit_test(smaller_tables), cmocka_unit_test(bad_getters),
        cmocka_unit_test(marks),           cmocka_unit_test(ranges),         cmocka_unit_test(other_domains),
        cmocka_unit_test(caching_pool),    cmocka_unit_test(odd_devices),    cmocka_unit_test(paused_pool),
        cmocka_unit_test(filtered_device), cmocka_unit_test(nonsense),       cmocka_unit_test(nobody_collects),
        cmocka_unit_test(older),
    };
    return cmocka_run_group_tests_name("mstx", tests, NULL, NULL);
}
