/*
 * account.c - what a call means for the books.
 */
#include <string.h>

#include "state.h"

enum { FOLD = 1024 }; /* blocks that a thread adds to the common count at once */

static void fold(int64_t *own, int64_t *common, int64_t n)
{
    if (UNLIKELY(self.shared)) {
        __atomic_fetch_add(common, n, __ATOMIC_RELAXED);
        return;
    }
    int64_t sum = *own + n;
    if (UNLIKELY(sum >= FOLD || sum <= -FOLD)) {
        __atomic_fetch_add(common, sum, __ATOMIC_RELAXED);
        sum = 0;
    }
    __atomic_store_n(own, sum, __ATOMIC_RELAXED);
}

static void count_live(uint32_t stack, int64_t n)
{
    if (UNLIKELY(stack == MS_HEAP_STACK_OVERFLOW))
        fold(&self.slot->overflow, &tables.heap->overflow, n);
    else
        fold(&self.slot->blocks, &tables.heap->blocks, n);
}

/* Accounting has come to its end for this window; what is there so far is a prefix. */
static void stop_accounting(uint32_t window)
{
    __atomic_store_n(&tables.stopped, window, __ATOMIC_RELAXED);
    __atomic_fetch_or(&tables.heap->truncated, MS_HEAP_TRUNC_STOPPED, __ATOMIC_RELAXED);
}

static inline bool stopped(uint32_t window)
{
    return UNLIKELY(__atomic_load_n(&tables.stopped, __ATOMIC_RELAXED) == window);
}

/* `heir`: the stack that has the block after a realloc; 0: nobody. */
static void count_free(const struct block *block, uint32_t heir)
{
    struct ms_heap_count *c = counters_of(block->stack);
    if (UNLIKELY(!c))
        return;
    uint32_t now = __atomic_load_n(&tables.heap->tick, __ATOMIC_RELAXED);
    add(&c->free_count, 1);
    add(&c->free_bytes, block->size);
    if (heir == block->stack)
        add(&c->resized, 1);
    else if (now > block->tick)
        add(&c->lifetime, now - block->tick);
}

/* One block goes into the ledger and the counters, or accounting stops and it is false. */
static bool track(uint32_t window, const void *address, const struct block *block)
{
    struct block old;
    if (UNLIKELY(((uintptr_t)address & 7) != 0 || (uintptr_t)address >> 48)) {
        add_size(&self.slot->untracked, block->size);
        return false;
    }
    struct ms_heap_count *counts = counters_of(block->stack);
    if (UNLIKELY(!counts)) {
        stop_accounting(window);
        add_size(&self.slot->untracked, block->size);
        return false;
    }
    switch (ledger_insert(window, (uintptr_t)address, block, &old)) {
    case FULL:
        stop_accounting(window);
        add_size(&self.slot->untracked, block->size);
        return false;
    case REPLACED:
        if (old.stack != MS_HEAP_STACK_UNTRACKED) {
            add_size(&self.slot->unseen, old.size);
            count_free(&old, 0);
            count_live(old.stack, -1);
        }
        break;
    case INSERTED:
        break;
    }
    if (block->stack != MS_HEAP_STACK_UNTRACKED) {
        add(&counts->alloc_count, 1);
        add(&counts->alloc_bytes, block->size);
        count_live(block->stack, 1);
    }
    return true;
}

static inline bool sampling(void)
{
    return UNLIKELY(__atomic_load_n(&tables.heap->sample_mask, __ATOMIC_RELAXED));
}

/*
 * Whether sampling leaves a new block out: it takes one of each sample_mask + 1 in a row. Which one is a hash of the thread's own
 * count, so that no period of the program fits.
 */
static inline bool left_out(size_t size)
{
    struct ms_heap *heap = tables.heap;
    struct ms_heap_slot *slot = self.slot;
    uint32_t window = __atomic_load_n(&heap->window, __ATOMIC_RELAXED);
    uint32_t mask = __atomic_load_n(&heap->sample_mask, __ATOMIC_RELAXED);
    if (!window || stopped(window) || size < __atomic_load_n(&heap->threshold, __ATOMIC_RELAXED))
        return false;
    uint64_t x = slot->sequence;
    uint32_t place = (uint32_t)x & mask;
    add(&slot->sequence, 1);
    if (UNLIKELY(place == 0)) {
        x = (x ^ (uintptr_t)slot) * 0x9e3779b97f4a7c15ULL;
        x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
        __atomic_store_n(&slot->pick, (uint32_t)(x ^ x >> 32) & mask, __ATOMIC_RELAXED);
    }
    if (place == __atomic_load_n(&slot->pick, __ATOMIC_RELAXED))
        return false;
    add_size(&slot->unsampled, size);
    return true;
}

/* Which stack a new block belongs to. */
static uint32_t attribute(uint32_t window, const struct ms_regs *caller)
{
    struct ms_heap *heap = tables.heap;
    if (LIKELY(__atomic_load_n(&heap->blocks, __ATOMIC_RELAXED) < (int64_t)tables.blocks_most))
        return stack_of(caller);
    __atomic_fetch_or(&heap->truncated, MS_HEAP_TRUNC_BLOCKS, __ATOMIC_RELAXED);
    if (__atomic_load_n(&heap->overflow, __ATOMIC_RELAXED) < (int64_t)tables.overflow_most)
        return MS_HEAP_STACK_OVERFLOW;
    stop_accounting(window);
    return 0;
}

/* Of a new block, or of one that a realloc has made of `old`. The stack that has it; 0: none. */
static uint32_t account(const void *address, size_t size, const struct ms_regs *caller, const struct block *old)
{
    struct ms_heap *heap = tables.heap;
    uint32_t window = __atomic_load_n(&heap->window, __ATOMIC_RELAXED);
    if (!window)
        return 0;
    if (stopped(window)) {
        add_size(&self.slot->untracked, size);
        return 0;
    }
    struct block block = {.size = size, .tick = old ? old->tick : __atomic_load_n(&heap->tick, __ATOMIC_RELAXED)};
    if (UNLIKELY(size < __atomic_load_n(&heap->threshold, __ATOMIC_RELAXED))) {
        add_size(&self.slot->below, size);
        /* At its free this block would pass for one from before the window that is large enough. */
        if (real.usable_size((void *)address) < heap->threshold)
            return 0;
        block.stack = MS_HEAP_STACK_UNTRACKED;
    } else {
        ledger_prefetch((uintptr_t)address); /* comes while we walk the stack */
        block.stack = attribute(window, caller);
        if (UNLIKELY(!block.stack)) {
            add_size(&self.slot->untracked, size);
            return 0;
        }
    }
    return track(window, address, &block) ? block.stack : 0;
}

/* Inside the hook already. Apart from note_alloc, so that whoever does not sample has less to keep in registers. */
static __attribute__((noinline)) void note_sampled(const void *block, size_t size, const struct ms_regs *caller)
{
    if (!left_out(size))
        account(block, size, caller, NULL);
    self.last = block;
    leave();
}

void note_alloc(const void *block, size_t size, const struct ms_regs *caller)
{
    if (!block || !enter())
        return;
    if (sampling()) {
        note_sampled(block, size, caller);
        return;
    }
    account(block, size, caller, NULL);
    self.last = block;
    leave();
}

static unsigned bucket_of(size_t size)
{
    static const size_t bounds[MS_HEAP_BUCKETS - 1] = {256, 1024, 4096, 32768, 262144, 1048576};
    unsigned i = 0;
    while (i < MS_HEAP_BUCKETS - 1 && size >= bounds[i])
        i++;
    return i;
}

/* The size of a block that is not in the ledger, about to be freed: it is from before the window. 0: sampled, not known. */
static size_t unknown_size(void *address)
{
    return sampling() ? 0 : real.usable_size(address);
}

static void count_unknown(size_t usable)
{
    if (usable && usable >= __atomic_load_n(&tables.heap->threshold, __ATOMIC_RELAXED))
        add_size(&self.slot->prewindow[bucket_of(usable)], usable);
}

/* Takes the block out; true when it was there. */
static bool take(void *address, uint32_t window, struct block *block)
{
    if (!ledger_remove(window, (uintptr_t)address, block))
        return false;
    if (block->stack != MS_HEAP_STACK_UNTRACKED)
        count_live(block->stack, -1);
    return true;
}

void note_free(void *address)
{
    __builtin_prefetch((char *)address - 16, 1); /* where most allocators look first, after us */
    if (!enter())
        return;
    uint32_t window = __atomic_load_n(&tables.heap->window, __ATOMIC_RELAXED);
    struct block block;
    if (window && !stopped(window)) {
        if (LIKELY(take(address, window, &block))) {
            if (LIKELY(block.stack != MS_HEAP_STACK_UNTRACKED))
                count_free(&block, 0);
        } else {
            count_unknown(unknown_size(address));
        }
    }
    leave();
}

bool begin_resize(void *address, struct taken *taken)
{
    memset(taken, 0, sizeof *taken);
    if (!enter())
        return false;
    uint32_t window = __atomic_load_n(&tables.heap->window, __ATOMIC_RELAXED);
    if (window && !stopped(window)) {
        taken->window = window;
        taken->found = take(address, window, &taken->block);
        if (!taken->found)
            taken->usable = unknown_size(address);
    }
    return true;
}

/* Who closes a window waits for us, so it is also ours when there is none any more; in another one the block is forgotten. */
static bool still_in(uint32_t window)
{
    uint32_t now = __atomic_load_n(&tables.heap->window, __ATOMIC_RELAXED);
    return window && (now == window || now == 0);
}

void resized(const struct taken *taken, const void *fresh, size_t size, const struct ms_regs *caller)
{
    bool ours = still_in(taken->window);
    uint32_t heir = 0;
    if (fresh) {
        if (!sampling() || !left_out(size))
            heir = account(fresh, size, caller, ours && taken->found ? &taken->block : NULL);
        self.last = fresh;
    }
    if (ours && !taken->found)
        count_unknown(taken->usable);
    else if (ours && taken->block.stack != MS_HEAP_STACK_UNTRACKED)
        count_free(&taken->block, heir);
    leave();
}

void not_resized(const struct taken *taken, const void *address)
{
    struct block old;
    if (taken->found && still_in(taken->window) &&
        ledger_insert(taken->window, (uintptr_t)address, &taken->block, &old) == INSERTED &&
        taken->block.stack != MS_HEAP_STACK_UNTRACKED)
        count_live(taken->block.stack, 1);
    leave();
}
