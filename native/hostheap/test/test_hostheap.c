/*
 * test_hostheap.c - the host heap's hook in real processes, against the account that these keep themselves, block for block.
 *
 * test_hostheap LIBRARY [CASE] runs all cases with that library preloaded; '': the target has it in itself.
 */
#include "tables.h"
#include "target.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ms_unwind.h"

static const char *library;
static char folder[512]; /* of this program, and of the target */
static const char *also; /* a library that is preloaded behind ours */

struct run {
    struct collector c;
    struct account *account;
    pid_t pid;
};

/* Starts `target scenario number` under the hook, with its window open. */
static void begin(struct run *r, const struct sizes *sizes, const char *scenario, unsigned long number)
{
    collector_open(&r->c, sizes);
    int memory = memfd_create("account", 0);
    assert_true(memory >= 0 && ftruncate(memory, sizeof *r->account) == 0);
    r->account = mmap(NULL, sizeof *r->account, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_true(r->account != MAP_FAILED);
    char fd[16], text[32], path[600];
    snprintf(fd, sizeof fd, "%d", memory);
    snprintf(text, sizeof text, "%lu", number);
    snprintf(path, sizeof path, "%s/target", folder);
    r->pid = fork();
    if (r->pid == 0) {
        char preload[1200];
        snprintf(preload, sizeof preload, "%s%s%s", library, also ? ":" : "", also ? also : "");
        if (library)
            setenv("LD_PRELOAD", preload, 1);
        setenv("MSMEMSCOPE_SESSION", r->c.session, 1);
        setenv("ACCOUNT_FD", fd, 1);
        alarm(400); /* no hang outlives this */
        execl(path, path, scenario, text, NULL);
        _exit(127);
    }
    close(memory);
    collector_serve(&r->c);
}

static void expect_end(struct run *r)
{
    int status = -1;
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    assert_int_equal(status, 0);
    assert_int_equal(r->c.heap->state, MS_HEAP_ENDED);
}

static void end(struct run *r)
{
    munmap(r->account, sizeof *r->account);
    collector_close(&r->c);
}

static bool in_program(const struct run *r, uint32_t stack)
{
    const struct ms_heap_stack *s = stack_record(&r->c, stack);
    const uint32_t *frames = (const uint32_t *)(s + 1);
    const uint64_t *natives = section(&r->c, r->c.heap->natives_at);
    const struct ms_heap_module *modules = section(&r->c, r->c.heap->modules_at);
    if (stack < MS_HEAP_STACK_FIRST || s->natives == 0)
        return false;
    const struct ms_heap_module *m = &modules[natives[frames[0]] >> MS_FRAME_SHIFT];
    return m->end && m->path &&
           *(const uint32_t *)((const char *)section(&r->c, r->c.heap->text_at) + 4ULL * m->path) == 0;
}

/*
 * The ledger has the blocks of the target's account, each with its size, and nothing else that the target's own code
 * has allocated. `unattributed`: stacks may be missing.
 */
static void expect_account(struct run *r, uint32_t window, bool unattributed)
{
    struct live *list;
    size_t count = read_ledger(&r->c, window, &list), own = 0;
    for (uint64_t i = 0; i < r->account->count; i++) {
        const struct live *l = find_live(list, count, r->account->blocks[i].address);
        if (!l || l->size != r->account->blocks[i].size)
            fail_msg("block %#lx of %lu bytes: %s", (unsigned long)r->account->blocks[i].address,
                     (unsigned long)r->account->blocks[i].size, l ? "another size" : "not in the ledger");
    }
    for (size_t i = 0; i < count; i++)
        own += in_program(r, list[i].stack);
    if (!unattributed && own > r->account->count)
        fail_msg("%zu blocks of the program live, not %lu", own, (unsigned long)r->account->count);
    free(list);
    check_books(&r->c, window, 0);
    assert_int_equal(r->c.heap->truncated & MS_HEAP_TRUNC_STOPPED, 0);
}

static void exact(const char *scenario, unsigned long number)
{
    struct run r;
    begin(&r, &(struct sizes){0}, scenario, number);
    expect_end(&r);
    expect_account(&r, 1, false);
    assert_int_equal(COUNTER(&r.c, unseen.count), 0);
    end(&r);
}

static void complaint_10_entry_points(void **state)
{
    (void)state;
    exact("entries", 0);
}

static void storm(void **state)
{
    (void)state;
    exact("storm", 100000);
}

static void storms(void **state)
{
    (void)state;
    for (unsigned long n = 1; n <= 20; n++)
        exact("storm", n * 100);
}

static void threads(void **state)
{
    (void)state;
    exact("threads", 0);
}

/* Two threads at a time have slots of their own. */
static void threads_without_slots(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){.slots = 3}, "storm", 20000);
    expect_end(&r);
    expect_account(&r, 1, false);
    end(&r);
}

static void complaint_1_forks(void **state)
{
    (void)state;
    exact("forks", getenv("SOAK") ? 250 : 50); /* from each of 8 threads; a minute for the 2000, on two cores */
}

static void complaint_4_and_23_loads(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "loads", 300);
    expect_end(&r);
    expect_account(&r, 1, true);
    const struct ms_heap_module *modules = section(&r.c, r.c.heap->modules_at);
    unsigned gone = 0;
    for (uint32_t i = 1; i < r.c.heap->module_next; i++)
        gone += modules[i].gone != 0;
    assert_true(gone >= 2);
    assert_int_equal((r.c.heap->flags & MS_HEAP_FIND_OBJECT) != 0, dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL);
    end(&r);
}

static void signal_handlers(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "signals", 0);
    expect_end(&r);
    check_books(&r.c, 1, 0);
    assert_true(r.account->values[0] > 100);
    end(&r);
}

static void complaint_11_operators(void **state)
{
    (void)state;
    char pool[600];
    snprintf(pool, sizeof pool, "%s/pool.so", folder);
    also = pool; /* operators that do not call malloc */
    exact("operators", 0);
    also = "libstdc++.so.6"; /* operators that do */
    exact("operators", 0);
    also = NULL;
}

/* A function of a Python program is in the stacks of what it allocates, with file and line. */
static void python(void **state)
{
    (void)state;
    if (access("/usr/bin/python3", X_OK) != 0)
        skip();
    struct collector c;
    int status = -1;
    collector_open(&c, &(struct sizes){.python_depth = 20});
    pid_t pid = fork();
    if (pid == 0) {
        setenv("LD_PRELOAD", library, 1);
        setenv("MSMEMSCOPE_SESSION", c.session, 1);
        setenv("PYTHONMALLOC", "malloc", 1);
        execl("/usr/bin/python3", "python3", "-c",
              "def planted():\n  return [bytes(1000 + i) for i in range(500)]\nx = planted()\nimport os\nos._exit(0)",
              NULL);
        _exit(127);
    }
    collector_serve(&c);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(c.heap->flags & (MS_HEAP_PYTHON | MS_HEAP_PYTHON_LOST), MS_HEAP_PYTHON);
    assert_int_equal(c.heap->state, MS_HEAP_ENDED);
    struct live *list;
    size_t count = read_ledger(&c, 1, &list), planted = 0;
    const struct ms_heap_python *places = section(&c, c.heap->pythons_at);
    const char *text = section(&c, c.heap->text_at);
    for (size_t i = 0; i < count; i++) {
        const struct ms_heap_stack *s = stack_record(&c, list[i].stack);
        const uint32_t *frames = (const uint32_t *)(s + 1) + s->natives;
        for (int k = 0; k < s->pythons; k++) {
            const struct ms_heap_python *p = &places[frames[k]];
            planted += p->line == 2 && strncmp(text + 4ULL * p->function + 4, "planted", 7) == 0 &&
                       list[i].size >= 1000 && list[i].size < 2000; /* not the list */
        }
    }
    free(list);
    check_books(&c, 1, 0);
    assert_int_equal(planted, 500);
    collector_close(&c);
}

static void exit_handlers(void **state)
{
    (void)state;
    exact("exits", 0);
}

/* 16 bytes a block, for blocks of 64 bytes and less; contract 6.2 wants 20 million of them. */
static void complaint_15_bytes_per_block(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "many", 2000000);
    expect_end(&r);
    assert_int_equal(r.account->count, 1000001);
    expect_account(&r, 1, false);
    double each = (double)r.c.heap->arena_next / 1e6;
    print_message("%.1f bytes of tables for each of 1000000 blocks\n", each);
    assert_true(each < 18);
    end(&r);
}

static void below_threshold(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "windows", 0);
    while (r.account->stage != 1)
        usleep(1000);
    r.c.heap->window = 0;
    usleep(100000);
    r.c.heap->threshold = 2500;
    r.c.heap->window = 2;
    r.account->go = 2; /* and through the second wait */
    while (r.account->stage != 3)
        usleep(1000);
    r.account->go = 3;
    expect_end(&r);
    struct live *list;
    size_t count = read_ledger(&r.c, 2, &list);
    assert_non_null(find_live(list, count, r.account->blocks[1].address)); /* 2500 */
    assert_null(find_live(list, count, r.account->blocks[2].address));     /* 99 */
    free(list);
    assert_true(COUNTER(&r.c, below.count) >= 2);
    uint64_t pre = 0;
    for (int i = 0; i < MS_HEAP_BUCKETS; i++)
        pre += COUNTER(&r.c, prewindow[i].count);
    assert_int_equal(pre, 1); /* 70000; 5000 was made in window 2 */
    end(&r);
}

static void close_window(struct run *r)
{
    struct ms_heap_slot *slots = section(&r->c, r->c.heap->slots_at);
    r->c.heap->window = 0;
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    for (uint32_t i = 1; i < r->c.heap->slot_high; i++)
        for (uint32_t turn = slots[i].turn; turn % 2 && __atomic_load_n(&slots[i].turn, __ATOMIC_ACQUIRE) == turn;)
            usleep(100);
}

static void second_window(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "windows", 0);
    while (r.account->stage != 1)
        usleep(1000);
    close_window(&r);
    r.account->go = 1;
    while (r.account->stage != 2)
        usleep(1000);
    uint64_t before[MS_HEAP_BUCKETS];
    for (int i = 0; i < MS_HEAP_BUCKETS; i++)
        before[i] = COUNTER(&r.c, prewindow[i].count);
    r.c.heap->window = 2;
    r.account->go = 2;
    while (r.account->stage != 3)
        usleep(1000);
    close_window(&r);
    /* what was freed in it: 300, 5000, and 2000 by realloc */
    assert_int_equal(COUNTER(&r.c, prewindow[1].count) - before[1], 1);
    assert_int_equal(COUNTER(&r.c, prewindow[2].count) - before[2], 1);
    assert_int_equal(COUNTER(&r.c, prewindow[3].count) - before[3], 1);
    struct live *list;
    size_t count = read_ledger(&r.c, 2, &list);
    assert_int_equal(count, 2);
    assert_int_equal(find_live(list, count, r.account->blocks[1].address)->size, 2500);
    assert_int_equal(find_live(list, count, r.account->blocks[2].address)->size, 99);
    free(list);
    r.account->go = 3;
    expect_end(&r);
    end(&r);
}

static void until_stage(struct run *r, uint32_t stage)
{
    while (__atomic_load_n(&r->account->stage, __ATOMIC_ACQUIRE) != stage)
        usleep(1000);
}

/* A realloc is a free and an allocation, but the block is as old as it is; and a stack that resizes its own has no other. */
static void growing_block(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "growth", 0);
    for (uint32_t stage = 1; stage <= 2; stage++) {
        until_stage(&r, stage);
        r.c.heap->tick = stage == 1 ? 5 : 50;
        r.account->go = stage;
    }
    until_stage(&r, 3);
    struct live *list;
    size_t count = read_ledger(&r.c, 1, &list);
    const struct live *block = find_live(list, count, r.account->blocks[1].address);
    assert_int_equal(block->tick, 5);
    struct ms_heap_count n = read_counts(&r.c, block->stack);
    assert_int_equal(n.alloc_count, 4); /* of 200, 400, 800, 1000 */
    assert_int_equal(n.free_count, 3);
    assert_int_equal(n.alloc_bytes - n.free_bytes, 1000);
    assert_int_equal(n.resized, 3);
    assert_int_equal(n.lifetime, 0);
    free(list);
    r.account->go = 3;
    expect_end(&r);
    expect_account(&r, 1, false);
    end(&r);
}

/* One block in 64, whatever the period of the program; the others are counted, and no free is taken for one from before. */
static void sampling(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){.sample_mask = 63}, "many", 200000);
    expect_end(&r);
    size_t kept = check_books(&r.c, 1, 0);
    assert_true(kept > 100000 / 64 * 0.9 && kept < 100000 / 64 * 1.1);
    uint64_t left_out = COUNTER(&r.c, unsampled.count);
    assert_true(left_out > 190000 && left_out < 200000);
    for (int i = 0; i < MS_HEAP_BUCKETS; i++)
        assert_int_equal(COUNTER(&r.c, prewindow[i].count), 0);
    end(&r);
}

/* The stack table is full: later stacks are one bucket, and every block is counted all the same. */
static void few_stacks(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){.stacks = 100}, "stacks", 512);
    expect_end(&r);
    assert_true(r.c.heap->truncated == MS_HEAP_TRUNC_STACKS);
    expect_account(&r, 1, true);
    assert_true(read_counts(&r.c, MS_HEAP_STACK_UNKNOWN).alloc_count >= 412);
    end(&r);
}

static void all_stacks(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "stacks", 512);
    expect_end(&r);
    assert_int_equal(r.c.heap->truncated, 0);
    expect_account(&r, 1, false);
    struct live *list;
    size_t count = read_ledger(&r.c, 1, &list);
    static bool seen[MS_HEAP_STACKS];
    for (int i = 1; i <= 512; i++) {
        uint32_t stack = find_live(list, count, r.account->blocks[i].address)->stack;
        assert_false(seen[stack]); /* each has one of its own */
        seen[stack] = true;
        assert_true(stack_record(&r.c, stack)->natives == 20);
    }
    free(list);
    end(&r);
}

/* Every frame has its place, also where more calls than places lie side by side. */
static void close_calls(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "close_calls", 0);
    expect_end(&r);
    expect_account(&r, 1, false);
    struct live *list;
    size_t count = read_ledger(&r.c, 1, &list);
    for (int i = 1; i <= 512; i++) {
        const struct ms_heap_stack *s = stack_record(&r.c, find_live(list, count, r.account->blocks[i].address)->stack);
        const uint32_t *frames = (const uint32_t *)(s + 1);
        assert_true(s->natives >= 3);
        for (int f = 0; f < s->natives; f++)
            assert_true(frames[f] != 0);
    }
    free(list);
    end(&r);
}

static void overflow(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){.blocks = 5000}, "many", 40000);
    expect_end(&r);
    assert_true(r.c.heap->truncated == MS_HEAP_TRUNC_BLOCKS);
    expect_account(&r, 1, true);
    uint64_t without = read_counts(&r.c, MS_HEAP_STACK_OVERFLOW).alloc_count;
    assert_true(without >= 20000 && without < 40000);
    end(&r);
}

/* The overflow channel is full, or the memory: what is there is a prefix, and says so. */
static void stop(const struct sizes *sizes, unsigned long number)
{
    struct run r;
    begin(&r, sizes, "many", number);
    expect_end(&r);
    assert_true(r.c.heap->truncated & MS_HEAP_TRUNC_STOPPED);
    size_t kept = check_books(&r.c, 1, 0);
    assert_true(kept > 1000 && kept < r.account->count);
    assert_true(COUNTER(&r.c, untracked.count) > 1000);
    end(&r);
}

static void overflow_full(void **state)
{
    (void)state;
    stop(&(struct sizes){.blocks = 2000, .overflow = 3000}, 40000);
}

static void arena_full(void **state)
{
    (void)state;
    stop(&(struct sizes){.arena_mib = 2}, 400000);
}

/* Ages keep to a thousandth of the window, however long it is. */
static void ages(void **state)
{
    (void)state;
    struct run r;
    begin(&r, &(struct sizes){0}, "windows", 0);
    while (r.account->stage != 1)
        usleep(1000);
    r.c.heap->tick = 2000;
    r.account->go = 1;
    while (r.account->stage != 2)
        usleep(1000);
    r.c.heap->tick = 1000000;
    r.account->go = 3;
    expect_end(&r);
    struct live *list;
    size_t count = read_ledger(&r.c, 1, &list);
    uint64_t tick = find_live(list, count, r.account->blocks[2].address)->tick;
    assert_true(tick <= 1000000 && tick > 999000);
    assert_int_equal(find_live(list, count, r.account->blocks[1].address)->tick, 0); /* realloc: as old as it was */
    free(list);
    end(&r);
}

static void complaint_20_kills(void **state)
{
    (void)state;
    srandom(11);
    for (int i = 0; i < 20; i++) {
        struct run r;
        int status;
        begin(&r, &(struct sizes){0}, "forever", 0);
        while (r.account->stage != 1)
            usleep(500);
        usleep((useconds_t)(random() % 50000));
        kill(r.pid, SIGKILL);
        waitpid(r.pid, &status, 0);
        assert_int_equal(r.c.heap->state, MS_HEAP_ATTACHED);
        check_books(&r.c, 1, 2 * 9);
        end(&r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complaint_10_entry_points),
        cmocka_unit_test(exit_handlers),
        cmocka_unit_test(storm),
        cmocka_unit_test(storms),
        cmocka_unit_test(threads),
        cmocka_unit_test(threads_without_slots),
        cmocka_unit_test(complaint_1_forks),
        cmocka_unit_test(complaint_4_and_23_loads),
        cmocka_unit_test(complaint_20_kills),
        cmocka_unit_test(complaint_11_operators),
        cmocka_unit_test(python),
        cmocka_unit_test(signal_handlers),
        cmocka_unit_test(complaint_15_bytes_per_block),
        cmocka_unit_test(below_threshold),
        cmocka_unit_test(second_window),
        cmocka_unit_test(growing_block),
        cmocka_unit_test(sampling),
        cmocka_unit_test(close_calls),
        cmocka_unit_test(few_stacks),
        cmocka_unit_test(all_stacks),
        cmocka_unit_test(overflow),
        cmocka_unit_test(overflow_full),
        cmocka_unit_test(arena_full),
        cmocka_unit_test(ages),
    };
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (argc < 2 || length < 0)
        return 2;
    folder[length] = 0;
    *strrchr(folder, '/') = 0;
    library = realpath(argv[1], NULL);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests_name("hostheap", tests, NULL, NULL);
}
