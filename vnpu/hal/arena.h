/*
 * arena.h - blocks of device and host memory.
 *
 * An arena hands out blocks of one page type of one device. Its memory comes from the kernel in chunks that are mapped
 * once, without reserve, so that nothing costs anything until it is touched; a block is then a few instructions under
 * one lock, without a system call. Blocks are carved off a chunk in size classes (four per doubling) and keep address
 * and class for ever; a freed one waits in the list of its class. Address space is plentiful, so there is no splitting,
 * no merging, and no search. What a block may hold of the card is charged by the caller, in whole pages.
 */
#ifndef VNPU_ARENA_H
#define VNPU_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page { PAGE_NORMAL, PAGE_HUGE, PAGE_GIANT, PAGES };
enum { HOST_DEVICE = -1 };

struct arena;

/* Prepares the arenas of `devices` devices and of the host, and guards their locks across fork. */
void arenas_init(uint32_t devices);

/* The arena of a page type; the host has normal pages only. */
struct arena *arena_of(int32_t device, enum page page);
uint64_t page_bytes(enum page page);

/* Bytes rounded up to whole pages, or 0 on overflow. */
uint64_t page_round(enum page page, uint64_t bytes);

/* A block of `bytes` (not 0); NULL when the kernel has no address space left. */
void *arena_alloc(struct arena *arena, uint64_t bytes);

struct block_info {
    int32_t device; /* or HOST_DEVICE */
    enum page page;
    char *start;
    uint64_t bytes; /* as asked for */
};

/* Frees the block that begins at `address`, and describes what it was; false when there is no such live block. */
bool arena_free(void *address, struct block_info *was);

enum found { NOT_OURS, LIVE_BLOCK, NO_BLOCK };

/* What `address` belongs to: a live block (described in `info`), nothing of ours, or a place of ours without a block. */
enum found arena_find(const void *address, struct block_info *info);

#endif
