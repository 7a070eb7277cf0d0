/*
 * tables.h - the collector's side of the host heap, for the native tests: makes tables, sends them, reads them.
 */
#ifndef MSMEMSCOPE_HOSTHEAP_TEST_TABLES_H
#define MSMEMSCOPE_HOSTHEAP_TEST_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hostheap.h"

/* What a test wants otherwise than as it is; 0: as it is. */
struct sizes {
    uint32_t stacks, slots, arena_mib, native_depth, python_depth, sample_mask;
    uint64_t blocks, overflow;
};

struct collector {
    struct ms_heap *heap; /* mapped here too */
    int memory;           /* the memfd */
    int listener;
    char session[64]; /* for MSMEMSCOPE_SESSION */
};

/* Makes tables, with window 1 open at tick 0, and listens. */
void collector_open(struct collector *c, const struct sizes *sizes);
/* Answers one process that joins. */
void collector_serve(struct collector *c);
void collector_close(struct collector *c);

void *section(const struct collector *c, uint64_t at);

struct live {
    uint64_t address, size, tick;
    uint32_t stack;
};

/* The blocks of a window, by address. Returns the number; `*list` is to be freed. Complains of a damaged ledger and exits. */
size_t read_ledger(const struct collector *c, uint32_t window, struct live **list);
const struct live *find_live(const struct live *list, size_t count, uint64_t address);

/* A stack's numbers, over all slots. */
struct ms_heap_count read_counts(const struct collector *c, uint32_t stack);
/* The sum of one counter (offset in struct ms_heap_slot) over all slots. */
uint64_t read_counter(const struct collector *c, size_t offset);
#define COUNTER(c, field) read_counter(c, offsetof(struct ms_heap_slot, field))

/*
 * That counters and ledger agree: for each stack, allocations less frees are the blocks that live, in number and bytes.
 * `slack`: so many blocks may be off (calls that a kill broke off). Exits with a line if not. Returns the live blocks.
 */
size_t check_books(const struct collector *c, uint32_t window, unsigned slack);

const struct ms_heap_stack *stack_record(const struct collector *c, uint32_t stack);

#endif
