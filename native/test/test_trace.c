/*
 * test_trace.c - text records, the log, and start, stop, step.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "msmemscope.h"
#include "state.h"

static struct collector c;
static struct client *client;

static void start(uint32_t tracing)
{
    collector_defaults(&c);
    c.tracing = tracing;
    collector_open(&c);
    collector_serve(&c);
}

/* The next record has to be of this type; it is taken. */
static struct ms_text next(enum ms_type type, const char *text)
{
    client = collector_client(&c, 0);
    struct ms_text *r = (struct ms_text *)client_peek(client), copy;
    CHECK(r != NULL);
    copy = *r;
    CHECK_EQ(record_type(&r->h), type);
    CHECK_EQ(r->length, strlen(text));
    CHECK_EQ(record_bytes(&r->h), (sizeof *r + r->length + 7) / 8 * 8);
    CHECK(memcmp(r + 1, text, r->length) == 0);
    client_done(client);
    return copy;
}

static void no_more(void)
{
    CHECK(client_peek(collector_client(&c, 0)) == NULL);
}

static void put(enum ms_type type, uint64_t value, const char *text)
{
    CHECK_EQ(ms_enter(MS_TRACE), MS_NORMAL);
    ms_put_text(type, MS_DEVICE_NONE, value, text);
    ms_leave();
}

CASE(texts)
{
    start(1);
    put(MS_MARK, 1, "one");
    CHECK_EQ(next(MS_MARK, "one").value, 1);
    put(MS_MARK, 2, NULL);
    next(MS_MARK, "");
    put(MS_MARK, 3, "");
    next(MS_MARK, "");
    put(MS_MARK, 4, "12345678");
    next(MS_MARK, "12345678");
}

CASE(long_texts_are_cut)
{
    char text[2 * MS_TEXT_MAX], cut[MS_TEXT_MAX + 1];
    start(1);
    memset(text, 'a', sizeof text);
    text[MS_TEXT_MAX] = 0; /* just fits */
    put(MS_MARK, 0, text);
    next(MS_MARK, text);
    text[MS_TEXT_MAX] = 'a';
    text[sizeof text - 1] = 0;
    memset(cut, 'a', sizeof cut);
    cut[MS_TEXT_MAX] = 0;
    put(MS_MARK, 0, text);
    next(MS_MARK, cut);
    /* U+6B65 in three bytes, of which two would fit: it goes as a whole */
    memcpy(text + MS_TEXT_MAX - 2, "\xe6\xad\xa5", 3);
    cut[MS_TEXT_MAX - 2] = 0;
    put(MS_MARK, 0, text);
    next(MS_MARK, cut);
}

CASE(log_levels)
{
    char text[2 * MS_TEXT_MAX], cut[MS_TEXT_MAX + 1];
    start(1);
    CHECK_EQ(ms_enter(MS_TRACE), MS_NORMAL);
    errno = EDOM;
    ms_log(MS_LOG_DEBUG, "not wanted");
    ms_log(MS_LOG_ERROR, "card %d: %s", 3, "bad");
    memset(text, 'b', sizeof text);
    text[sizeof text - 1] = 0;
    ms_log(MS_LOG_INFO, "%s", text);
    CHECK_EQ(errno, EDOM);
    ms_leave();
    struct ms_text r = next(MS_LOG, "card 3: bad");
    CHECK_EQ(r.value, MS_LOG_ERROR);
    CHECK_EQ(r.h.device, MS_DEVICE_NONE);
    memset(cut, 'b', sizeof cut);
    cut[MS_TEXT_MAX] = 0;
    CHECK_EQ(next(MS_LOG, cut).value, MS_LOG_INFO);
    no_more();
}

static void put_memory(void)
{
    CHECK(ms_enter(MS_MEMORY) != MS_SKIP);
    struct ms_free *r = ms_reserve(MS_FREE, MS_HAL, MS_DEVICE_NONE, sizeof *r);
    ms_publish(&r->h);
    ms_leave();
}

static uint8_t next_memory_flags(void)
{
    client = collector_client(&c, 0);
    struct ms_head *h = client_peek(client);
    CHECK(h != NULL);
    CHECK_EQ(record_type(h), MS_FREE);
    uint8_t flags = h->flags;
    client_done(client);
    return flags;
}

CASE(start_stop)
{
    start(0);
    put_memory();
    CHECK_EQ(ms_start(), 0);
    CHECK_EQ(ms_start(), 0); /* nothing twice */
    CHECK_EQ(agent.ring->tracing, 1);
    put_memory();
    CHECK_EQ(ms_stop(), 0);
    CHECK_EQ(ms_stop(), 0);
    CHECK_EQ(agent.ring->tracing, 0);
    put_memory();
    CHECK_EQ(ms_start(), 0);

    CHECK_EQ(next_memory_flags(), MS_F_SHADOW);
    CHECK_EQ(next(MS_START_TRACE, "").h.flags, 0);
    CHECK_EQ(next_memory_flags(), 0);
    CHECK_EQ(next(MS_STOP_TRACE, "").h.flags, 0);
    CHECK_EQ(next_memory_flags(), MS_F_SHADOW);
    CHECK_EQ(next(MS_START_TRACE, "").h.flags, 0);
    no_more();
}

static void *stop_thread(void *arg)
{
    CHECK_EQ(ms_stop(), 0);
    return arg;
}

/* The pause begins between a thread's look at the mode and its reservation: the record is behind STOP, so a shadow. */
CASE(stop_between)
{
    start(1);
    CHECK_EQ(ms_enter(MS_MEMORY), MS_NORMAL);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_thread, NULL);
    pthread_join(thread, NULL);
    struct ms_free *r = ms_reserve(MS_FREE, MS_HAL, MS_DEVICE_NONE, sizeof *r);
    ms_publish(&r->h);
    ms_leave();
    next(MS_STOP_TRACE, "");
    CHECK_EQ(next_memory_flags(), MS_F_SHADOW);
}

CASE(steps)
{
    use_stack("none");
    start(1);
    CHECK_EQ(ms_step(), 0);
    CHECK_EQ(ms_step(), 0);
    CHECK_EQ(ms_stop(), 0);
    CHECK_EQ(ms_step(), 0); /* paused: does not count */
    CHECK_EQ(ms_start(), 0);
    CHECK_EQ(ms_step(), 0);
    CHECK_EQ(next(MS_STEP, "").value, 1);
    CHECK_EQ(next(MS_STEP, "").value, 2);
    next(MS_STOP_TRACE, "");
    next(MS_START_TRACE, "");
    CHECK_EQ(next(MS_STEP, "").value, 3);
    no_more();
}

CASE(nobody_collects)
{
    errno = EDOM;
    CHECK_EQ(ms_start(), -1);
    CHECK_EQ(ms_stop(), -1);
    CHECK_EQ(ms_step(), -1);
    CHECK_EQ(errno, EDOM);
}

static void *flip(void *arg)
{
    for (int i = 0; i < 300; i++)
        CHECK_EQ(arg ? ms_start() : ms_stop(), 0);
    return NULL;
}

/* Starts and stops from several threads, memory events from another: boundaries alternate, and flags agree with them. */
CASE(boundaries_alternate)
{
    pthread_t threads[4];
    start(1);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, flip, (void *)(i & 1));
    for (int i = 0; i < 3000; i++)
        put_memory();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    bool tracing = true;
    client = collector_client(&c, 0);
    for (struct ms_head *h; (h = client_peek(client)) != NULL; client_done(client)) {
        if (record_type(h) == MS_FREE) {
            CHECK(h->flags == MS_F_SHADOW || tracing); /* normal only between START and STOP */
            continue;
        }
        CHECK_EQ(record_type(h), tracing ? MS_STOP_TRACE : MS_START_TRACE);
        tracing = !tracing;
    }
    CHECK_EQ(client->ring->tracing, tracing);
}

CASE(labels)
{
    char longest[MS_LABEL_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[MS_LABEL_BYTES + 1] = 0;
    start(0); /* also while paused */
    errno = EDOM;
    CHECK_EQ(ms_label_push(MS_LABEL_COMPONENT, "fsdp2"), 0);
    CHECK_EQ(ms_label_push(MS_LABEL_USER_3, "mine"), 0); /* one stack for all levels of the user's */
    CHECK_EQ(ms_label_pop(MS_LABEL_COMPONENT, "fsdp2"), 0);
    CHECK_EQ(ms_label_address(0x1234, MS_LABEL_USER_2, longest + 1), 0);
    CHECK_EQ(ms_label_push(MS_LABEL_COMPONENT, longest), -2);
    CHECK_EQ(ms_label_push(8, "x"), -2);
    CHECK_EQ(ms_label_push(-1, "x"), -2);
    CHECK_EQ(ms_label_pop(MS_LABEL_DETAIL_1, ""), -2);
    CHECK_EQ(ms_label_address(0x1234, MS_LABEL_DETAIL_1, NULL), -2);
    CHECK_EQ(errno, EDOM);
    CHECK_EQ(next(MS_LABEL_PUSH, "fsdp2").value, MS_LEVEL_COMPONENT);
    CHECK_EQ(next(MS_LABEL_PUSH, "mine").value, MS_LEVEL_USER);
    CHECK_EQ(next(MS_LABEL_POP, "fsdp2").value, MS_LEVEL_COMPONENT);
    char text[sizeof longest + 2] = "6:";
    strcat(text, longest + 1);
    CHECK_EQ(next(MS_LABEL_ADDRESS, text).value, 0x1234);
    no_more();
}

int test_trace(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),           cmocka_unit_test(long_texts_are_cut),   cmocka_unit_test(log_levels),
        cmocka_unit_test(start_stop),      cmocka_unit_test(stop_between),         cmocka_unit_test(steps),
        cmocka_unit_test(nobody_collects), cmocka_unit_test(boundaries_alternate), cmocka_unit_test(labels),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
