#include "caching_pool.h"

#include <stdbool.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "pool_report.h"

/* Bytes; the sizes of PyTorch's caching allocator. */
enum {
    BLOCK_UNIT = 512,
    SMALL_MAX = 1 << 20, /* requests up to here come from small segments */
    SMALL_SEGMENT = 2 << 20,
    LARGE_MIN = 10 << 20,     /* from here on a request has a segment of its own */
    LARGE_SEGMENT = 20 << 20, /* for what lies between */
    LARGE_UNIT = 2 << 20,
};

/* The blocks of a segment are a list in address order that covers it without gaps. */
struct block {
    struct block *prev, *next;
    char *address;
    size_t bytes;
    bool used, small;
};

struct segment {
    struct segment *next;
    struct block *first;
    size_t bytes;
};

struct pool {
    int32_t device;
    struct segment *segments;
    uint64_t allocated, peak, reserved;
};

struct pool *pool_new(int32_t device)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->device = device;
    return pool;
}

static size_t rounded(size_t bytes)
{
    return bytes < BLOCK_UNIT ? BLOCK_UNIT : (bytes + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
}

static size_t segment_bytes(size_t bytes)
{
    if (bytes <= SMALL_MAX)
        return SMALL_SEGMENT;
    if (bytes < LARGE_MIN)
        return LARGE_SEGMENT;
    return (bytes + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
}

/* The smallest free block that is large enough; the lowest address among equals. */
static struct block *best_fit(struct pool *pool, size_t bytes)
{
    struct block *best = NULL;
    for (struct segment *s = pool->segments; s; s = s->next)
        for (struct block *b = s->first; b; b = b->next)
            if (!b->used && b->small == (bytes <= SMALL_MAX) && b->bytes >= bytes &&
                (!best || b->bytes < best->bytes || (b->bytes == best->bytes && b->address < best->address)))
                best = b;
    return best;
}

static struct block *new_segment(struct pool *pool, size_t bytes, int *error)
{
    size_t whole = segment_bytes(bytes);
    void *address = NULL;
    struct segment *segment = calloc(1, sizeof *segment);
    struct block *block = calloc(1, sizeof *block);
    *error =
        segment && block ? aclrtMallocAlign32(&address, whole, ACL_MEM_MALLOC_HUGE_FIRST) : ACL_ERROR_INTERNAL_ERROR;
    if (*error) {
        free(segment);
        free(block);
        return NULL;
    }
    *block = (struct block){.address = address, .bytes = whole, .small = bytes <= SMALL_MAX};
    *segment = (struct segment){.next = pool->segments, .first = block, .bytes = whole};
    pool->segments = segment;
    pool->reserved += whole;
    return block;
}

/* Cuts what a block has too much off as a free block of its own, where that is worth it. */
static void split(struct block *block, size_t bytes)
{
    size_t left = block->bytes - bytes;
    struct block *rest = left >= (block->small ? BLOCK_UNIT : SMALL_MAX + 1) ? calloc(1, sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = (struct block){
        .prev = block, .next = block->next, .address = block->address + bytes, .bytes = left, .small = block->small};
    if (rest->next)
        rest->next->prev = rest;
    block->next = rest;
    block->bytes = bytes;
}

void *pool_alloc(struct pool *pool, size_t bytes, int *error)
{
    bytes = rounded(bytes);
    *error = 0;
    struct block *block = best_fit(pool, bytes);
    if (!block)
        block = new_segment(pool, bytes, error);
    if (!block) {
        pool_empty_cache(pool);
        block = new_segment(pool, bytes, error);
    }
    if (!block)
        return NULL;
    split(block, bytes);
    block->used = true;
    pool->allocated += block->bytes;
    if (pool->peak < pool->allocated)
        pool->peak = pool->allocated;
    report_alloc((uint32_t)pool->device, block->address, block->bytes, pool->reserved);
    return block->address;
}

static struct block *merge(struct block *low, struct block *high)
{
    low->bytes += high->bytes;
    low->next = high->next;
    if (low->next)
        low->next->prev = low;
    free(high);
    return low;
}

void pool_free(struct pool *pool, void *address)
{
    struct block *block = NULL;
    for (struct segment *s = pool->segments; s && !block; s = s->next)
        for (block = s->first; block && (!block->used || block->address != address); block = block->next)
            ;
    if (!block)
        abort(); /* a free of what was never handed out is a bug of the caller */
    report_free((uint32_t)pool->device, block->address, pool->reserved);
    block->used = false;
    pool->allocated -= block->bytes;
    if (block->prev && !block->prev->used)
        block = merge(block->prev, block);
    if (block->next && !block->next->used)
        merge(block, block->next);
}

void pool_empty_cache(struct pool *pool)
{
    for (struct segment **link = &pool->segments; *link;) {
        struct segment *segment = *link;
        if (segment->first->used || segment->first->next) {
            link = &segment->next;
            continue;
        }
        aclrtFree(segment->first->address);
        pool->reserved -= segment->bytes;
        *link = segment->next;
        free(segment->first);
        free(segment);
    }
}

uint64_t pool_allocated(const struct pool *pool)
{
    return pool->allocated;
}

uint64_t pool_peak(const struct pool *pool)
{
    return pool->peak;
}

void pool_reset_peak(struct pool *pool)
{
    pool->peak = pool->allocated;
}

void pool_delete(struct pool *pool)
{
    while (pool->segments) {
        struct segment *segment = pool->segments;
        pool->segments = segment->next;
        while (segment->first) {
            struct block *block = segment->first;
            segment->first = block->next;
            free(block);
        }
        free(segment);
    }
    free(pool);
}
