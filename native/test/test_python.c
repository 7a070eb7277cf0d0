/*
 * test_python.c - what the Python module reports through the C API. The exchange with a real collector is tested with
 * Python itself, test/python.
 */
#include <string.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "msmemscope.h"

static struct collector c;

static void start(uint32_t tracing)
{
    collector_defaults(&c);
    c.config.analysis = 3;
    c.tracing = tracing;
    collector_open(&c);
    collector_serve(&c);
}

/* The next record, which must be of this type; the caller ends with done(). */
static void *next(enum ms_type type)
{
    struct ms_head *h = client_peek(collector_client(&c, 0));
    CHECK(h != NULL);
    CHECK_EQ(record_type(h), type);
    return h;
}

static void done(void)
{
    client_done(collector_client(&c, 0));
}

static void no_more(void)
{
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

static void check_text(const void *text, uint32_t length, const char *want)
{
    CHECK_EQ(length, strlen(want));
    CHECK(memcmp(text, want, length) == 0);
}

static void check_next(enum ms_type type, const char *want)
{
    struct ms_text *r = next(type);
    check_text(r + 1, r->length, want);
    done();
}

CASE(options)
{
    struct ms_options o;
    start(1);
    CHECK_EQ(ms_options(&o), 0);
    CHECK_EQ(o.events, 7);
    CHECK_EQ(o.level, 1);
    CHECK_EQ(o.analysis, 3);
    CHECK_EQ(o.cpu, 1);
    CHECK_EQ(o.tracing, 1);
    ms_stop();
    CHECK_EQ(ms_options(&o), 0);
    CHECK_EQ(o.tracing, 0);
}

CASE(nobody_collects)
{
    struct ms_options o = {.events = 1};
    char reply[8] = "x";
    CHECK_EQ(ms_options(&o), -1);
    CHECK_EQ(o.events, 0);
    CHECK_EQ(ms_config("/\0", 2, reply, sizeof reply), -1);
    CHECK_EQ(reply[0], 0);
    CHECK_EQ(ms_flush(reply, sizeof reply), -1);
    CHECK_EQ(ms_snapshot(0, &(struct ms_memory){0}, "x"), -1);
    CHECK_EQ(ms_py_begin("x"), -1);
    CHECK_EQ(ms_aten_begin("x"), -1);
    CHECK_EQ(ms_aten_access("x\n", 1, 1, 1), -1);
    CHECK_EQ(ms_host_alloc(1, 1), -1);
    CHECK_EQ(ms_py_trace(&(struct ms_py_trace){.ignored_directory = ""}), -2); /* this program is no Python */
}

CASE(snapshot_while_paused)
{
    start(0);
    const struct ms_memory memory = {
        .total = 6, .free = 5, .reserved = 4, .peak_reserved = 3, .allocated = 2, .peak_allocated = 1};
    CHECK_EQ(ms_snapshot(1, &memory, "name"), 0);
    struct ms_snapshot *r = next(MS_SNAPSHOT);
    CHECK_EQ(r->h.flags, 0);
    CHECK_EQ(r->h.device, 1);
    CHECK_EQ(r->total, 6);
    CHECK_EQ(r->free, 5);
    CHECK_EQ(r->reserved, 4);
    CHECK_EQ(r->peak_reserved, 3);
    CHECK_EQ(r->allocated, 2);
    CHECK_EQ(r->peak_allocated, 1);
    check_text(r + 1, r->length, "name");
    done();
    no_more();
}

CASE(ranges)
{
    start(0);
    CHECK_EQ(ms_py_begin("paused"), 0);
    no_more();
    ms_start();
    check_next(MS_START_TRACE, "");
    CHECK_EQ(ms_py_begin("range"), 0);
    CHECK_EQ(ms_py_end("range"), 0);
    check_next(MS_PY_BEGIN, "range");
    check_next(MS_PY_END, "range");
}

CASE(operators)
{
    start(1);
    CHECK_EQ(ms_aten_begin("add"), 0);
    CHECK_EQ(ms_aten_access("add\ndtype:x,shape:y", 0x1000, 8, MS_ACCESS_WRITE), 0);
    CHECK_EQ(ms_aten_access("add\ndtype:x,shape:y", 0, 8, MS_ACCESS_WRITE), 0);
    CHECK_EQ(ms_aten_access("add\n", 0x2000, 8, 77), 0);
    CHECK_EQ(ms_aten_end("add"), 0);
    check_next(MS_ATEN_START, "add");
    struct ms_access *r = next(MS_ATEN_ACCESS);
    CHECK_EQ(r->h.pool, MS_PTA);
    CHECK_EQ(r->addr, 0x1000);
    CHECK_EQ(r->size, 8);
    CHECK_EQ(r->kind, MS_ACCESS_WRITE);
    check_text(r + 1, r->length, "add\ndtype:x,shape:y");
    done();
    r = next(MS_ATEN_ACCESS);
    CHECK_EQ(r->kind, MS_ACCESS_UNKNOWN);
    done();
    check_next(MS_ATEN_END, "add");
    no_more();
}

static void check_mark(const char *mark, uint32_t kind)
{
    ms_aten_mark(mark);
    struct ms_access *r = next(MS_ATEN_ACCESS);
    CHECK_EQ(r->addr, 4096);
    CHECK_EQ(r->size, 24);
    CHECK_EQ(r->kind, kind);
    check_text(r + 1, r->length, "aten.add\ndtype:torch.float32,shape:torch.Size([2, 3])");
    done();
}

CASE(operator_marks)
{
    start(1);
    ms_aten_mark("b: name=aten.add");
    check_next(MS_ATEN_START, "aten.add");
    ms_aten_mark("e: name=aten.add");
    check_next(MS_ATEN_END, "aten.add");
#define TAIL "is_output=False;name=aten.add;shape=torch.Size([2, 3]);dtype=torch.float32;tensor_size=24;device=npu:0"
    check_mark("ac:ptr=4096;is_write=False;is_read=True;" TAIL, MS_ACCESS_READ);
    check_mark("ac:ptr=4096;is_write=True;is_read=False;" TAIL, MS_ACCESS_WRITE);
    check_mark("ac:ptr=4096;is_write=False;is_read=False;" TAIL, MS_ACCESS_UNKNOWN);
    ms_aten_mark("ac:ptr=0;is_write=False;is_read=False;" TAIL);
    ms_aten_mark("ac:ptr=4096;is_write=True;name=x");
    ms_aten_mark("x: name=add");
    ms_aten_mark("");
    no_more();
}

static const char *marked;

static void *sanitize(const char *message, void *stream)
{
    CHECK(stream == (void *)7);
    marked = message;
    return NULL;
}

CASE(sanitizer)
{
    ms_sanitizer_mark("sanitizer-op: name=x", (void *)7); /* nobody wants it */
    ms_sanitizer(sanitize);
    ms_sanitizer_mark("sanitizer-op: name=y", (void *)7);
    CHECK(marked && strcmp(marked, "sanitizer-op: name=y") == 0);
    ms_sanitizer(NULL);
    ms_sanitizer_mark("sanitizer-op: name=z", (void *)8);
}

CASE(host_memory)
{
    start(0);
    CHECK_EQ(ms_host_alloc(0x1000, 64), 0);
    CHECK_EQ(ms_host_free(0x1000), 0);
    struct ms_alloc *a = next(MS_ALLOC);
    CHECK_EQ(a->addr, 0x1000);
    CHECK_EQ(a->size, 64);
    CHECK_EQ(a->h.pool, MS_HOST);
    CHECK_EQ(a->h.device, MS_DEVICE_CPU);
    CHECK_EQ(a->h.flags, MS_F_SHADOW);
    done();
    CHECK_EQ(((struct ms_free *)next(MS_FREE))->addr, 0x1000);
    done();
}

int test_python(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),   cmocka_unit_test(nobody_collects), cmocka_unit_test(snapshot_while_paused),
        cmocka_unit_test(ranges),    cmocka_unit_test(operators),       cmocka_unit_test(operator_marks),
        cmocka_unit_test(sanitizer), cmocka_unit_test(host_memory),
    };
    return cmocka_run_group_tests_name("python", tests, NULL, NULL);
}
