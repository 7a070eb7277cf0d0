/*
 * test_kernel.c - the ACL hooks.
 */
#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "msmemscope.h"

static struct collector c;

static void start(void)
{
    collector_defaults(&c);
    collector_open(&c);
    collector_serve(&c);
}

static void next(enum ms_type type)
{
    struct client *client = collector_client(&c, 0);
    struct ms_text *r = (struct ms_text *)client_peek(client);
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), type);
    CHECK_EQ(r->h.device, MS_DEVICE_NONE);
    CHECK_EQ(r->h.flags, 0);
    CHECK_EQ(r->length, 0);
    client_done(client);
}

CASE(acl_events)
{
    start();
    CHECK_EQ(aclInit(NULL), 0);
    fake.result = 100002;
    CHECK_EQ(aclInit("acl.json"), 100002);
    CHECK_EQ(aclrtSetDevice(3), 100002);
    CHECK_EQ(fake.device, 3);
    CHECK_EQ(aclFinalize(), 100002);
    CHECK_EQ(ms_stop(), 0);
    CHECK_EQ(aclFinalize(), 100002);
    CHECK_EQ(fake.calls, 5);
    next(MS_ACL_INIT);
    next(MS_ACL_INIT);
    next(MS_ACL_FINI);
    next(MS_STOP_TRACE);
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

CASE(no_acl)
{
    use_stack("none");
    start();
    CHECK_EQ(aclInit(NULL), 500000);
    CHECK_EQ(aclrtSetDevice(0), 500000);
    CHECK_EQ(aclFinalize(), 500000);
    CHECK_EQ(collector_count(&c), 0);
}

int test_kernel(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(acl_events), cmocka_unit_test(no_acl)};
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
