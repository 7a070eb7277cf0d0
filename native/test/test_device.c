/*
 * test_device.c - physical and current cards.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "state.h"

static struct collector c;

static void connect_with(const char *list)
{
    if (list)
        setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1);
    else
        unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    if (!c.name[0]) {
        collector_defaults(&c);
        collector_open(&c);
        collector_serve(&c);
    } else {
        agent.life->state = LIFE_INIT; /* as a fork does */
    }
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    ms_leave();
}

CASE(physical)
{
    static const struct {
        const char *list;
        int logical, physical;
    } rows[] = {
        {NULL, 5, 5},
        {NULL, -1, MS_DEVICE_NONE},
        {NULL, 9999, MS_DEVICE_NONE},
        {"3", 0, 3},
        {"3", 1, MS_DEVICE_NONE},
        {" 4 ,\t2", 0, 4},
        {" 4 ,\t2", 1, 2},
        {"4,2", -1, MS_DEVICE_NONE},
        {"", 1, 1},
        {"x", 1, 1},
        {"1,", 1, 1},
        {"1,,2", 1, 1},
        {"1;2", 1, 1},
        {"-1", 1, 1},
        {"9999", 1, 1},
        {"99999999999999", 1, 1},
        {"0,9998", 1, 9998},
        {"1 2", 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        connect_with(rows[i].list);
        if (ms_physical_device(rows[i].logical) != rows[i].physical)
            fprintf(stderr, "row %zu, list %s\n", i, rows[i].list);
        CHECK_EQ(ms_physical_device(rows[i].logical), rows[i].physical);
    }
}

CASE(too_many)
{
    char list[400] = "7";
    for (int i = 0; i < 63; i++)
        strcat(list, ",7");
    connect_with(list);
    CHECK_EQ(ms_physical_device(63), 7);
    strcat(list, ",7");
    connect_with(list);
    CHECK_EQ(ms_physical_device(63), 63); /* not a list of cards any more */
}

CASE(bad_list_is_logged)
{
    connect_with("1,two");
    struct ms_text *r = (struct ms_text *)client_peek(collector_client(&c, 0));
    const char *want = "Invalid format for ASCEND_RT_VISIBLE_DEVICES:1,two";
    CHECK(r != NULL);
    CHECK_EQ(record_type(&r->h), MS_LOG);
    CHECK_EQ(r->value, MS_LOG_WARN);
    CHECK_EQ(record_tid(&r->h), syscall(SYS_gettid));
    CHECK(r->length == strlen(want) && memcmp(r + 1, want, r->length) == 0);
}

static void load_runtime(const char *edition)
{
    char path[700];
    use_stack(edition);
    snprintf(path, sizeof path, "%s/lib64/libascendcl.so", getenv("ASCEND_HOME_PATH"));
    CHECK(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
}

static uint16_t current(void)
{
    CHECK_EQ(ms_enter(MS_TRACE), MS_NORMAL);
    errno = EDOM;
    uint16_t device = ms_current_device();
    CHECK_EQ(errno, EDOM);
    ms_leave();
    return device;
}

static void check_current(const char *edition)
{
    connect_with("6,7");
    CHECK_EQ(current(), MS_DEVICE_NONE); /* no runtime yet */
    CHECK_EQ(current(), MS_DEVICE_NONE);
    load_runtime(edition);
    fake.device = 1;
    fake.device_result = 107002;
    CHECK_EQ(current(), MS_DEVICE_NONE);
    fake.device_result = 0;
    CHECK_EQ(current(), 7);
    fake.device = 2;
    CHECK_EQ(current(), MS_DEVICE_NONE);
    CHECK_EQ(fake.device_calls, 3);
    /* The runtime allocated memory on the way: that is not the program's. */
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

CASE(current_device)
{
    check_current("inner");
}

CASE(older_runtime)
{
    check_current("plain");
}

int test_device(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(physical),       cmocka_unit_test(too_many),      cmocka_unit_test(bad_list_is_logged),
        cmocka_unit_test(current_device), cmocka_unit_test(older_runtime),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
