/*
 * state.h - what the host hook's own files share.
 *
 *   entry.c, operators.c   the functions that programs call
 *   real.c                 the functions behind them, and memory before those are known
 *   account.c              what a call means: window, threshold, sampling, limits, counters
 *   ledger.c               live blocks
 *   stacks.c, places.c     stacks and what they are made of
 *   tables.c               memory in the tables: arena, text
 *   join.c                 meeting the collector; fork, threads, exit
 *
 * hostheap.h has the layout of what is shared. Nothing here allocates, blocks longer than a second or changes errno.
 */
#ifndef MSMEMSCOPE_HOSTHEAP_STATE_H
#define MSMEMSCOPE_HOSTHEAP_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hostheap.h"
#include "ms_unwind.h"

#define MS_EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- process */

/* Handed to a forked child as zeros (MADV_WIPEONFORK): it finds no tables, and the hook is off in it. */
struct life {
    uint32_t *window; /* in the header; NULL: no tables */
};

/* Where the tables are in this process; valid while life->window is set. */
struct tables {
    struct ms_heap *heap;
    uint64_t heap_bytes;
    struct ms_heap_slot *slots;
    uint64_t *index;
    unsigned char *stacks;
    uint64_t *natives;
    struct ms_heap_python *pythons;
    struct ms_heap_module *modules;
    uint32_t *lookup;
    unsigned char *text;
    uint32_t *spares;
    uint32_t *directory;
    unsigned char *arena;
    /* fixed numbers of the header, so that nobody who writes into it can lead us astray */
    uint64_t arena_bytes, text_bytes, blocks_most, overflow_most;
    uint32_t slot_count, index_mask, stack_count, stack_bytes, native_mask, python_count, module_count, lookup_mask;
    uint32_t spare_mask, native_depth, python_depth;
    uint32_t stopped; /* the window whose accounting has stopped */
};

extern struct life *life; /* never NULL */
extern struct tables tables;

/* The open window's number; 0: none. */
static inline uint32_t open_window(void)
{
    uint32_t *window = __atomic_load_n(&__atomic_load_n(&life, __ATOMIC_RELAXED)->window, __ATOMIC_ACQUIRE);
    return LIKELY(!window) ? 0 : __atomic_load_n(window, __ATOMIC_RELAXED);
}

static inline void *at_unit(uint32_t unit)
{
    return tables.arena + (uint64_t)unit * MS_HEAP_UNIT;
}

/* ---- thread: initial-exec, together with the unwinder's well below 256 bytes */

struct thread {
    struct ms_heap_slot *slot; /* NULL: none yet */
    struct ms_trail *trail;    /* NULL: the slot is shared, or no memory */
    const void *last;          /* block that was accounted for last */
    uint32_t depth;            /* > 0: inside the hook */
    uint32_t spare_stack;      /* a stack id that this thread has taken and not used */
    uint32_t joined;           /* `joins` when the slot was taken */
    bool shared;               /* the slot is slot 0 */
    bool ending;               /* the thread's own destructors have run: no slot of its own any more */
    bool resolving;            /* inside real.c */
};

extern __thread struct thread self __attribute__((tls_model("initial-exec")));

/* The slot is there, and the thread is marked as inside; false: it is inside already (counted), or there are no tables. */
bool enter(void);
void leave(void);

/* Counters of the own slot. */
static inline void add(uint64_t *counter, uint64_t n)
{
    if (LIKELY(!self.shared))
        __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline void add_size(struct ms_heap_size *size, uint64_t bytes)
{
    add(&size->count, 1);
    add(&size->bytes, bytes);
}

/* ---- real.c */

struct real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable_size)(void *);
    int (*dlclose)(void *);
};

extern struct real real;

/* The C library's word (glibc 2.32) that there is one thread: then nobody else can want a lock. Points to 0 where it has none. */
extern const char *single_threaded;

/* False while this thread is looking for the real functions: then memory comes from early_alloc. */
bool find_real_functions(void);

static inline bool ready(void)
{
    return LIKELY(__atomic_load_n(&real.malloc, __ATOMIC_ACQUIRE) != NULL) || find_real_functions();
}

void *early_alloc(size_t size, size_t alignment);
extern bool early_in_use;
bool lies_in_early(const void *block);

/* From early_alloc: never freed. */
static inline bool is_early(const void *block)
{
    return UNLIKELY(__atomic_load_n(&early_in_use, __ATOMIC_RELAXED)) && lies_in_early(block);
}

size_t early_size(const void *block);

/* ---- account.c: only while a window is open */

void note_alloc(const void *block, size_t size, const struct ms_regs *caller);
/* Before the real free. */
void note_free(void *block);

struct block {
    uint64_t size;
    uint64_t tick; /* when it was allocated */
    uint32_t stack;
};

/*
 * realloc: the block is taken out before the real call. The thread is inside the hook until that has returned, lest a
 * close or a death find half of it. begin_resize: false, and nothing is to follow: it was inside already.
 */
struct taken {
    bool found;
    uint32_t window;
    struct block block;
    size_t usable; /* of a block from before the window; 0: none */
};
bool begin_resize(void *block, struct taken *taken);
void resized(const struct taken *taken, const void *fresh, size_t size, const struct ms_regs *caller);
void not_resized(const struct taken *taken, const void *block); /* it is what it was */

/* ---- ledger.c */

enum insertion { INSERTED, REPLACED, FULL };

/* REPLACED: there was a block at this address, `old`; its free was not seen. FULL: no memory for the entry. */
enum insertion ledger_insert(uint32_t window, uintptr_t address, const struct block *block, struct block *old);
void ledger_prefetch(uintptr_t address);
bool ledger_remove(uint32_t window, uintptr_t address, struct block *block);

/* ---- stacks.c */

void prepare_hash(void);                         /* once, before the first stack */
uint32_t stack_of(const struct ms_regs *caller); /* id; MS_HEAP_STACK_UNKNOWN when the table is full */
/* The own counters of a stack. NULL: no memory for them. */
struct ms_heap_count *counters_of(uint32_t stack);

/* ---- places.c: locations; 0: the table is full */

uint32_t native_place(ms_frame frame);
struct ms_py_frame;
uint32_t python_place(const struct ms_py_frame *frame);
void unload_modules(void);                     /* notes which are */
uint32_t publish_module_at(uintptr_t address); /* number of the library; 0: none */

/* ---- tables.c */

/* Arena unit of zeroed memory; 0: full. */
uint32_t arena_alloc(uint64_t bytes);
/* Reference of a copy of the text; 0: full. */
uint32_t text_add(const char *text, size_t bytes);

/* ---- join.c */

void library_gone(void); /* after a dlclose */
void note_end(void);     /* the process ends by its own will */

/* System calls by syscall(): no cancellation points, nobody's wrappers. */
void futex_wait(uint32_t *word, uint32_t value, int64_t ns); /* shared; changes no errno */
void futex_wake(uint32_t *word);

#endif
