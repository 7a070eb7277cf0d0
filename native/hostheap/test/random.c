/*
 * random.c - a random program for test/property/heap.py, with an account of its heap: HEAP_ACCOUNT=FILE random SEED [forever]
 *
 * SEED says how many threads there are, what they do, how many windows, and how it ends; `forever` goes on until it is killed.
 * A block's stack says who made it: the entry, then `left` and `right` as the path's bits are, then what the thread began with.
 */
#include "account.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACES = 1024, WAY_BITS = 5, THREADS = 8, KEPT_MOST = 64 << 20 };
enum root { ROOT_MAIN, ROOT_WORKER, ROOT_VISITOR, ROOT_LATE, ROOT_BETWEEN }; /* heap.py knows their functions */

#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            dprintf(2, "random: %s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

struct thread {
    uint64_t random;
    enum root root;
    unsigned long operations;
};

static struct {
    pthread_mutex_t lock;
    void *block;
    size_t size;
} places[PLACES];
static size_t kept; /* bytes, about */
static bool forever;
static pthread_key_t late;
static volatile size_t too_much = SIZE_MAX / 2;

static uint64_t draw(struct thread *t)
{
    uint64_t x = t->random += 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static bool one_in(struct thread *t, unsigned n)
{
    return draw(t) % n == 0;
}

/* Mostly small; also what lies at the bounds of buckets and of the ledger's fields. */
static size_t draw_size(struct thread *t)
{
    static const size_t bounds[] = {0, 256, 1024, 4096, 32768, 262144, 1048576, (2 << 20) - 1, 2 << 20};
    uint64_t r = draw(t);
    switch (r % 64) {
    case 0:
    case 1:
        return bounds[(r >> 8) % 9] + (r >> 16) % 3 - ((r >> 8) % 9 != 0);
    case 2:
        return __atomic_load_n(&kept, __ATOMIC_RELAXED) < KEPT_MOST ? (r >> 8) % (5 << 20) : 1;
    case 3 ... 9:
        return (r >> 8) % 70000;
    default:
        return (r >> 8) % 600;
    }
}

/* ---- one call, below a stack that its path describes */

struct call {
    enum account_entry entry; /* REALLOC, REALLOCARRAY: of `block` */
    void *block;
    size_t size, alignment;
};

static __attribute__((noinline)) void *leaf(const struct call *c)
{
    void *p = NULL;
    switch (c->entry) {
    case MALLOC:
        p = malloc(c->size);
        break;
    case CALLOC:
        p = calloc(c->size % 2 ? 1 : 2, c->size % 2 ? c->size : c->size / 2);
        break;
    case REALLOC:
        p = realloc(c->block, c->size);
        break;
    case REALLOCARRAY:
        p = reallocarray(c->block, c->size % 3 ? 1 : 3, c->size % 3 ? c->size : c->size / 3);
        break;
    case POSIX_MEMALIGN:
        p = posix_memalign(&p, c->alignment, c->size) ? NULL : p;
        break;
    case ALIGNED_ALLOC:
        p = aligned_alloc(c->alignment, c->size);
        break;
    case MEMALIGN:
        p = memalign(c->alignment, c->size);
        break;
    case VALLOC:
        p = valloc(c->size);
        break;
    case PVALLOC:
        p = pvalloc(c->size);
        break;
    }
    return p;
}

static void *right(const struct call *c, unsigned way);
static __attribute__((noinline)) void *left(const struct call *c, unsigned way)
{
    void *p = way == 1 ? leaf(c) : way & 1 ? right(c, way >> 1) : left(c, way >> 1);
    __asm__ volatile("# left"); /* else the two would be one function */
    return p;
}
static __attribute__((noinline)) void *right(const struct call *c, unsigned way)
{
    void *p = way == 1 ? leaf(c) : way & 1 ? right(c, way >> 1) : left(c, way >> 1);
    __asm__ volatile("# right");
    return p;
}

/* The path: what the thread began with, the line that asks, the way. */
static __attribute__((noinline)) void *get_from(struct thread *t, struct call c, unsigned line)
{
    unsigned way = (unsigned)(draw(t) & draw(t)) & ((1 << WAY_BITS) - 1); /* some more than others */
    account_path = 1U << 31 | t->root << 24 | line << 8 | way;
    way |= 1 << WAY_BITS;
    void *p = way & 1 ? right(&c, way >> 1) : left(&c, way >> 1);
    account_path = 0;
    return p;
}
#define get(t, ...) get_from(t, __VA_ARGS__, __LINE__)

/* ---- what threads do */

static struct call fresh(struct thread *t)
{
    struct call c = {.entry = draw(t) % 9, .size = draw_size(t), .alignment = 16UL << draw(t) % 9};
    if (one_in(t, 2))
        c.entry = MALLOC;
    if (one_in(t, 200))
        c.alignment = 3; /* an error for posix_memalign, of no use to the others */
    if (c.size == 0 && (c.entry == REALLOC || c.entry == REALLOCARRAY))
        c.size = 1;
    return c;
}

/* size: 0 without a block */
static void keep(unsigned i, void *block, size_t size)
{
    __atomic_fetch_add(&kept, size - places[i].size, __ATOMIC_RELAXED);
    places[i].block = block;
    places[i].size = size;
}

static __attribute__((noinline)) void use_place(struct thread *t)
{
    unsigned i = draw(t) % PLACES;
    pthread_mutex_lock(&places[i].lock);
    struct call c = fresh(t);
    c.block = places[i].block;
    if (!c.block) {
        if (one_in(t, 100)) {
            c.size = too_much;
            c.entry = c.entry == CALLOC ? MALLOC : c.entry;
        }
        void *p = get(t, c);
        keep(i, p, p ? c.size : 0);
    } else if (one_in(t, 3)) {
        c.entry = one_in(t, 3) ? REALLOCARRAY : REALLOC;
        if (one_in(t, 50)) { /* fails, and the block stays */
            c.size = too_much;
            MUST(!get(t, c));
        } else if (one_in(t, 50)) { /* frees it */
            c.entry = REALLOC;
            c.size = 0;
            MUST(!get(t, c));
            keep(i, NULL, 0);
        } else {
            c.size = c.size ? c.size : 1;
            void *p = get(t, c);
            MUST(p);
            keep(i, p, c.size);
        }
    } else {
        free(c.block);
        keep(i, NULL, 0);
    }
    pthread_mutex_unlock(&places[i].lock);
}

static void chain(struct thread *t)
{
    void *p = NULL;
    for (size_t size = 1 + draw_size(t) % 100, n = draw(t) % 12; n > 0; n--, size += size / 2 + 1) {
        struct call c = {.entry = one_in(t, 4) ? REALLOCARRAY : REALLOC, .block = p, .size = size};
        p = get(t, c);
        MUST(p);
    }
    free(p);
}

static void reuse(struct thread *t)
{
    size_t size = draw_size(t);
    for (int n = (int)(draw(t) % 20); n >= 0; n--)
        free(get(t, (struct call){.entry = MALLOC, .size = size}));
}

/* The child has the heap of one moment and no window; what it does with it is nobody's business. */
static void fork_once(struct thread *t)
{
    uint64_t how = draw(t) % 4;
    void *inherited = get(t, (struct call){.entry = MALLOC, .size = 333});
    pid_t child = -1;
    char *words[] = {"/bin/true", NULL};
    int status = -1;
    if (how == 0) {
        MUST(posix_spawn(&child, words[0], NULL, NULL, words, words + 1) == 0);
    } else if ((child = fork()) == 0) {
        free(inherited);
        for (int i = 0; i < 100; i++)
            free(realloc(malloc(draw(t) % 10000), 5000));
        if (how == 1)
            _exit(0);
        if (how == 2)
            exit(0);
        execv(words[0], words);
        _exit(1);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    free(inherited);
}

static void at_end_of_thread(void *block)
{
    free(block);
    struct thread t = {.random = (uintptr_t)block, .root = ROOT_LATE};
    for (int i = 0; i < 5; i++)
        use_place(&t);
}

static void *visitor(void *arg)
{
    struct thread *t = arg;
    pthread_setspecific(late, get(t, (struct call){.entry = MALLOC, .size = 77}));
    for (int i = 0; i < 20; i++)
        use_place(t);
    return NULL;
}

static void visit(struct thread *t)
{
    pthread_t thread;
    struct thread other = {.random = draw(t), .root = ROOT_VISITOR};
    MUST(pthread_create(&thread, NULL, visitor, &other) == 0);
    pthread_join(thread, NULL);
}

static __attribute__((noinline)) void step(struct thread *t)
{
    switch (draw(t) % 400) {
    case 0 ... 19:
        chain(t);
        break;
    case 20 ... 29:
        reuse(t);
        break;
    case 30:
        if (forever || one_in(t, 10)) /* a storm of threads is another test's */
            visit(t);
        break;
    case 31:
        if (one_in(t, forever ? 200 : 20))
            fork_once(t);
        break;
    default:
        use_place(t);
    }
}

static __attribute__((noinline)) void between(struct thread *t)
{
    t->root = ROOT_BETWEEN;
    for (int i = 0; i < 50; i++)
        use_place(t);
    t->root = ROOT_MAIN;
}

static void *worker(void *arg)
{
    struct thread *t = arg;
    for (unsigned long i = 0; forever || i < t->operations; i++) {
        step(t);
        if (forever && i % 50 == 0)
            usleep(3000); /* the account is to last for seconds */
    }
    return NULL;
}

/* ---- the whole */

static int steer(const char *name)
{
    char reply[4096] = "";
    int answer = -1;
    account_pause(1);
    if (strcmp(name, "ms_host_start") == 0) {
        int (*start)(const char *, size_t, char *, size_t);
        *(void **)&start = dlsym(RTLD_DEFAULT, name);
        answer = start ? start("", 0, reply, sizeof reply) : -1;
    } else {
        int (*stop)(char *, size_t);
        *(void **)&stop = dlsym(RTLD_DEFAULT, name);
        answer = stop ? stop(reply, sizeof reply) : -1;
    }
    account_pause(0);
    if (answer != 0)
        dprintf(2, "random: %s: %d %s\n", name, answer, reply);
    return answer;
}

static void first(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    for (; *environment; environment++)
        if (strncmp(*environment, "HEAP_ACCOUNT=", 13) == 0) {
            account_open(*environment + 13);
            account_mark(ACCOUNT_START);
        }
}
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char **, char **) = first;

__attribute__((constructor)) static void second(void)
{
    account_mark(ACCOUNT_MAIN);
}

int main(int argc, char **argv)
{
    MUST(argc > 1);
    forever = argc > 2;
    struct thread self = {.random = strtoul(argv[1], NULL, 10) * 7919 + 1, .root = ROOT_MAIN}, others[THREADS];
    pthread_t running[THREADS];
    static const unsigned long lengths[] = {100, 1000, 4000, 12000};
    unsigned long length = lengths[draw(&self) % 4], windows = one_in(&self, 3) ? 1 + draw(&self) % 3 : 1;
    unsigned count = (unsigned)(draw(&self) % (THREADS + 1));
    MUST(pthread_key_create(&late, at_end_of_thread) == 0);
    for (int i = 0; i < PLACES; i++)
        pthread_mutex_init(&places[i].lock, NULL);
    if (forever && count == 0)
        count = 1;
    for (unsigned long window = 1; window <= windows; window++) {
        for (unsigned i = 0; i < count; i++) {
            others[i] = (struct thread){.random = draw(&self), .root = ROOT_WORKER, .operations = length / count};
            MUST(pthread_create(&running[i], NULL, worker, &others[i]) == 0);
        }
        for (unsigned long i = 0; i < length / (count + 1); i++)
            step(&self);
        for (unsigned i = 0; i < count; i++)
            pthread_join(running[i], NULL);
        if (window < windows) {
            MUST(steer("ms_host_stop") == 0);
            account_mark(ACCOUNT_CLOSED);
            between(&self);
            MUST(steer("ms_host_start") == 0);
            account_mark(ACCOUNT_OPENED);
        }
    }
    switch (draw(&self) % 5) {
    case 0:
        _exit(0);
    case 1:
        quick_exit(0);
    case 2:
        kill(getpid(), SIGKILL);
        break;
    case 3:
        pthread_exit(NULL);
    }
    return 0;
}
