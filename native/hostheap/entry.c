/*
 * entry.c - what programs call: the C allocation family, dlclose, _exit.
 *
 * Every entry has the same shape: the real call; and while a window is open, the books. An address is what the real call
 * returned, never what the caller passed. Memory that was handed out before the real functions were known stays as it is.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "state.h"

#define NOTE(block, size)                     \
    do {                                      \
        if (UNLIKELY(open_window())) {        \
            struct ms_regs caller;            \
            MS_CALLER(caller);                \
            note_alloc(block, size, &caller); \
        }                                     \
    } while (0)

MS_EXPORT void *malloc(size_t size)
{
    if (UNLIKELY(!ready()))
        return early_alloc(size, 16);
    void *block = real.malloc(size);
    NOTE(block, size);
    return block;
}

MS_EXPORT void *calloc(size_t count, size_t size)
{
    if (UNLIKELY(!ready())) {
        size_t bytes;
        return __builtin_mul_overflow(count, size, &bytes) ? NULL : early_alloc(bytes, 16); /* zeros already */
    }
    void *block = real.calloc(count, size);
    NOTE(block, count * size);
    return block;
}

MS_EXPORT void free(void *block)
{
    if (UNLIKELY(!ready() || is_early(block)))
        return;
    if (block && UNLIKELY(open_window()))
        note_free(block);
    real.free(block);
}

/* From early memory to whatever there is now. */
static void *move_early(void *block, size_t size)
{
    void *fresh = ready() ? real.malloc(size) : early_alloc(size, 16);
    if (fresh) {
        size_t old = early_size(block);
        memcpy(fresh, block, old < size ? old : size);
    }
    return fresh;
}

static void *resize(void *block, size_t size, const struct ms_regs *caller)
{
    struct taken taken;
    if (!begin_resize(block, &taken))
        return real.realloc(block, size);
    void *fresh = real.realloc(block, size);
    if (!fresh && size != 0)
        not_resized(&taken, block);
    else
        resized(&taken, fresh, size, caller);
    return fresh;
}

MS_EXPORT void *realloc(void *block, size_t size)
{
    if (UNLIKELY(!ready() || is_early(block)))
        return block ? move_early(block, size) : early_alloc(size, 16);
    if (LIKELY(!open_window()))
        return real.realloc(block, size);
    struct ms_regs caller;
    MS_CALLER(caller);
    if (block)
        return resize(block, size, &caller);
    void *fresh = real.realloc(NULL, size);
    note_alloc(fresh, size, &caller);
    return fresh;
}

/* Where the C library has none (before glibc 2.26) it is what the manual says. */
MS_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (UNLIKELY(!ready() || is_early(block)))
        return block ? move_early(block, bytes) : early_alloc(bytes, 16);
    if (LIKELY(!open_window()))
        return real.realloc(block, bytes);
    struct ms_regs caller;
    MS_CALLER(caller);
    if (block)
        return resize(block, bytes, &caller);
    void *fresh = real.realloc(NULL, bytes);
    note_alloc(fresh, bytes, &caller);
    return fresh;
}

MS_EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (UNLIKELY(!ready() || !real.posix_memalign)) {
        void *early = alignment % sizeof(void *) == 0 ? early_alloc(size, alignment) : NULL;
        if (!early)
            return alignment % sizeof(void *) || (alignment & (alignment - 1)) ? EINVAL : ENOMEM;
        *block = early;
        return 0;
    }
    int error = real.posix_memalign(block, alignment, size);
    if (error == 0)
        NOTE(*block, size);
    return error;
}

#define ALIGNED(name, slot, early_alignment, parameters, arguments) \
    MS_EXPORT void *name parameters                                 \
    {                                                               \
        if (UNLIKELY(!ready() || !real.slot))                       \
            return early_alloc(size, early_alignment);              \
        void *block = real.slot arguments;                          \
        NOTE(block, size);                                          \
        return block;                                               \
    }

ALIGNED(aligned_alloc, aligned_alloc, alignment, (size_t alignment, size_t size), (alignment, size))
ALIGNED(memalign, memalign, alignment, (size_t alignment, size_t size), (alignment, size))
ALIGNED(valloc, valloc, (size_t)sysconf(_SC_PAGESIZE), (size_t size), (size))
ALIGNED(pvalloc, pvalloc, (size_t)sysconf(_SC_PAGESIZE), (size_t size), (size))

/* Of glibc before 2.26, and of C23: the sizes only help the allocator. */
MS_EXPORT void cfree(void *block)
{
    free(block);
}

MS_EXPORT void free_sized(void *block, size_t size)
{
    (void)size;
    free(block);
}

MS_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free(block);
}

/* As it is, but for memory that the real one does not know. */
MS_EXPORT size_t malloc_usable_size(void *block)
{
    if (!block)
        return 0;
    if (UNLIKELY(!ready() || is_early(block)))
        return early_size(block);
    return real.usable_size(block);
}

MS_EXPORT int dlclose(void *library)
{
    if (!ready() || (!real.dlclose && !find_real_functions()) || !real.dlclose)
        return -1;
    int result = real.dlclose(library);
    if (__atomic_load_n(&life->window, __ATOMIC_ACQUIRE)) {
        int saved = errno;
        library_gone();
        errno = saved;
    }
    return result;
}

MS_EXPORT __attribute__((noreturn)) void _exit(int status)
{
    note_end();
    for (;;)
        syscall(SYS_exit_group, status);
}

MS_EXPORT __attribute__((noreturn)) void _Exit(int status)
{
    _exit(status);
}
