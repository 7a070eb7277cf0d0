/*
 * bounds.c - how far up a stack can be read. Never by pthread_getattr_np: it takes locks and reads files.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum {
    PAGE = 4096,            /* the smallest there is: finer steps than the kernel's harm nobody, see `mapped` */
    OWN_MOST = 1 << 30,     /* no thread's stack is larger, as far as we care */
    FOREIGN_MOST = 1 << 18, /* how much of a stack we know nothing about (coroutine, signal stack) is looked at */
};

extern void *__libc_stack_end __attribute__((weak)); /* of ld.so: where the first thread's stack begins */

/*
 * Whether every page is there. MADV_NORMAL does nothing to a stack, and says ENOMEM for a hole. A page size larger than
 * ours refuses what is not aligned to it, and is then tried.
 */
static bool mapped(uintptr_t from, uintptr_t to)
{
    static uintptr_t page = PAGE;
    uintptr_t size = __atomic_load_n(&page, __ATOMIC_RELAXED);
    int saved = errno;
    long result;
    while ((result = syscall(SYS_madvise, from & -size, to - (from & -size), MADV_NORMAL)) < 0 && errno == EINVAL &&
           size < 65536)
        size *= 4;
    __atomic_store_n(&page, size, __ATOMIC_RELAXED);
    errno = saved;
    return result == 0;
}

static __thread struct {
    uintptr_t low, high;
} known __attribute__((tls_model("initial-exec")));

/* A stack whose end is known: that of this thread, whose thread pointer glibc puts on top, or that of the first one. */
static uintptr_t own_end(uintptr_t sp)
{
    uintptr_t ends[] = {(uintptr_t)__builtin_thread_pointer(), &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] - sp < OWN_MOST && mapped(sp, ends[i]))
            return ends[i] & -(uintptr_t)8;
    return 0;
}

static uintptr_t foreign_end(uintptr_t sp)
{
    uintptr_t size = FOREIGN_MOST;
    while (size >= PAGE && !mapped(sp, (sp & -(uintptr_t)PAGE) + size))
        size /= 2;
    return size >= PAGE ? (sp & -(uintptr_t)PAGE) + size : sp;
}

uintptr_t stack_end(uintptr_t sp)
{
    if (__builtin_expect(sp - known.low < known.high - known.low, 1))
        return known.high;
    uintptr_t end = own_end(sp);
    if (!end)
        end = foreign_end(sp);
    known.low = sp & -(uintptr_t)PAGE;
    known.high = end;
    return end;
}
