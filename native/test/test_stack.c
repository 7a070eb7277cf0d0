/*
 * test_stack.c - call stacks: ids, definitions before them, libraries, forks, threads, unloading.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "ms_unwind.h"

static struct collector c;

static void start(uint32_t c_depth, uint32_t py_depth)
{
    collector_defaults(&c);
    c.config.c_stack_depth = c_depth;
    c.config.py_stack_depth = py_depth;
    collector_open(&c);
    collector_serve(&c);
}

static void put(enum ms_type type)
{
    CHECK_EQ(ms_enter(MS_TRACE), MS_NORMAL);
    ms_put_text(type, MS_DEVICE_NONE, 0, "x");
    ms_leave();
}

static void put_mark(void)
{
    put(MS_MARK);
}

/* build/native/<kind>/plugin-<which>.so: a library that is none of ours, to call put_mark through. */
static void *plugin(const char *which)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(length > 0);
    path[length] = 0;
    sprintf(strrchr(path, '/'), "/plugin-%s.so", which);
    void *handle = dlopen(path, RTLD_NOW);
    CHECK(handle != NULL);
    return handle;
}

static void mark_through(void *handle)
{
    ((int (*)(void (*)(void)))dlsym(handle, "through"))(put_mark);
}

/* What a ring has said so far. */
struct heard {
    int modules, stacks, events;
    uint32_t event_id;     /* of the last event */
    uint32_t defined[64];  /* ids, in order */
    struct ms_stack stack; /* the last definition */
    uint64_t frames[64];
    char path[1024]; /* of the last library, and its numbers */
    struct ms_loaded loaded;
};

static bool is_defined(const struct heard *h, uint32_t id)
{
    for (int i = 0; i < h->stacks; i++)
        if (h->defined[i] == id)
            return true;
    return false;
}

static void hear(struct client *client, struct heard *h)
{
    for (struct ms_head *r; (r = client_peek(client)); client_done(client)) {
        switch (record_type(r)) {
        case MS_MODULE:
            h->modules++;
            memcpy(&h->loaded, r, sizeof h->loaded);
            CHECK(h->loaded.path_length < sizeof h->path);
            memcpy(h->path, (struct ms_loaded *)r + 1, h->loaded.path_length);
            h->path[h->loaded.path_length] = 0;
            CHECK_EQ(record_bytes(r),
                     (sizeof h->loaded + h->loaded.path_length + h->loaded.build_id_length + 7) / 8 * 8);
            break;
        case MS_STACK:
            memcpy(&h->stack, r, sizeof h->stack);
            memcpy(h->frames, (struct ms_stack *)r + 1, h->stack.c_frames * sizeof(uint64_t));
            h->defined[h->stacks++] = r->stack;
            break;
        default:
            h->events++;
            h->event_id = r->stack;
            CHECK(r->stack == 0 || is_defined(h, r->stack));
        }
    }
}

CASE(no_stack_unless_wanted)
{
    struct heard h = {0};
    start(0, 0);
    put_mark();
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.events, 1);
    CHECK_EQ(h.event_id, 0);
    CHECK_EQ(h.stacks + h.modules, 0);
}

CASE(defined_once)
{
    struct heard h = {0};
    start(20, 0);
    void *a = plugin("a"), *b = plugin("b");
    for (volatile int i = 0; i < 3; i++) /* one call, not three */
        mark_through(a);
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.events, 3);
    CHECK_EQ(h.stacks, 1);
    CHECK(h.event_id != 0);
    CHECK_EQ(h.stack.py_frames, MS_NOT_PYTHON);
    CHECK(h.stack.c_frames > 1);
    uintptr_t function = (uintptr_t)dlsym(a, "through");
    CHECK(MS_FRAME_PC(h.frames[0]) - function < 64); /* put_mark and what it calls are ours: left out */
    uint32_t first = h.event_id;
    mark_through(b);
    hear(collector_client(&c, 0), &h);
    CHECK(h.event_id != first);
    CHECK_EQ(h.stacks, 2);
    CHECK(strstr(h.path, "plugin-b.so"));
    CHECK_EQ(h.loaded.number, MS_FRAME_MODULE(h.frames[0]));
    CHECK(h.loaded.start <= MS_FRAME_PC(h.frames[0]) && MS_FRAME_PC(h.frames[0]) < h.loaded.end);
}

CASE(depth)
{
    struct heard h = {0};
    start(1, 0);
    mark_through(plugin("a"));
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.stack.c_frames, 1);
}

CASE(no_python)
{
    struct heard h = {0};
    start(0, 10);
    put_mark();
    put_mark();
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.stacks, 1);
    CHECK_EQ(h.stack.c_frames, 0);
    CHECK_EQ(h.stack.py_frames, MS_NO_PYTHON);
}

CASE(only_what_is_a_row)
{
    struct heard h = {0};
    start(20, 0);
    put(MS_RANGE_END);
    put(MS_LABEL_PUSH);
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.events, 2);
    CHECK_EQ(h.stacks, 0);
}

CASE(a_child_begins_anew)
{
    struct heard mine = {0}, its = {0};
    start(20, 0);
    void *a = plugin("a");
    mark_through(a);
    hear(collector_client(&c, 0), &mine);
    pid_t pid = fork();
    if (pid == 0) {
        mark_through(a);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    hear(collector_client(&c, 1), &its);
    CHECK_EQ(its.events, 1);
    CHECK_EQ(its.stacks, 1);
    CHECK(its.modules > 0);
}

/* Two libraries of the same code take turns at one address. */
CASE(unloaded_and_loaded)
{
    struct heard h = {0};
    uint32_t id[4];
    start(20, 0);
    for (int i = 0; i < 4; i++) {
        void *handle = plugin(i % 2 ? "b" : "a");
        mark_through(handle);
        dlclose(handle);
        hear(collector_client(&c, 0), &h);
        id[i] = h.event_id;
        if (i == 1) /* with the first one came the libraries further out */
            CHECK(strstr(h.path, "plugin-b.so"));
    }
    CHECK(id[0] != id[1]);
    CHECK_EQ(id[2], id[0]);
    CHECK_EQ(id[3], id[1]);
    CHECK_EQ(h.stacks, 2);
}

enum { THREADS = 4, MARKS = 500 };

static void *mark_often(void *handle)
{
    for (int i = 0; i < MARKS; i++)
        mark_through(handle);
    return NULL;
}

/* Whoever meets a stack first defines it, and nobody's id comes before its definition: hear() checks. */
CASE(threads)
{
    struct heard h = {0};
    start(20, 0);
    void *handle[2] = {plugin("a"), plugin("b")};
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, mark_often, handle[i % 2]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    hear(collector_client(&c, 0), &h);
    CHECK_EQ(h.events, THREADS * MARKS);
    CHECK(h.stacks >= 2 && h.stacks <= THREADS);
}

static int errors;
static void keeps_errno(void)
{
    errno = 77;
    put_mark();
    errors += errno != 77;
}

CASE(errno_is_kept)
{
    start(20, 20);
    ((int (*)(void (*)(void)))dlsym(plugin("a"), "through"))(keeps_errno);
    CHECK_EQ(errors, 0);
}

int test_stack(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stack_unless_wanted),
        cmocka_unit_test(defined_once),
        cmocka_unit_test(depth),
        cmocka_unit_test(no_python),
        cmocka_unit_test(only_what_is_a_row),
        cmocka_unit_test(a_child_begins_anew),
        cmocka_unit_test(unloaded_and_loaded),
        cmocka_unit_test(threads),
        cmocka_unit_test(errno_is_kept),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
