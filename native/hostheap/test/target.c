/*
 * target.c - programs that allocate, for test_hostheap.c: `target SCENARIO [NUMBER]`. Each keeps its own account.
 */
#include "target.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct account *account;
static unsigned long number; /* the second argument */
static volatile size_t too_much = SIZE_MAX / 2;

#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            dprintf(2, "target: %s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* Says that a block is to be there at the end. */
static void alive(const void *block, size_t size)
{
    uint64_t i = __atomic_fetch_add(&account->count, 1, __ATOMIC_RELAXED);
    MUST(i < ACCOUNT_MOST);
    account->blocks[i].address = (uintptr_t)block;
    account->blocks[i].size = size;
}

/* ---- every entry point once, one block kept of each, one freed */

extern void *reallocarray(void *, size_t, size_t);
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
extern void cfree(void *) __attribute__((weak));

static void entries(void)
{
    void *p;
    MUST(free_sized && free_aligned_sized && cfree);
    for (int keep = 0; keep < 2; keep++) {
#define BLOCK(expression, size, release) \
    do {                                 \
        MUST(p = (expression));          \
        memset(p, 7, size);              \
        if (keep)                        \
            alive(p, size);              \
        else                             \
            release;                     \
    } while (0)
        BLOCK(malloc(101), 101, free(p));
        BLOCK(calloc(7, 31), 217, cfree(p));
        BLOCK(realloc(NULL, 103), 103, free_sized(p, 103));
        BLOCK(realloc(malloc(50), 5000), 5000, free(p));
        BLOCK(realloc(malloc(5000), 51), 51, free(p));
        BLOCK(reallocarray(malloc(10), 9, 12), 108, free(p));
        BLOCK(aligned_alloc(64, 640), 640, free_aligned_sized(p, 64, 640));
        BLOCK(memalign(4096, 77), 77, free(p));
        BLOCK(valloc(222), 222, free(p));
        BLOCK(pvalloc(333), 333, free(p));
        BLOCK(posix_memalign(&p, 256, 999) == 0 ? p : NULL, 999, free(p));
        BLOCK(malloc(3 << 20), 3 << 20, free(p));             /* more than 21 bits of size */
        BLOCK(malloc((2 << 20) - 1), (2 << 20) - 1, free(p)); /* the first size that is large */
        BLOCK(malloc((2 << 20) - 2), (2 << 20) - 2, free(p)); /* the last that is not */
        BLOCK(realloc(malloc(3 << 20), 5 << 20), 5 << 20, free(p));
    }
    /* what fails is no block, and errno is the real one's */
    errno = 0;
    MUST(!malloc(too_much) && errno == ENOMEM);
    MUST(!reallocarray(NULL, too_much, 3) && errno == ENOMEM);
    MUST(!calloc(too_much, 3));
    MUST(posix_memalign(&p, 3, 10) == EINVAL);
    p = malloc(60);
    MUST(!realloc(p, too_much)); /* the block is still there */
    alive(p, 60);
    errno = 17;
    free(malloc(10));
    MUST(errno == 17);
    free(NULL);
    MUST(!realloc(malloc(20), 0)); /* glibc frees */
    MUST((p = malloc(0)));
    alive(p, 0);
    MUST(malloc_usable_size(p) >= 16 && malloc_usable_size(NULL) == 0);
}

/* ---- a storm: threads that allocate, resize and free their own and each other's */

enum { PLACES = 4096 };
static struct {
    void *block;
    size_t size;
} places[PLACES];
static pthread_mutex_t locks[64];
static bool over;

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 31;
}

static __attribute__((noinline)) void *get(unsigned how, size_t size)
{
    void *p = NULL;
    switch (how % 6) {
    case 0:
        return calloc(1, size);
    case 1:
        return memalign(64, size); /* of any size, which the sanitizer wants a multiple for aligned_alloc */
    case 2:
        return posix_memalign(&p, 128, size) ? NULL : p;
    default:
        return malloc(size);
    }
}

static __attribute__((noinline)) void step(uint64_t *state, int depth)
{
    if (depth > 0) {
        step(state, depth - 1);
        __asm__ volatile("");
        return;
    }
    uint64_t r = next_random(state);
    unsigned i = r % PLACES;
    size_t size = r >> 12 & 7 ? r >> 20 & 1023 : r >> 20 & 0x7ffff;
    if ((r >> 50 & 1023) == 0)
        size += 2 << 20;
    pthread_mutex_lock(&locks[i % 64]);
    if (!places[i].block) {
        places[i].block = get((unsigned)(r >> 40), size);
        places[i].size = size;
    } else if (r >> 60 < 5) {
        void *p = realloc(places[i].block, size + 1);
        MUST(p);
        places[i].block = p;
        places[i].size = size + 1;
    } else {
        free(places[i].block);
        places[i].block = NULL;
    }
    pthread_mutex_unlock(&locks[i % 64]);
}

static void *storm_thread(void *seed)
{
    uint64_t state = (uintptr_t)seed;
    for (unsigned long i = 0; i < number; i++)
        step(&state, (int)(next_random(&state) % 24));
    return NULL;
}

static void account_for_places(void)
{
    for (int i = 0; i < PLACES; i++)
        if (places[i].block)
            alive(places[i].block, places[i].size);
}

static void *endless(void *seed)
{
    uint64_t state = (uintptr_t)seed;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        step(&state, 3);
    return NULL;
}

static pthread_t busy[8];

static void start_busy(void)
{
    for (uintptr_t i = 0; i < 8; i++)
        MUST(pthread_create(&busy[i], NULL, endless, (void *)(i + 1)) == 0);
}

static void end_busy(void)
{
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 8; i++)
        pthread_join(busy[i], NULL);
    account_for_places();
}

/* ---- until it is killed */

static void forever(void)
{
    start_busy();
    account->stage = 1;
    for (;;)
        pause();
}

/* ---- complaint 1: forks out of a storm, `number` from each of its threads; the child allocates */

static __attribute__((noinline)) void leave_by_vfork(void)
{
    int status;
    pid_t child = vfork();
    if (child == 0)
        _exit(4);
    MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
}

static void *forker(void *seed)
{
    uint64_t state = (uintptr_t)seed;
    for (unsigned long i = 0; i < number; i++) {
        for (int k = 0; k < 200; k++)
            step(&state, 5);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            for (int k = 0; k < 10; k++)
                free(realloc(malloc(100), 1000));
            if (i % 2)
                _exit(3);
            _Exit(3);
        }
        int status;
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
        if (i % 10 == 0)
            leave_by_vfork();
    }
    return NULL;
}

static void in_threads(void *(*body)(void *))
{
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        MUST(pthread_create(&threads[i], NULL, body, (void *)(i * 1000 + number)) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    account_for_places();
}

static void storm(void)
{
    in_threads(storm_thread);
}

static void forks(void)
{
    in_threads(forker);
}

/* ---- complaint 4: libraries come and go; plugin() of each allocates */

static void *loader(void *unused)
{
    char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    MUST(length > 0);
    path[length] = 0;
    char *end = strrchr(path, '/');
    for (unsigned long i = 0; i < number; i++) {
        sprintf(end, "/plugin-%c.so", i % 2 ? 'a' : 'b');
        void *handle = dlopen(path, RTLD_NOW);
        MUST(handle);
        void *(*make)(void) = (void *(*)(void))dlsym(handle, "make");
        MUST(make);
        alive(make(), 48);
        dlclose(handle);
    }
    return unused;
}

static void loads(void)
{
    start_busy();
    loader(NULL);
    end_busy();
}

/* ---- allocation in signal handlers */

static void *volatile from_handler;

static void on_timer(int signal)
{
    (void)signal;
    int saved = errno;
    void *p = malloc(64);
    account->values[0]++;
    free(p);
    errno = saved;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    /* No malloc below, which is not made for this; the hook's own share of a call is what the signals are to hit. */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (time_t end = t.tv_sec + 2; t.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &t))
        for (int i = 0; i < 100; i++) {
            sigset_t all, before;
            sigfillset(&all);
            void *p = malloc(100);
            free(p);
            sigprocmask(SIG_SETMASK, NULL, &before);
        }
    setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- a thousand threads that begin and end, 100 at a time; some free what others made, in their destructors */

static pthread_key_t late;

static void at_thread_end(void *block)
{
    free(block);
    alive(malloc(40), 40);
}

static void *short_life(void *arg)
{
    pthread_setspecific(late, malloc(56));
    alive(malloc(24 + (uintptr_t)arg % 100), 24 + (uintptr_t)arg % 100);
    return NULL;
}

static void threads(void)
{
    pthread_t running[100];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    MUST(pthread_key_create(&late, at_thread_end) == 0);
    for (uintptr_t round = 0; round < 10; round++) {
        for (uintptr_t i = 0; i < 100; i++)
            MUST(pthread_create(&running[i], &small, short_life, (void *)(round * 100 + i)) == 0);
        for (int i = 0; i < 100; i++)
            pthread_join(running[i], NULL);
    }
}

/* ---- `number` blocks of one site, each as large as its index says, and every other freed */

static void many(void)
{
    for (unsigned long i = 0; i < number; i++) {
        size_t size = 16 + i % 200;
        void *p = malloc(size);
        if (i % 2)
            free(p);
        else
            alive(p, size);
    }
}

/* ---- windows: blocks before, between and in them; the test steers by `go` */

static void wait_for(uint32_t go)
{
    account->stage = go;
    while (__atomic_load_n(&account->go, __ATOMIC_ACQUIRE) < go)
        usleep(1000);
}

static void windows(void)
{
    void *first = malloc(300), *second = malloc(2000), *third = malloc(70000);
    wait_for(1); /* window 1 closed here */
    void *between = malloc(5000);
    free(malloc(10));
    wait_for(2); /* window 2 open here */
    free(first);
    free(between);
    second = realloc(second, 2500);
    alive(second, 2500);
    alive(malloc(99), 99);
    wait_for(3);
    free(third);
}

/* ---- a block that moves to the stack of a realloc and is then resized by it, once in vain */

static void growth(void)
{
    wait_for(1);
    void *p = malloc(100);
    wait_for(2);
    for (size_t size = 200; size <= 1000; size += 200) {
        void *fresh = realloc(p, size == 600 ? too_much : size);
        p = fresh ? fresh : p;
    }
    alive(p, 1000);
    wait_for(3);
}

/* ---- different stacks: the bits of `way` choose the callers */

static void *branch(unsigned way, int depth);
static __attribute__((noinline)) void *left(unsigned way, int depth)
{
    void *p = branch(way, depth);
    __asm__ volatile("");
    return p;
}
static __attribute__((noinline)) void *right(unsigned way, int depth)
{
    void *p = branch(way, depth);
    __asm__ volatile("");
    return p;
}
static __attribute__((noinline)) void *branch(unsigned way, int depth)
{
    void *p = depth == 0 ? malloc(32) : way & 1 ? left(way >> 1, depth - 1) : right(way >> 1, depth - 1);
    __asm__ volatile("");
    return p;
}

static void stacks(void)
{
    for (unsigned long i = 0; i < number; i++)
        alive(branch((unsigned)i, 9), 32);
}

/* ---- 512 calls that lie as close together as calls can */

static __attribute__((noinline)) void leaf(void)
{
    alive(malloc(32), 32);
    __asm__ volatile("");
}

#define EIGHT(call) call call call call call call call call

static __attribute__((noinline)) void close_calls(void)
{
    EIGHT(EIGHT(EIGHT(leaf();)))
    __asm__ volatile("");
}

/* ---- complaint 11: C++ operators; pool.c has some that bypass malloc */

extern void *_Znwm(size_t) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));

static void operators(void)
{
    MUST(_Znwm && _ZdlPv);
    for (int i = 0; i < 100; i++) {
        void *kept = _Znwm(100 + (size_t)i), *given_back = _Znwm(40);
        alive(kept, 100 + (size_t)i);
        _ZdlPv(given_back);
    }
}

/* ---- what preload libraries and C libraries do early: before and in constructors, at exit */

static void *early;
__attribute__((constructor)) static void before_main(void)
{
    early = malloc(123);
}

static void at_exit(void)
{
    free(early);
}

static void exits(void)
{
    atexit(at_exit);
    alive(malloc(88), 88);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
        {"entries", entries}, {"storm", storm},         {"forever", forever}, {"forks", forks},
        {"loads", loads},     {"signals", signals},     {"threads", threads}, {"many", many},
        {"windows", windows}, {"growth", growth},       {"stacks", stacks},   {"close_calls", close_calls},
        {"exits", exits},     {"operators", operators},
    };
    const char *fd = getenv("ACCOUNT_FD");
    MUST(argc > 1 && fd);
    account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
    MUST(account != MAP_FAILED);
    for (int i = 0; i < 64; i++)
        pthread_mutex_init(&locks[i], NULL);
    number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(argv[1], scenarios[i].name) == 0) {
            if (scenarios[i].run != exits)
                alive(early, 123);
            scenarios[i].run();
            return 0;
        }
    dprintf(2, "target: no scenario %s\n", argv[1]);
    return 2;
}
