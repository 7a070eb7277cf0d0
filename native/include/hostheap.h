/*
 * hostheap.h - the host heap's tables: one memfd per process, written by libmsmemscope_host_mem_hook.so in the target
 * and read by the collector, which steers by a few words of its own. docs/design.md, "The host heap", has the reasons.
 *
 * The collector makes the memfd when a process asks MS_HEAP_JOIN (wire.h), sets its length, fills in the part of
 * struct ms_heap that describes it, and sends the descriptor with the welcome. Nothing is allocated ahead: pages come as
 * they are touched. (Where vm.overcommit_memory is 2 the collector allocates all but the arena, because a touch that finds
 * no memory is SIGBUS there. Of the arena the hook itself makes sure.) Everything starts as zeros. The target may die at
 * any instant; what is here can be read all the same.
 *
 * Rules of the file: as in wire.h. internal/hostheap/heap_gen.go is the generated Go twin (`make generate`).
 * Units: bytes for sizes; CLOCK_MONOTONIC nanoseconds for stamps; ticks of MS_HEAP_TICK_NS since the window opened.
 *
 * Who writes: [c] the collector, [h] the hook, [hc] both with atomic operations. Counters only grow, over all windows of
 * the process: whoever wants those of one window subtracts what they were when it opened.
 */
#ifndef MSMEMSCOPE_HOSTHEAP_H
#define MSMEMSCOPE_HOSTHEAP_H

#include <stdint.h>

enum {
    MS_HEAP_MAGIC = 0x6d736831, /* "msh1" */
    MS_HEAP_VERSION = 1,
    MS_HEAP_ALIGN = 65536,       /* every section begins on this boundary: the largest page size in use */
    MS_HEAP_TICK_NS = 100000000, /* the collector advances `tick` by the clock, about every 100 ms */
    MS_HEAP_UNIT = 64,           /* ms_heap offsets of 32 bits into the arena count these; 0 means none */
    MS_HEAP_BUCKETS = 7,         /* upper bounds, exclusive: 256, 1 Ki, 4 Ki, 32 Ki, 256 Ki, 1 Mi, none */
    MS_HEAP_CLASSES = 20,        /* sizes of a region's table: 16, 24, 32, 48, 64 ... 8192 entries */
    MS_HEAP_DEPTH_MAX = 64,      /* most frames of a stack, native and Python each */
};

/* What the collector gives; the hook takes any number from the header, as long as the sections fit. */
enum {
    MS_HEAP_SLOTS = 4096,              /* threads at a time with counters of their own; others share slot 0 */
    MS_HEAP_INDEX = 1 << 20,           /* places of the stack index, a power of two */
    MS_HEAP_STACKS = 400000,           /* different stacks, contract 6.2; less than MS_HEAP_STACK_MOST */
    MS_HEAP_NATIVES = 1 << 20,         /* places of native locations, a power of two */
    MS_HEAP_PYTHONS = 1 << 18,         /* Python locations */
    MS_HEAP_LOOKUP = 1 << 19,          /* places of their index, a power of two */
    MS_HEAP_MODULES = 4096,            /* libraries ever seen */
    MS_HEAP_TEXT_BYTES = 64 << 20,     /* paths, names */
    MS_HEAP_SPARES = 1 << 16,          /* places of the ring of recycled stacks, a power of two */
    MS_HEAP_DIRECTORY = 1 << 18,       /* GiB of address space, 48 bits */
    MS_HEAP_ARENA_MIB = 2048,          /* region arrays, tables, counters */
    MS_HEAP_BLOCKS = 20000000,         /* live blocks with a stack, contract 6.2 */
    MS_HEAP_OVERFLOW_BLOCKS = 20000000 /* live blocks without one, behind them */
};

/* ------------------------------------------------------------------ header, at offset 0 */

enum { MS_HEAP_TRUNC_BLOCKS = 1, MS_HEAP_TRUNC_STACKS = 2, MS_HEAP_TRUNC_STOPPED = 4 }; /* contract 6.2, bit0 to bit2 */

enum ms_heap_state {
    MS_HEAP_ATTACHED = 0,
    MS_HEAP_ENDED = 1, /* exit handlers ran or _exit was called: the death that follows is an orderly end */
};

enum {
    MS_HEAP_PYTHON = 1,      /* an interpreter is in the process and its frames are recorded */
    MS_HEAP_PYTHON_LOST = 2, /* an interpreter is in the process whose frames cannot be read */
    MS_HEAP_FIND_OBJECT = 4, /* libraries are found by the C library's lock-free look-up (glibc 2.35) */
    MS_HEAP_IN_FRONT =
        8, /* another malloc is found before the hook's: `allocator` has it, and only what it passes on is seen */
};

struct ms_heap {
    uint32_t magic;   /* [c] MS_HEAP_MAGIC */
    uint32_t version; /* [c] MS_HEAP_VERSION */
    uint64_t bytes;   /* [c] of the whole memfd */

    /* [c] Sections: offset from the start and number of elements (arena, text: bytes). Fixed before the welcome. */
    uint64_t slots_at;     /* struct ms_heap_slot */
    uint64_t index_at;     /* uint64_t, see "Stacks" */
    uint64_t stacks_at;    /* stack records of stack_bytes each */
    uint64_t natives_at;   /* uint64_t, see "Locations" */
    uint64_t pythons_at;   /* struct ms_heap_python */
    uint64_t modules_at;   /* struct ms_heap_module */
    uint64_t lookup_at;    /* uint32_t: the hook's index of the Python locations; nobody else's business */
    uint64_t text_at;      /* see "Text" */
    uint64_t spares_at;    /* uint32_t */
    uint64_t directory_at; /* uint32_t */
    uint64_t arena_at;
    uint64_t text_bytes;
    uint64_t arena_bytes;
    uint32_t slots;
    uint32_t index;
    uint32_t stacks;      /* stack ids are below this */
    uint32_t stack_bytes; /* sizeof(struct ms_heap_stack) + 4 * (native_depth + python_depth), rounded up to 8 */
    uint32_t natives;
    uint32_t pythons;
    uint32_t modules;
    uint32_t lookup;
    uint32_t spares;
    uint32_t directory;
    uint32_t native_depth; /* most native frames of a stack: K of contract 6.2 */
    uint32_t python_depth; /* most Python frames; 0: none wanted */
    uint64_t blocks_most;  /* live blocks with a stack */
    uint64_t overflow_most;
    uint8_t pad0[72];

    /*
     * [c] The window: its number, counted from 1 on and never again 0, while one is open; 0 while none is. The hook looks
     * at it in every call. Before it is opened: tick = 0, the next three words, blocks = overflow = 0, truncated = 0.
     */
    uint32_t window;
    uint32_t tick;
    uint64_t threshold;   /* smaller blocks are counted, not tracked */
    uint32_t sample_mask; /* one block in sample_mask + 1, a power of two, is tracked */
    uint32_t spare_head;  /* ring of recycled stacks: pushed so far, modulo 2^32 */
    uint64_t opened;      /* stamp */
    uint8_t pad1[32];

    /* [h] except where said */
    int64_t blocks;      /* [hc] live blocks with a stack, +- 1024 per thread; for the limit only, never for a report */
    int64_t overflow;    /* [hc] live blocks in the overflow channel, the same */
    uint64_t arena_next; /* bytes of the arena handed out; may be beyond arena_bytes when it is full */
    uint64_t text_next;  /* the same for text */
    uint32_t stack_next; /* stack ids handed out for the first time are below; may be beyond `stacks` */
    uint32_t spare_tail; /* ring of recycled stacks: taken so far */
    uint32_t slot_high;  /* slots below were used at some time */
    uint32_t module_next; /* modules below may be there; one is complete when its `end` is not 0 */
    uint32_t python_next; /* Python locations handed out; one is complete when its `line` is not 0 */
    uint32_t truncated;   /* [hc] MS_HEAP_TRUNC_*: set by the hook, cleared when a window opens */
    uint32_t state;       /* enum ms_heap_state */
    uint32_t flags;       /* MS_HEAP_PYTHON ... */
    uint64_t attached;    /* stamp */
    uint32_t allocator;   /* module (number) that has the real malloc, as far as known; 0: unknown */
    uint32_t pid;         /* as the process sees itself */
    /* Region tables given back, by class: arena unit | number of pops << 32; the first word of a table links to the next. */
    uint64_t free_tables[MS_HEAP_CLASSES];
};

/* ------------------------------------------------------------------ threads
 *
 * Each thread writes into a slot of its own with plain stores. Slots are passed on to later threads as they are. Slot 0 is
 * everybody's who has none, and gets atomic additions.
 *
 * `turn` is odd while the thread is inside the hook. To close a window: window = 0; membarrier(MEMBARRIER_CMD_GLOBAL); then
 * wait until each slot's turn is even or has changed. After that nobody writes into the ledger. (Slot 0: the
 * number of threads inside.)
 */
struct ms_heap_size {
    uint64_t count;
    uint64_t bytes;
};

struct ms_heap_slot {
    uint32_t owner; /* thread id; 0: free */
    uint32_t turn;
    int64_t blocks;                /* not yet added to the header's */
    int64_t overflow;              /* the same */
    uint64_t sequence;             /* of allocations, for sampling */
    uint64_t truncated;            /* stacks whose walk ended early: no rule, or memory that is no stack */
    uint64_t nested;               /* calls that were not looked at: a signal handler inside the hook */
    struct ms_heap_size below;     /* allocations below the threshold */
    struct ms_heap_size unsampled; /* allocations that sampling left out */
    struct ms_heap_size unseen;    /* blocks whose free was never seen: their address was handed out again */
    struct ms_heap_size untracked; /* allocations after accounting stopped, or at an address that is no multiple of 8 */
    struct ms_heap_size prewindow[MS_HEAP_BUCKETS]; /* frees of blocks from before the window, by malloc_usable_size */
    uint32_t trail; /* arena unit of the thread's own memory for its walks; nobody else's business */
    uint32_t pick;  /* which of the next sample_mask + 1 allocations sampling takes; nobody else's business */
    uint32_t reserved[6];
    /* For the stacks i * 64 and on: arena unit of struct ms_heap_count[MS_HEAP_COUNTERS]; 0: none counted yet. */
    uint32_t counters[8192];
};

enum { MS_HEAP_COUNTERS = 64 };

/*
 * Of one stack in one thread; a stack's numbers are the sum over all slots. Read `resized`, then frees, then allocations.
 * A realloc is a free of the old block's stack and an allocation of its own, but the block lives on: it keeps the tick of
 * its birth, and where both stacks are the same one, `resized` says how many of both are neither birth nor death.
 */
struct ms_heap_count {
    uint64_t alloc_count;
    uint64_t alloc_bytes;
    uint64_t free_count;
    uint64_t free_bytes;
    uint64_t lifetime; /* ticks that the blocks lived which the stack has lost, summed */
    uint64_t resized;
};

/* ------------------------------------------------------------------ the ledger of live blocks
 *
 * directory[address >> 30] is the arena unit of a struct ms_heap_gib, which has a region for each 64 KiB of that GiB. A region
 * that has `window` of the open window has a table of 8-byte entries for the blocks that begin in it; in any other region
 * no block of this window begins. An entry is 0 or, from the top,
 *
 *     granule:13 | stack:19 | size:21 | age:11
 *
 * granule: address bits 3-15; size in bytes, or MS_HEAP_SIZE_LARGE: then `large` of the region has it (no other such block
 * can begin there); allocated at tick age << scale, rounded down; a realloc keeps that.
 *
 * Reading beside a running target: load lock; copy table, scale, used and the entries; load lock again. It was
 * even and has not changed: the copy is good. Else try again, and count the region as degraded after some tries. After a
 * death a region may be locked for ever, by a thread that was changing it: then the same granule may be there twice (take
 * one of them) and `used` may be off by one.
 */
struct ms_heap_region {
    uint32_t lock; /* odd: locked; every change adds 2 in the end */
    uint32_t
        table; /* arena unit of the entries << 5 | class: (2 + class % 2) << (3 + class / 2) entries, 16, 24, 32, 48 ... */
    uint32_t window;
    uint16_t used; /* entries that are not 0 */
    uint8_t scale;
    uint8_t waiting; /* somebody waits for the lock */
};

enum { MS_HEAP_GIB_REGIONS = 1 << 14 };

/* What every call looks at lies close together; `large` hardly any does. */
struct ms_heap_gib {
    struct ms_heap_region regions[MS_HEAP_GIB_REGIONS];
    uint64_t large[MS_HEAP_GIB_REGIONS]; /* size of the large block that begins in the region, bytes */
};

enum {
    MS_HEAP_CLASS_BITS = 5,
    MS_HEAP_REGION_SHIFT = 16,
    MS_HEAP_GIB_SHIFT = 30,
    MS_HEAP_GRANULE_SHIFT = 51,
    MS_HEAP_STACK_SHIFT = 32,
    MS_HEAP_STACK_MOST = (1 << 19) - 1,
    MS_HEAP_SIZE_SHIFT = 11,
    MS_HEAP_SIZE_LARGE = (1 << 21) - 1,
    MS_HEAP_AGE_MOST = (1 << 11) - 1,
};

/* ------------------------------------------------------------------ stacks
 *
 * index[hash & (index - 1)] and the following places: 0 ends the search; an entry is the hash with its low 19 bits
 * replaced by the stack id. The top bit of a hash is always set; id 0 marks a place that was vacated.
 *
 * Recycling, by the collector when stack_next reaches `stacks`: choose stacks without live blocks; clear the id of their
 * index entry (compare-and-swap); membarrier and wait for the turns, as for closing; look whether they still have none (else
 * put the entry back); note their counters as the new base; put the id into spares[spare_head & (spares - 1)] and then add 1
 * to spare_head, never more than `spares` ahead of spare_tail. The hook takes from there what it cannot get from stack_next.
 */
enum {
    MS_HEAP_STACK_UNKNOWN = 1,   /* the table was full: the bucket "unknown" */
    MS_HEAP_STACK_OVERFLOW = 2,  /* the overflow channel */
    MS_HEAP_STACK_UNTRACKED = 3, /* a block below the threshold that looks larger when it is freed: not a live block */
    MS_HEAP_STACK_FIRST = 4,     /* the first id that has a record */
};

enum { MS_HEAP_CUT_NATIVE = 1, MS_HEAP_CUT_PYTHON = 2 };

struct ms_heap_stack {
    uint64_t hash;
    uint32_t incarnation; /* odd while the hook writes the record; another one is another stack */
    uint8_t natives;      /* frames, innermost first: first the native ones, then the Python ones */
    uint8_t pythons;
    uint8_t flags; /* MS_HEAP_CUT_*: the walk ended early there */
    uint8_t reserved;
    /* uint32_t frames[native_depth + python_depth]: native and Python locations; 0: the table was full */
};

/* ------------------------------------------------------------------ locations, modules
 *
 * natives[place] = return address | module << 48. Module 0: in no library (generated code). A return address points behind
 * the call: look up the byte before it. The address is that in the target; subtract the module's bias for its file.
 */
struct ms_heap_module {
    uint64_t start; /* first address and the one behind the last, of all segments */
    uint64_t end;
    uint64_t bias;           /* address in the target minus address in the file's program headers */
    uint32_t path;           /* text; 0: unknown */
    uint32_t gone;           /* the library was unloaded; its number is never given to another */
    uint32_t build_id_bytes; /* 0: none */
    uint8_t build_id[28];
};

/* A place in a Python function. Number 0 is never used. The first three fields tell it from others, for the hook. */
struct ms_heap_python {
    uint64_t code; /* the code object's address */
    uint32_t identity;
    uint32_t offset;   /* of the instruction */
    uint32_t function; /* text; 0: could not be read */
    uint32_t file;     /* text; 0: could not be read */
    uint32_t line;     /* stored last; UINT32_MAX: unknown */
    uint32_t reserved;
};

/*
 * Text: at text_at + 4 * reference, a uint32_t length in bytes, then the bytes. References are never 0.
 */

#endif
