#include "account.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

__thread uint32_t account_path;
static __thread bool inside;        /* an entry of ours: what is called below is not noted again */
static __thread uint16_t thread_no; /* from 1 on */
static uint32_t threads;
static struct account *book; /* NULL: none yet, or a forked child */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
    size_t (*usable)(void *);
} next;

/* dlsym allocates only for errors. */
static void find(void *slot, const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        abort();
    memcpy(slot, &function, sizeof function);
}

static void find_all(void)
{
    find(&next.calloc, "calloc");
    find(&next.realloc, "realloc");
    find(&next.reallocarray, "reallocarray");
    find(&next.posix_memalign, "posix_memalign");
    find(&next.aligned_alloc, "aligned_alloc");
    find(&next.memalign, "memalign");
    find(&next.valloc, "valloc");
    find(&next.pvalloc, "pvalloc");
    find(&next.free, "free");
    find(&next.usable, "malloc_usable_size");
    find(&next.malloc, "malloc");
}

static void record(enum account_kind kind, enum account_entry entry, const void *block, size_t size, size_t usable)
{
    uint64_t i = __atomic_fetch_add(&book->count, 1, __ATOMIC_ACQ_REL);
    if (i >= ACCOUNT_RECORDS)
        abort();
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    struct account_record *r = &book->records[i];
    r->entry = (uint8_t)entry;
    r->thread = thread_no;
    r->path = account_path;
    r->address = (uintptr_t)block;
    r->size = size;
    r->usable = usable;
    r->stamp = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    __atomic_store_n(&r->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}

/* The call begins: true when it is to be noted, and end_call must follow. */
static bool begin_call(enum account_kind kind, enum account_entry entry, const void *block, size_t size)
{
    if (!next.malloc)
        find_all();
    if (!book || inside)
        return false;
    inside = true;
    if (!thread_no) {
        thread_no = (uint16_t)__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
        if (thread_no >= ACCOUNT_THREADS)
            abort();
    }
    struct account_pending *p = &book->pending[thread_no];
    p->entry = (uint8_t)entry;
    p->path = account_path;
    p->address = (uintptr_t)block;
    p->size = size;
    __atomic_store_n(&p->kind, (uint8_t)kind, __ATOMIC_RELEASE);
    return true;
}

static void end_call(void)
{
    __atomic_store_n(&book->pending[thread_no].kind, 0, __ATOMIC_RELEASE);
    inside = false;
}

/* The rest of an entry after `void *block = ...`. */
#define NOTED(entry, size)                                  \
    if (noted) {                                            \
        int saved = errno;                                  \
        if (block)                                          \
            record(ACCOUNT_ALLOC, entry, block, (size), 0); \
        end_call();                                         \
        errno = saved;                                      \
    }                                                       \
    return block

void *malloc(size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, MALLOC, NULL, size);
    void *block = next.malloc(size);
    NOTED(MALLOC, size);
}

void *calloc(size_t count, size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, CALLOC, NULL, count * size);
    void *block = next.calloc(count, size);
    NOTED(CALLOC, count * size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, ALIGNED_ALLOC, NULL, size);
    void *block = next.aligned_alloc(alignment, size);
    NOTED(ALIGNED_ALLOC, size);
}

void *memalign(size_t alignment, size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, MEMALIGN, NULL, size);
    void *block = next.memalign(alignment, size);
    NOTED(MEMALIGN, size);
}

void *valloc(size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, VALLOC, NULL, size);
    void *block = next.valloc(size);
    NOTED(VALLOC, size);
}

void *pvalloc(size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, PVALLOC, NULL, size);
    void *block = next.pvalloc(size);
    NOTED(PVALLOC, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    bool noted = begin_call(ACCOUNT_ALLOC, POSIX_MEMALIGN, NULL, size);
    int error = next.posix_memalign(result, alignment, size);
    if (noted) {
        int saved = errno;
        if (error == 0)
            record(ACCOUNT_ALLOC, POSIX_MEMALIGN, *result, size, 0);
        end_call();
        errno = saved;
    }
    return error;
}

/* The old block ends where the call begins; when the call fails it is there again. size 0 frees, with glibc. */
static void *resized(void *old, size_t size, enum account_entry entry, bool noted, size_t count)
{
    if (noted && old)
        record(ACCOUNT_FREE, entry, old, 0, next.usable(old));
    void *block = entry == REALLOC ? next.realloc(old, size) : next.reallocarray(old, count, size / count);
    if (noted) {
        int saved = errno;
        if (block)
            record(ACCOUNT_ALLOC, entry, block, size, 0);
        else if (old && size)
            record(ACCOUNT_BACK, entry, old, 0, 0);
        end_call();
        errno = saved;
    }
    return block;
}

void *realloc(void *old, size_t size)
{
    return resized(old, size, REALLOC, begin_call(ACCOUNT_BACK, REALLOC, old, size), 1);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (count == 0 || __builtin_mul_overflow(count, size, &bytes)) {
        if (!next.malloc)
            find_all();
        return next.reallocarray(old, count, size); /* the program does not do the first */
    }
    return resized(old, bytes, REALLOCARRAY, begin_call(ACCOUNT_BACK, REALLOCARRAY, old, bytes), count);
}

void free(void *block)
{
    bool noted = block && begin_call(ACCOUNT_FREE, MALLOC, block, 0);
    if (noted)
        record(ACCOUNT_FREE, MALLOC, block, 0, next.usable(block));
    next.free(block);
    if (noted)
        end_call();
}

static void in_child(void)
{
    book = NULL;
    inside = false;
}

void account_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *book) != 0)
        abort();
    void *memory = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED || pthread_atfork(NULL, NULL, in_child) != 0)
        abort();
    close(fd);
    book = memory;
    book->pid = (uint64_t)getpid();
}

void account_mark(enum account_kind kind)
{
    record(kind, MALLOC, NULL, 0, 0);
}

void account_pause(int on)
{
    inside = on;
}
