/*
 * agent.h - what the agent offers to the hooks.
 *
 * A hook that has something to say does
 *
 *     if (ms_enter(MS_MEMORY) != MS_SKIP) {
 *         struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, device, sizeof *r);
 *         if (r) { r->addr = ...; ms_publish(&r->h); }
 *         ms_leave();
 *     }
 *
 * Between ms_enter and ms_leave every hook on this thread is silent, whether it is reached through our own calls into
 * the stack or from a signal handler. Between ms_reserve and ms_publish nothing may be called that can block: the
 * consumer waits for the record. None of these functions changes errno.
 *
 * The record layouts are in wire.h.
 */
#ifndef MSMEMSCOPE_AGENT_H
#define MSMEMSCOPE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define MS_EXPORT __attribute__((visibility("default")))

/* What to do with an event (abi.md 1.2). */
enum ms_mode {
    MS_SKIP,   /* nothing */
    MS_NORMAL, /* record it */
    MS_SHADOW, /* not tracing: record it all the same, flagged MS_F_SHADOW, so that the ledger stays right */
};

/* What kind of event a hook has to offer. */
enum ms_interest {
    MS_MEMORY, /* allocations and frees: wanted by the `events` option, also while paused */
    MS_TRACE,  /* marks, ranges, ACL events: wanted whenever tracing */
    MS_KERNEL, /* kernels: wanted by the `events` and `level` options; MS_SHADOW while paused, for what must be known later */
    MS_OP,          /* operators: wanted by the `events` and `level` options */
    MS_ACCESSES,    /* tensors that operators and kernels touch: wanted by the `events` option */
    MS_WATCH,       /* tensors around operators and kernels: wanted by the `watch` option */
    MS_CANN_HEAP,   /* what AscendCL hands out: wanted by `mssanitizer --check-cann-heap=yes` */
    MS_DEVICE_HEAP, /* what the driver maps: wanted by `mssanitizer --check-device-heap=yes` */
    MS_INTERESTS,
};

/* Begins an event on this thread; the first one of a process connects to the collector. After MS_SKIP no ms_leave. */
MS_EXPORT enum ms_mode ms_enter(enum ms_interest interest);
MS_EXPORT void ms_leave(void);

/*
 * Reserves a record of `bytes` bytes and fills in its head; `pool` and `device` as in wire.h. Everything behind the head
 * is zero. NULL when there is nothing to record: the device is filtered out (abi.md 2.6) or the collector is gone.
 * Waits when the ring is full.
 */
MS_EXPORT void *ms_reserve(enum ms_type type, enum ms_pool pool, uint16_t device, size_t bytes);
MS_EXPORT void ms_publish(struct ms_head *record);

/*
 * The same for a hook that is called back from inside of what the program has called: the stack begins at `from` (ms_unwind.h,
 * MS_CALLER), a function that has not returned yet, but for what is left out.
 */
enum ms_leave_out {
    MS_NOTHING,
    MS_OUR_FRAMES, /* those in front that are of our libraries */
    MS_ITS_FRAMES, /* those in front that are of the library that `from` is in */
};
struct ms_regs;
void *ms_reserve_from(enum ms_type type, enum ms_pool pool, uint16_t device, size_t bytes, const struct ms_regs *from,
                      enum ms_leave_out out);

/*
 * The id of this thread's call stack, for ms_head.stack; 0: none. Innermost frames first, those of our libraries left out;
 * at most so many of C and of Python, each up to MS_STACK_MOST, 0: not wanted. Call it between ms_enter and ms_leave, but not
 * between ms_reserve and ms_publish. ms_reserve does that by itself, by the user's options.
 */
enum { MS_STACK_MOST = 1000 };
MS_EXPORT uint32_t ms_stack(unsigned c_depth, unsigned py_depth);

/* A whole struct ms_text record. NULL is the empty text; a text of more than MS_TEXT_MAX bytes is cut between characters. */
MS_EXPORT void ms_put_text(enum ms_type type, uint16_t device, uint64_t value, const char *text);

/* A line for the collector's log, where the user's --log-level wants it. printf format; cut at MS_TEXT_MAX bytes. */
MS_EXPORT void ms_log(enum ms_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The program begins to use cards: if it is Python, it gets what collects there (pyload.c). Outside ms_enter and ms_leave. */
MS_EXPORT void ms_python_wanted(void);

/* Marks that mean something else (abi.md 3.7, 3.8): what follows "memscope-aten-"; a whole "sanitizer-op: ..." message. */
MS_EXPORT void ms_aten_mark(const char *message);
MS_EXPORT void ms_sanitizer_mark(const char *message, void *stream);

/*
 * Watching (watch.c): an operator or kernel begins or ends; `id` is "<card>_<thread or process>/<name>" (contract 4). `outputs` are
 * what it has written, for the one with which watching begins. Outside of ms_enter and ms_leave.
 */
struct ms_extent {
    uint64_t addr;
    uint64_t size; /* bytes */
};
enum { MS_OUTPUTS_MOST = 64 };
MS_EXPORT bool ms_watching(void); /* whether it is worth while to call the rest */
MS_EXPORT void ms_watch_begin(const char *id, bool kernel);
MS_EXPORT void ms_watch_end(const char *id, const struct ms_extent *outputs, size_t count);

/*
 * The same for a kernel of the runtime, around the call that launches it, on its thread. Its name is learned in between, as an id that
 * `id_of` makes of a text; 0: none was launched. What it writes is not known. A kernel of ATB that the thread is in counts for
 * those that it launches. True: the second call is due.
 */
MS_EXPORT bool ms_watch_launch(void);
MS_EXPORT void ms_watch_launched(uint16_t device, uint64_t kernel, uint64_t (*id_of)(const char *text, size_t length));

/* The same for operators of PyTorch, on this thread, and what they have written. */
MS_EXPORT void ms_watch_aten(const char *name, bool end);
MS_EXPORT void ms_watch_written(uint64_t addr, uint64_t size);

/* Around calls of our own into the Ascend stack: the hooks they reach pass through. Nests. */
MS_EXPORT void ms_suppress_begin(void);
MS_EXPORT void ms_suppress_end(void);

/* The physical card that this thread has set, MS_DEVICE_NONE when unknown. Call between ms_enter and ms_leave. */
MS_EXPORT uint16_t ms_current_device(void);

/* Logical to physical card by ASCEND_RT_VISIBLE_DEVICES; MS_DEVICE_NONE when the list does not have it. */
MS_EXPORT uint16_t ms_physical_device(int logical);

/* Whether the options want the card. Call between ms_enter and ms_leave, as what follows here. */
MS_EXPORT bool ms_device_wanted(uint16_t device);

/* A number from 1 that a forked child does not share with its parent: it tells what was said to this process's collector. */
MS_EXPORT uint32_t ms_generation(void);

/* wire.h, `settled` of the ring. */
MS_EXPORT void ms_settled(int64_t stamp);

MS_EXPORT void *ms_resolve(void **slot, const void *hook, const char *inner, const char *name, const char *library);

/*
 * The real function behind a hook, whichever comes first in load order: `inner` (may be NULL) in any library, or `name`
 * in one behind the hook's own, which is how another preloaded wrapper gets its turn. Without either,
 * $ASCEND_HOME_PATH/lib64/`library` is loaded and the search made again. NULL when there is none.
 * `slot` caches the answer; `hook` is the hook itself, or NULL to take the first library that has `name`.
 */
static inline void *ms_real(void **slot, const void *hook, const char *inner, const char *name, const char *library)
{
    void *real = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    return real ? real : ms_resolve(slot, hook, inner, name, library);
}

#endif
