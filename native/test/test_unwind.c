/*
 * test_unwind.c - the unwinder against that of the compiler's library, in all kinds of code and on all kinds of stacks.
 */
#include "child.h"
#include "ms_unwind.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum { MOST = 100 };

static __thread struct {
    ms_frame frames[MOST];
    unsigned count;
    bool cut;
    uintptr_t wanted[MOST];
    unsigned wanted_count;
} got;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *unused)
{
    (void)unused;
    int exact = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &exact);
    if (got.wanted_count < MOST && pc)
        got.wanted[got.wanted_count++] = pc + (exact != 0);
    return _URC_NO_REASON;
}

/* A walk along the last one, whatever that was of, comes by the same frames. */
static void expect_same_along(const struct ms_regs *here)
{
    static __thread struct ms_trail trail;
    bool cut;
    unsigned count = ms_unwind_along(&trail, here, MOST, &cut);
    CHECK_EQ(count, got.count < MS_TRAIL_MOST ? got.count : MS_TRAIL_MOST);
    CHECK(memcmp(trail.frames + trail.top, got.frames, count * sizeof(ms_frame)) == 0);
    CHECK(cut == got.cut || count == MS_TRAIL_MOST);
    CHECK(ms_trail_hash(&trail, count) == ms_frames_hash(got.frames, count));
    CHECK(ms_trail_hash(&trail, count / 2) == ms_frames_hash(got.frames, count / 2));
}

/* What a hook does; and the oracle beside it. */
static __attribute__((noinline)) void hook(void)
{
    struct ms_regs here;
    MS_CALLER(here);
    got.count = ms_unwind(&here, got.frames, MOST, &got.cut);
    expect_same_along(&here);
    got.wanted_count = 0;
    _Unwind_Backtrace(note, NULL);
    memmove(got.wanted, got.wanted + 1, sizeof got.wanted - sizeof got.wanted[0]); /* without this function */
    got.wanted_count--;
}

static void expect_backtrace(void)
{
    CHECK(!got.cut);
    CHECK_EQ(got.count, got.wanted_count);
    for (unsigned i = 0; i < got.count; i++)
        CHECK(MS_FRAME_PC(got.frames[i]) == got.wanted[i]);
}

static int (*volatile identity)(int);
static int same(int x)
{
    return x;
}

/* Frames of all shapes: fixed size, run-time size (needs a frame pointer), over-aligned (realigns its stack). */
static __attribute__((noinline)) int deep(int depth)
{
    int result = 0;
    if (depth == 0) {
        hook();
        return 0;
    }
    if (depth % 3 == 0) {
        char *block = alloca((size_t)identity(depth) * 24);
        memset(block, depth, 24);
        result = deep(depth - 1) + block[0];
    } else if (depth % 3 == 1) {
        char block[64] __attribute__((aligned(128)));
        memset(block, identity(depth), sizeof block);
        result = deep(depth - 1) + block[depth];
    } else {
        result = deep(depth - 1) + identity(depth);
    }
    return result + 1; /* no tail call */
}

CASE(unwind_plain)
{
    identity = same;
    for (int depth = 0; depth < 30; depth++) {
        deep(depth);
        expect_backtrace();
        CHECK(got.count > (unsigned)depth + 2);
    }
    const struct ms_module *program = ms_module(MS_FRAME_MODULE(got.frames[0]));
    CHECK(program && program->path[0] == 0 &&
          MS_FRAME_PC(got.frames[0]) - program->start < program->end - program->start);
    const struct ms_module *libc = ms_module(MS_FRAME_MODULE(got.frames[got.count - 2]));
    CHECK(libc && strstr(libc->path, "libc.so"));
    CHECK(ms_module(0) == NULL);
}

static __attribute__((noinline)) unsigned limited(unsigned max, ms_frame *frames, bool *cut)
{
    struct ms_regs here;
    MS_CALLER(here);
    return ms_unwind(&here, frames, max, cut);
}

CASE(unwind_limit)
{
    ms_frame all[MOST], some[MOST] = {0};
    bool cut;
    unsigned count = limited(MOST, all, &cut);
    CHECK(count > 4 && !cut);
    CHECK_EQ(limited(3, some, &cut), 3);
    CHECK(!cut && some[3] == 0 && some[1] == all[1] && some[2] == all[2]);
    CHECK_EQ(limited(0, some, &cut), 0);
}

/* Stacks of all depths and shapes one after the other, and limits that change: what is in the trail is of any of them. */
static __attribute__((noinline)) void wander(unsigned depth, unsigned long ways)
{
    static __thread struct ms_trail trail;
    char block[16 + (ways & 3) * 40];
    __asm__ volatile("" : : "r"(block) : "memory");
    if (depth > 0) {
        if (ways & 4)
            wander(depth - 1, ways >> 3);
        else
            wander(depth - 1, ways >> 2);
        __asm__ volatile("" : : "r"(block) : "memory"); /* no tail call */
        return;
    }
    struct ms_regs here;
    ms_frame frames[MOST];
    bool cut, cut_along;
    MS_CALLER(here);
    unsigned max = (unsigned)random() % MS_TRAIL_MOST + 1, count = ms_unwind(&here, frames, max, &cut);
    CHECK_EQ(ms_unwind_along(&trail, &here, max, &cut_along), count);
    CHECK(memcmp(trail.frames + trail.top, frames, count * sizeof *frames) == 0);
    CHECK(cut == cut_along || count == max);
    CHECK(ms_trail_hash(&trail, count) == ms_frames_hash(frames, count));
}

CASE(unwind_along)
{
    srandom(3);
    for (int i = 0; i < 30000; i++)
        wander((unsigned)random() % (i % 7 == 0 ? 150 : 20), (unsigned long)random() & ~(unsigned long)random());
}

static int by_callback(const void *a, const void *b)
{
    (void)b;
    deep(4);
    return *(const int *)a;
}

CASE(unwind_through_libc)
{
    int pair[2] = {1, 2};
    identity = same;
    qsort(pair, 2, sizeof pair[0], by_callback);
    expect_backtrace();
}

static void on_signal(int number)
{
    (void)number;
    deep(5);
}

static __attribute__((noinline)) int interrupted(int depth)
{
    if (depth)
        return interrupted(depth - 1) + 1;
    raise(SIGUSR1);
    return identity(1);
}

static void take_signal(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    identity = same;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    interrupted(6);
    expect_backtrace();
    CHECK(got.count > 6 + 5 + 3);
}

CASE(unwind_signal)
{
    take_signal(0);
}

CASE(unwind_signal_stack)
{
    static char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    CHECK(sigaltstack(&stack, NULL) == 0);
    take_signal(SA_ONSTACK);
}

static void *on_thread(void *unused)
{
    deep(20);
    expect_backtrace();
    return unused;
}

CASE(unwind_thread)
{
    pthread_t thread;
    identity = same;
    CHECK(pthread_create(&thread, NULL, on_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static ucontext_t outside, inside;

static void on_coroutine(void)
{
    deep(12);
    swapcontext(&inside, &outside);
}

/* A stack in the middle of the heap, with nothing mapped right above it. */
CASE(unwind_coroutine)
{
#ifdef __SANITIZE_ADDRESS__
    puts("unwind_coroutine: SKIPPED, AddressSanitizer does not support makecontext");
    return;
#endif
    enum { SIZE = 1 << 16 };
    char *stack = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    identity = same;
    CHECK(stack != MAP_FAILED && munmap(stack + SIZE, SIZE) == 0 && getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SIZE;
    makecontext(&inside, on_coroutine, 0);
    swapcontext(&outside, &inside);
    CHECK(got.count > 12);
    for (unsigned i = 0; i < 13; i++)
        CHECK(MS_FRAME_PC(got.frames[i]) == got.wanted[i]);
    deep(3); /* and back on the thread's own */
    expect_backtrace();
}

#if defined(__x86_64__)
/* Generated code: push %rbp; mov $value, %rbp or mov %rsp, %rbp; mov $hook, %rax; call *%rax; pop %rbp; ret */
static unsigned from_generated(uintptr_t frame_pointer)
{
    unsigned char code[64] = {0x55, 0x48, 0xbd};
    unsigned length = 3;
    if (frame_pointer) {
        memcpy(code + length, &frame_pointer, 8);
        length += 8;
    } else {
        memcpy(code + 1, "\x48\x89\xe5", 3);
        length = 4;
    }
    memcpy(code + length, "\x48\xb8", 2);
    void (*target)(void) = hook;
    memcpy(code + length + 2, &target, 8);
    memcpy(code + length + 10, "\xff\xd0\x5d\xc3", 4);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    ((void (*)(void))page)();
    CHECK_EQ(MS_FRAME_MODULE(got.frames[0]), 0);
    return got.count;
}

CASE(unwind_generated)
{
    hook();
    ms_frame last = got.frames[got.count - 1];
    unsigned count = got.count;
    CHECK_EQ(from_generated(0), count + 2); /* a frame pointer: through, and on to the end */
    CHECK(!got.cut && got.frames[got.count - 1] == last);
}

CASE(unwind_garbage)
{
    srandom(7);
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    for (int i = 0; i < 2000; i++) {
        uintptr_t garbage = (uintptr_t)random() << 33 ^ (uintptr_t)random() << 11 ^ (uintptr_t)random();
        if (i % 3 == 1)
            garbage = sp + (uintptr_t)random() % 65536; /* in the stack, or just above it */
        else if (i % 3 == 2)
            garbage = sp - (uintptr_t)random() % 4096;
        CHECK(from_generated(garbage | 1) == 1 && got.cut); /* not aligned: never followed */
        CHECK(from_generated(garbage & ~7ULL) >= 1);
    }
}
#endif

/* The library build/native/<kind>/plugin-<which>.so: `through(f)` calls f. Returns the frame inside it. */
static ms_frame through(const char *which, void **handle)
{
    char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    CHECK(length > 0);
    path[length] = 0;
    sprintf(strrchr(path, '/'), "/plugin-%s.so", which);
    *handle = dlopen(path, RTLD_NOW);
    CHECK(*handle);
    int (*call)(void (*)(void)) = (int (*)(void (*)(void)))dlsym(*handle, "through");
    CHECK(call);
    call(hook);
    expect_backtrace();
    return got.frames[0];
}

CASE(unwind_reloaded)
{
    void *a, *b;
    ms_frame first = through("a", &a), again = through("a", &b);
    CHECK(first == again);
    unsigned number = MS_FRAME_MODULE(first);
    CHECK(strstr(ms_module(number)->path, "plugin-a.so"));
    uintptr_t start = ms_module(number)->start;
    dlclose(b);
    ms_unwind_forget();
    CHECK(!ms_module(number)->gone);
    dlclose(a);
    ms_unwind_forget();
    CHECK(ms_module(number)->gone);
    ms_frame other = through("b", &b);
    unsigned other_number = MS_FRAME_MODULE(other);
    CHECK(other_number != number && strstr(ms_module(other_number)->path, "plugin-b.so"));
    CHECK(ms_module(other_number)->start == start); /* else this case does not try what it wants to */
    CHECK(MS_FRAME_PC(other) == MS_FRAME_PC(first));
}

/* Without a word to the unwinder: what is new at an address is seen all the same, where the C library tells us. */
CASE(unwind_reloaded_unheard)
{
    void *a, *b;
    unsigned number = MS_FRAME_MODULE(through("a", &a));
    dlclose(a);
    through("c", &b); /* the same code elsewhere in the library: an address that no rule is known for */
    unsigned other = MS_FRAME_MODULE(got.frames[0]);
    CHECK(other != number && ms_module(number)->gone);
}

static bool over; /* atomic */

static void *walker(void *depth)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        deep((int)(intptr_t)depth);
        expect_backtrace();
    }
    return NULL;
}

CASE(unwind_while_loading)
{
    pthread_t threads[4];
    identity = same;
    for (intptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, walker, (void *)(i * 7)) == 0);
    for (int i = 0; i < 100; i++) {
        void *handle;
        through(i % 2 ? "a" : "b", &handle);
        dlclose(handle);
        ms_unwind_forget();
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int test_unwind(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unwind_plain),         cmocka_unit_test(unwind_limit),
        cmocka_unit_test(unwind_along),         cmocka_unit_test(unwind_through_libc),
        cmocka_unit_test(unwind_signal),        cmocka_unit_test(unwind_signal_stack),
        cmocka_unit_test(unwind_thread),        cmocka_unit_test(unwind_coroutine),
#if defined(__x86_64__)
        cmocka_unit_test(unwind_generated),     cmocka_unit_test(unwind_garbage),
#endif
        cmocka_unit_test(unwind_reloaded),      cmocka_unit_test(unwind_reloaded_unheard),
        cmocka_unit_test(unwind_while_loading),
    };
    return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
