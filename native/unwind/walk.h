/*
 * walk.h - the parts of a walk that unwind.c and trail.c have in common: the look-up of a rule, and a step by it.
 */
#ifndef MSMEMSCOPE_UNWIND_WALK_H
#define MSMEMSCOPE_UNWIND_WALK_H

#include "internal.h"

enum {
    ENTRIES_BITS = 14,
    ENTRIES = 1 << ENTRIES_BITS,
    WAYS = 4, /* places where an address may be, one cache line: the one of its hash, then those beside it */
#if defined(__x86_64__)
    OWN_MOST = 0, /* frames of our own code before the first that is wanted */
#else
    OWN_MOST = 8,
#endif
};

struct entry {
    ms_frame frame;
    uint64_t rule;
};

extern struct entry rule_cache[ENTRIES];
extern uint32_t rule_generation; /* of all that is cached */

/* Looks beside the first place, and learns the rule where nobody has yet. A frame of 0: that is no code. */
__attribute__((noinline)) struct entry look_up_slowly(uint32_t place, uintptr_t pc);

/* Places are chosen by a hash: so the addresses that share one differ in these bits as any others do. */
static const uint64_t check_mask = ((1ULL << RULE_CHECK_BITS) - 1) << RULE_CHECK_SHIFT;

static inline struct entry read_entry(uint32_t place)
{
    struct entry e = {.frame = __atomic_load_n(&rule_cache[place].frame, __ATOMIC_ACQUIRE)};
    e.rule = __atomic_load_n(&rule_cache[place].rule, __ATOMIC_RELAXED);
    return e;
}

static inline bool is_of(struct entry e, uintptr_t pc)
{
    return MS_FRAME_PC(e.frame) == pc && ((e.rule ^ pc << RULE_CHECK_SHIFT) & check_mask) == 0;
}

static inline struct entry look_up(uintptr_t pc)
{
    uint32_t place = (uint32_t)((uint64_t)pc * 0x9e3779b97f4a7c15ULL >> (64 - ENTRIES_BITS));
    struct entry e = read_entry(place);
    return __builtin_expect(is_of(e, pc), 1) ? e : look_up_slowly(place, pc);
}

static inline intptr_t offset_of(uint64_t rule, unsigned shift, unsigned bits)
{
    return ((int64_t)(rule << (64 - shift - bits)) >> (64 - bits)) * 8;
}

/* Return addresses lie where the address sanitizer wants nobody to read. */
#define ANY_STACK __attribute__((no_sanitize_address))

struct walk {
    uintptr_t pc, sp, fp;
    uintptr_t low, high; /* of the stack: words in between can be read */
    unsigned
        own; /* frames that may still come before the first that is wanted, or ALL_WANTED; not looked at where there are none */
};

enum { ALL_WANTED = 1 << 16 };

static inline struct walk begin_walk(const struct ms_regs *from)
{
    struct walk w = {.pc = from->pc, .sp = from->sp, .fp = from->fp, .low = from->sp};
    w.high = stack_end(w.sp);
    w.own = OWN_MOST;
    return w;
}

static inline bool all_wanted(const struct walk *w)
{
    return OWN_MOST == 0 || w->own == ALL_WANTED;
}

/*
 * Whether this frame is one for the caller. Where the first one is not (ms_unwind.h, MS_CALLER) it is one of our own code,
 * and so are the few behind it: with `own` at 0 the one to be found is not there.
 */
static inline bool is_wanted(struct walk *w, const struct ms_regs *from)
{
    if (!all_wanted(w))
        w->own = w->pc == from->first ? ALL_WANTED : w->own - 1;
    return all_wanted(w);
}

static inline bool readable(uintptr_t address, uintptr_t low, uintptr_t high)
{
    return address - low <= high - low - 8 && (address & 7) == 0;
}

/* No entry has another address. */
static inline bool is_code(uintptr_t pc)
{
    return pc - 4096 < (1ULL << MS_FRAME_SHIFT) - 4096;
}

/* Where a plain step finds the caller's frame pointer; 0: it is the same. */
static inline uintptr_t fp_place(uint64_t rule, uintptr_t cfa)
{
    return rule >> RULE_FP_SHIFT & 3 ? cfa + (uintptr_t)offset_of(rule, RULE_FP_OFFSET_SHIFT, 14) : 0;
}

/* Where it finds the return address. */
static inline uintptr_t ra_place(uint64_t rule, uintptr_t cfa)
{
#if defined(__x86_64__)
    (void)rule;
    return cfa - sizeof(uintptr_t);
#else
    return cfa + (uintptr_t)offset_of(rule, RULE_RA_OFFSET_SHIFT, 14);
#endif
}

/* A pointer that was read from the stack; on aarch64 it may be signed. */
static inline uintptr_t return_address(uintptr_t word)
{
#if defined(__aarch64__)
    word &= (1ULL << MS_FRAME_SHIFT) - 1;
#endif
    return word;
}

enum ending { MORE, DONE, CUT }; /* how a walk ends: not yet; at the thread's first function; where it cannot go on */

__attribute__((noinline)) bool odd_step(struct walk *w, uint64_t rule);

static inline ANY_STACK enum ending advance(struct walk *w, uint64_t rule)
{
    if (__builtin_expect((rule & RULE_KIND) == RULE_PLAIN, 1)) {
        uintptr_t base = w->sp;
        if (rule & RULE_CFA_FP)
            base = w->fp;
        uintptr_t cfa = base + (uintptr_t)offset_of(rule, RULE_CFA_OFFSET_SHIFT, 18);
        if (__builtin_expect(cfa <= w->sp || cfa > w->high || (cfa & 7) != 0, 0))
            return CUT;
        uintptr_t slot = ra_place(rule, cfa), fp_at = fp_place(rule, cfa);
#if defined(__aarch64__)
        if (!readable(slot, w->low, w->high))
            return CUT;
#endif
        w->pc = return_address(*(const uintptr_t *)slot);
        if (fp_at) {
            if (__builtin_expect(!readable(fp_at, w->low, w->high), 0))
                return CUT;
            w->fp = *(const uintptr_t *)fp_at;
        }
        w->sp = cfa;
    } else if ((rule & RULE_KIND) == RULE_OTHER) {
        struct walk odd = *w; /* so that the walk itself need not be in memory */
        if (!odd_step(&odd, rule))
            return CUT;
        *w = odd;
        w->pc = return_address(w->pc);
    } else {
        return (rule & RULE_KIND) == RULE_END ? DONE : CUT;
    }
    return __builtin_expect(w->pc == 0, 0) ? DONE : MORE; /* what an empty entry would be taken for */
}

#endif
