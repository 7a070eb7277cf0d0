/*
 * caching_pool.h - a small caching allocator on top of AscendCL, the way frameworks have one.
 *
 * It takes segments from the card and cuts blocks from them; freed blocks are merged with their neighbours and kept for
 * the next request. What it hands out and takes back it tells through mstx exactly as torch_npu's does (abi.md 3.6), and
 * only when a memory tool has put its libascend_kernel_hook.so into LD_PRELOAD. One thread at a time for each pool.
 */
#ifndef CACHING_POOL_H
#define CACHING_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool;

/* A pool of the card; NULL when the host has no memory. The card must be the thread's current one in every call. */
struct pool *pool_new(int32_t device);

/* A block of at least `bytes`; NULL when the card has no room, `*error` then is the aclError. */
void *pool_alloc(struct pool *pool, size_t bytes, int *error);
void pool_free(struct pool *pool, void *block);

uint64_t pool_allocated(const struct pool *pool); /* bytes handed out now */
uint64_t pool_peak(const struct pool *pool);      /* the most since the last pool_reset_peak */
void pool_reset_peak(struct pool *pool);

/* Gives back every segment from which nothing is handed out. */
void pool_empty_cache(struct pool *pool);

/* Forgets the pool. Segments with blocks that are still handed out stay on the card: that is what a leak is. */
void pool_delete(struct pool *pool);

#endif
