/*
 * operators.c - C++ operator new and delete, for allocators that have their own (jemalloc, tcmalloc, mimalloc).
 *
 * Those of libstdc++ and libc++ call malloc and free, which are ours already; then these here must not even leave a frame
 * on the stack. Which is the case is seen, not guessed: after the first block the malloc of this thread was asked or not.
 * A program that has operators of its own does not come here at all.
 */
#include <stdlib.h>

#include "state.h"
#include "symbols.h"

enum { UNKNOWN, BY_MALLOC, BY_ITSELF };
static uint32_t kind; /* of the real operators */

/* The real operator. The library that calls us needs one, so there is one; but it may have been loaded a moment ago. */
static __attribute__((noinline)) void *find_operator(void **slot, const char *name)
{
    struct search search = {.name = name, .after = (void *)find_operator, .except = "ms_host_start"};
    self.depth++;
    void *found = search_libraries(&search);
    self.depth--;
    if (!found)
        abort();
    __atomic_store_n(slot, found, __ATOMIC_RELEASE);
    return found;
}

static inline void *real_operator(void **slot, const char *name)
{
    void *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    return LIKELY(found) ? found : find_operator(slot, name);
}

/* After a block from the real operator while a window is open. */
static void note_new(const void *block, size_t size, const struct ms_regs *caller)
{
    uint32_t known = __atomic_load_n(&kind, __ATOMIC_RELAXED);
    if (known == UNKNOWN && block && !self.depth) {
        known = self.last == block ? BY_MALLOC : BY_ITSELF;
        __atomic_store_n(&kind, known, __ATOMIC_RELAXED);
    }
    if (known == BY_ITSELF && self.last != block) /* a large block may have come by malloc after all */
        note_alloc(block, size, caller);
    self.last = NULL;
}

/* Before a block goes to the real operator: true when it does not pass through free. */
static bool note_delete(void *block)
{
    if (!block || __atomic_load_n(&kind, __ATOMIC_RELAXED) != BY_ITSELF || self.depth)
        return false;
    note_free(block);
    return true;
}

#define NEW(name, parameters, arguments)                           \
    MS_EXPORT void *name parameters                                \
    {                                                              \
        static void *slot;                                         \
        void *(*real_new)parameters = real_operator(&slot, #name); \
        if (LIKELY(!open_window()) || kind == BY_MALLOC)           \
            return real_new arguments;                             \
        struct ms_regs caller;                                     \
        MS_CALLER(caller);                                         \
        void *block = real_new arguments;                          \
        note_new(block, size, &caller);                            \
        return block;                                              \
    }

/* Within the real one the thread counts as inside: what it frees has been noted. */
#define DELETE(name, parameters, arguments)                          \
    MS_EXPORT void name parameters                                   \
    {                                                                \
        static void *slot;                                           \
        void(*real_delete) parameters = real_operator(&slot, #name); \
        if (LIKELY(!open_window()) || !note_delete(block)) {         \
            real_delete arguments;                                   \
            return;                                                  \
        }                                                            \
        self.depth++;                                                \
        real_delete arguments;                                       \
        self.depth--;                                                \
    }

/* m: size_t, RKSt9nothrow_t: const std::nothrow_t &, St11align_val_t: std::align_val_t (a size_t) */
NEW(_Znwm, (size_t size), (size))
NEW(_Znam, (size_t size), (size))
NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void *tag), (size, tag))
NEW(_ZnamRKSt9nothrow_t, (size_t size, const void *tag), (size, tag))
NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), (size, alignment))
NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), (size, alignment))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag), (size, alignment, tag))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag), (size, alignment, tag))

DELETE(_ZdlPv, (void *block), (block))
DELETE(_ZdaPv, (void *block), (block))
DELETE(_ZdlPvm, (void *block, size_t size), (block, size))
DELETE(_ZdaPvm, (void *block, size_t size), (block, size))
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))
DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment))
DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), (block, size, alignment))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag))
