/*
 * test_hal.c - the driver hooks.
 */
#include <errno.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"

static struct collector c;
static struct client *client;

static void start(uint32_t tracing)
{
    collector_defaults(&c);
    c.tracing = tracing;
    collector_open(&c);
    collector_serve(&c);
    fake.address = (void *)0x1000;
}

static const struct ms_alloc *next(enum ms_type type)
{
    static struct ms_alloc copy;
    client = collector_client(&c, 0);
    struct ms_alloc *r;
    while ((r = (struct ms_alloc *)client_peek(client)) && type == MS_OOM && record_type(&r->h) != MS_OOM)
        client_done(client); /* such an event has a stack in any case, which is defined before it */
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), type);
    copy = *r;
    client_done(client);
    return &copy;
}

static void no_more(void)
{
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

CASE(alloc_and_free)
{
    void *p = NULL;
    start(1);
    errno = 0;
    CHECK_EQ(halMemAlloc(&p, 4096, 0x2100000000924406), 0); /* abi.md 2.1's vector: card 6 */
    CHECK_EQ(errno, EDOM);                                  /* as the driver left it */
    CHECK(p == (void *)0x1000);
    CHECK_EQ(halMemFree(p), 0);
    const struct ms_alloc *r = next(MS_ALLOC);
    CHECK_EQ(r->h.pool, MS_HAL);
    CHECK_EQ(r->h.device, 6);
    CHECK_EQ(r->h.flags, 0);
    CHECK_EQ(r->addr, 0x1000);
    CHECK_EQ(r->size, 4096);
    CHECK_EQ(r->detail, 0x2100000000924406);
    r = next(MS_FREE);
    CHECK_EQ(r->h.pool, MS_HAL);
    CHECK_EQ(r->h.device, MS_DEVICE_NONE);
    CHECK_EQ(r->addr, 0x1000);
    no_more();
}

CASE(failures)
{
    void *p = (void *)7;
    start(1);
    fake.result = 6;
    CHECK_EQ(halMemAlloc(&p, 4096, 0), 6);
    CHECK(p == (void *)7);
    struct ms_oom *oom = (struct ms_oom *)next(MS_OOM);
    CHECK(oom->h.stack != 0);
    CHECK_EQ(oom->size, 4096);
    CHECK_EQ(oom->create, 0);
    CHECK_EQ(oom->result, 6);
    CHECK_EQ(halMemCreate(&p, 8192, &(struct prop){.side = 1, .devid = 5}, 3), 6);
    oom = (struct ms_oom *)next(MS_OOM);
    CHECK_EQ(oom->h.device, 5);
    CHECK_EQ(oom->size, 8192);
    CHECK_EQ(oom->flag, 3);
    CHECK_EQ(oom->create, 1);
    fake.result = 3;
    CHECK_EQ(halMemAlloc(&p, 4096, 0), 3);
    no_more();
    CHECK_EQ(halMemFree((void *)0x2000), 3);
    CHECK(fake.last_freed == (void *)0x2000);
    CHECK_EQ(halMemRelease((void *)0x3000), 3);
    CHECK_EQ(next(MS_FREE)->addr, 0x2000);
    CHECK_EQ(next(MS_UNDO)->addr, 0x2000);
    CHECK_EQ(next(MS_FREE)->addr, 0x3000);
    CHECK_EQ(next(MS_UNDO)->addr, 0x3000);
    no_more();
    fake.result = 0;
    CHECK_EQ(halMemFree(NULL), 0); /* the driver's to judge, not an event */
    CHECK(fake.last_freed == NULL);
    no_more();
}

static void record_is_out(void)
{
    CHECK_EQ(next(MS_FREE)->addr, 0x2000);
}

CASE(free_is_recorded_first)
{
    start(1);
    fake.on_free = record_is_out;
    CHECK_EQ(halMemFree((void *)0x2000), 0);
    CHECK_EQ(fake.calls, 1);
}

CASE(host_memory)
{
    void *p;
    start(1);
    CHECK_EQ(halMemAlloc(&p, 1, 2ULL << 10 | 3), 0);
    CHECK_EQ(next(MS_ALLOC)->h.device, MS_DEVICE_CPU);
    for (unsigned long long space = 0; space < 16; space++) {
        CHECK_EQ(halMemAlloc(&p, 1, space << 10 | 3), 0);
        CHECK_EQ(next(MS_ALLOC)->h.device, space == 2 ? MS_DEVICE_CPU : 3);
    }
}

CASE(host_memory_unwanted)
{
    void *p;
    collector_defaults(&c);
    c.config.cpu = 0;
    collector_open(&c);
    collector_serve(&c);
    CHECK_EQ(halMemAlloc(&p, 1, 2ULL << 10), 0);
    CHECK_EQ(halMemCreate(&p, 1, &(struct prop){.side = 0}, 0), 0);
    CHECK_EQ(halMemAlloc(&p, 2, 1ULL << 10), 0);
    CHECK_EQ(next(MS_ALLOC)->size, 2);
    no_more();
}

CASE(create)
{
    static const struct {
        struct prop prop;
        uint16_t device;
        uint64_t detail;
    } rows[] = {
        {{.side = 1, .devid = 5, .module_id = 33, .pg_type = 1}, 5, 1 | 33 << 8 | 1ULL << 40},
        {{.side = 1, .devid = 0, .module_id = 0, .pg_type = 2}, 0, 2 | 1ULL << 40},
        {{.side = 0, .devid = 5, .module_id = 7}, MS_DEVICE_CPU, 7 << 8},
        {{.side = 2, .devid = 1, .module_id = 7}, MS_DEVICE_CPU, 7 << 8 | 2ULL << 40},
        {{.side = 1, .devid = 70000}, MS_DEVICE_NONE, 1ULL << 40},
    };
    void *handle;
    start(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake.address = (void *)(0x5000 + i);
        CHECK_EQ(halMemCreate(&handle, 77, &rows[i].prop, 9), 0);
        CHECK(handle == fake.address);
        const struct ms_alloc *r = next(MS_ALLOC);
        CHECK_EQ(r->h.flags, MS_F_CREATE);
        CHECK_EQ(r->h.device, rows[i].device);
        CHECK_EQ(r->addr, 0x5000 + i);
        CHECK_EQ(r->size, 77);
        CHECK_EQ(r->detail, rows[i].detail);
    }
    CHECK_EQ(halMemCreate(&handle, 77, NULL, 9), 0);
    no_more();
    CHECK_EQ(halMemRelease(handle), 0);
    CHECK_EQ(next(MS_FREE)->addr, (uint64_t)handle);
}

/* Virtual-memory blocks as well as others are followed while paused. */
CASE(paused)
{
    void *p;
    start(0);
    CHECK_EQ(halMemAlloc(&p, 1, 0), 0);
    CHECK_EQ(halMemCreate(&p, 1, &(struct prop){.side = 1}, 0), 0);
    CHECK_EQ(halMemRelease(p), 0);
    CHECK_EQ(next(MS_ALLOC)->h.flags, MS_F_SHADOW);
    CHECK_EQ(next(MS_ALLOC)->h.flags, MS_F_SHADOW | MS_F_CREATE);
    CHECK_EQ(next(MS_FREE)->h.flags, MS_F_SHADOW);
    no_more();
}

/* Nobody collects: the hooks are not there. */
CASE(falls_through)
{
    void *p = NULL;
    fake.address = &p;
    CHECK_EQ(halMemAlloc(&p, 1, 0), 0);
    CHECK(p == &p);
    CHECK_EQ(halMemFree(p), 0);
    CHECK_EQ(halMemCreate(&p, 1, NULL, 0), 0);
    CHECK_EQ(halMemRelease(p), 0);
    CHECK_EQ(fake.calls, 4);
    fake.result = 5;
    CHECK_EQ(halMemFree(p), 5);
    CHECK_EQ(halMemRelease(p), 5);
}

CASE(older_driver)
{
    void *p;
    use_stack("plain");
    start(1);
    CHECK_EQ(halMemAlloc(&p, 1, 0), 0);
    CHECK_EQ(halMemFree(p), 0);
    CHECK_EQ(halMemCreate(&p, 1, &(struct prop){.side = 1}, 0), 0);
    CHECK_EQ(halMemRelease(p), 0);
    CHECK_EQ(fake.calls, 4);
    next(MS_ALLOC);
    next(MS_FREE);
    next(MS_ALLOC);
    next(MS_FREE);
}

CASE(no_driver)
{
    void *p;
    use_stack("none");
    start(1);
    CHECK_EQ(halMemAlloc(&p, 1, 0), 0xfffe);
    CHECK_EQ(halMemFree(p), 0xfffe);
    CHECK_EQ(halMemCreate(&p, 1, &(struct prop){.side = 1}, 0), 0xffff);
    CHECK_EQ(halMemRelease(p), 0xffff);
    CHECK_EQ(collector_count(&c), 0);
}

int test_hal(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_and_free),
        cmocka_unit_test(failures),
        cmocka_unit_test(free_is_recorded_first),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(host_memory_unwanted),
        cmocka_unit_test(create),
        cmocka_unit_test(paused),
        cmocka_unit_test(falls_through),
        cmocka_unit_test(older_driver),
        cmocka_unit_test(no_driver),
    };
    return cmocka_run_group_tests_name("hal", tests, NULL, NULL);
}
