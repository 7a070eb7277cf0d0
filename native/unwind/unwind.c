/*
 * unwind.c - the walk, and the cache of rules that all threads share.
 *
 * An entry is written by whoever misses it. It can be torn by another writer while it is read: the frame (address and
 * library) and the rule are one word each, and the rule has a hash of its address, so that a foreign rule is seen as one.
 * Besides, nothing is read from the stack but within its bounds. A thread that walks often has a trail: there the next rule
 * is beside the last one, which makes of a chain of look-ups one that the processor can run ahead of.
 */
#include <stddef.h>
#include <string.h>

#include "internal.h"

enum {
    ENTRIES_BITS = 14,
    ENTRIES = 1 << ENTRIES_BITS,
    WAYS = 4, /* places where an address may be: one cache line */
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

static struct entry cache[ENTRIES] __attribute__((aligned(64)));
static uint32_t generation = 1; /* of all that is cached */
static uint32_t victims;        /* which way to give up next */

static uint64_t scramble(uintptr_t pc)
{
    return (uint64_t)pc * 0x9e3779b97f4a7c15ULL;
}

static const uint64_t check_mask = ((1ULL << RULE_CHECK_BITS) - 1) << RULE_CHECK_SHIFT;

/* Places are chosen by a hash: so the addresses that share one differ in these bits as any others do. */
static uint64_t check_of(uintptr_t pc)
{
    return pc << RULE_CHECK_SHIFT & check_mask;
}

static uint64_t learn(uintptr_t pc, unsigned *module)
{
    const void *rules = NULL;
    *module = find_module(pc - 1, &rules);
    uint64_t rule = rules ? find_rule(rules, pc - 1) : *module ? RULE_CUT : frame_pointer_rule();
    return rule | check_of(pc);
}

static __attribute__((noinline)) struct entry look_up_slowly(struct entry *home, uintptr_t pc)
{
    unsigned module, way = 0;
    struct entry e = {.rule = learn(pc, &module)};
    e.frame = pc | (ms_frame)module << MS_FRAME_SHIFT;
    while (way < WAYS && __atomic_load_n(&home[way].frame, __ATOMIC_RELAXED))
        way++;
    if (way == WAYS)
        way = __atomic_fetch_add(&victims, 1, __ATOMIC_RELAXED) % WAYS;
    __atomic_store_n(&home[way].frame, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&home[way].rule, e.rule, __ATOMIC_RELAXED);
    __atomic_store_n(&home[way].frame, e.frame, __ATOMIC_RELEASE);
    return e;
}

static inline struct entry look_up(uintptr_t pc)
{
    struct entry *home = &cache[(uint32_t)(scramble(pc) >> (64 - ENTRIES_BITS)) & ~(uint32_t)(WAYS - 1)];
    for (unsigned way = 0; way < WAYS; way++) {
        struct entry e = {.frame = __atomic_load_n(&home[way].frame, __ATOMIC_ACQUIRE)};
        e.rule = __atomic_load_n(&home[way].rule, __ATOMIC_RELAXED);
        if (MS_FRAME_PC(e.frame) == pc && (e.rule & check_mask) == check_of(pc))
            return e;
    }
    return look_up_slowly(home, pc);
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
};

static inline bool readable(uintptr_t address, uintptr_t low, uintptr_t high)
{
    return address - low <= high - low - 8 && (address & 7) == 0;
}

/* No entry has another address: asked where none was found. */
static inline bool is_code(uintptr_t pc)
{
    return pc - 4096 < (1ULL << MS_FRAME_SHIFT) - 4096;
}

/* One step by a rule that is not plain. False: there is none. */
static __attribute__((noinline)) ANY_STACK bool step(struct walk *w, uint64_t rule)
{
    uintptr_t cfa = (rule & RULE_CFA_FP ? w->fp : w->sp) + (uintptr_t)offset_of(rule, RULE_CFA_OFFSET_SHIFT, 18);
    if (rule & RULE_CFA_DEREF) {
        if (!readable(cfa, w->low, w->high))
            return false;
        cfa = *(const uintptr_t *)cfa;
    }
    const uintptr_t bases[] = {0, cfa, w->sp, w->fp};
    unsigned fp_base = rule >> RULE_FP_SHIFT & 3;
    uintptr_t ra_at = bases[rule >> RULE_RA_SHIFT & 3] + (uintptr_t)offset_of(rule, RULE_RA_OFFSET_SHIFT, 14);
    uintptr_t fp_at = bases[fp_base] + (uintptr_t)offset_of(rule, RULE_FP_OFFSET_SHIFT, 14);
    if (!readable(ra_at, w->low, w->high) || (fp_base && !readable(fp_at, w->low, w->high)))
        return false;
    w->pc = *(const uintptr_t *)ra_at;
    if (fp_base)
        w->fp = *(const uintptr_t *)fp_at;
    if (rule &
        RULE_SIGNAL) { /* the interrupted code: at an instruction, not behind a call, and maybe on another stack */
        w->pc += 1;
        w->low = cfa;
        w->high = stack_end(cfa);
    } else if (cfa <= w->sp || cfa > w->high) {
        return false;
    }
    w->sp = cfa;
    return true;
}

/*
 * With `last` and `now`, or only with `frames`. Where the first frame is not wanted (ms_unwind.h, MS_CALLER) it is one of
 * our own code, and so are the few behind it.
 */
static inline __attribute__((always_inline)) ANY_STACK unsigned walk(const struct ms_regs *from,
                                                                     const struct ms_walk *last, struct ms_walk *now,
                                                                     ms_frame *frames, unsigned max, bool *cut)
{
    uintptr_t pc = from->pc, sp = from->sp, fp = from->fp, low = sp, high = stack_end(sp);
    unsigned n = 0, at = 0, own = OWN_MOST;
    bool wanted = OWN_MOST == 0;
    *cut = true;
    for (; n < max; n += wanted) {
        struct entry e;
        while (now && __builtin_expect(last->sps[at] < sp, 0))
            at++;
        if (now && __builtin_expect(last->sps[at] == sp && MS_FRAME_PC(last->frames[at]) == pc, 1)) {
            e = (struct entry){last->frames[at], last->rules[at]};
            at++;
        } else if (is_code(pc)) {
            e = look_up(pc);
        } else {
            break;
        }
        if (OWN_MOST > 0 && !wanted) {
            wanted = pc == from->first;
            if (!wanted && own-- == 0)
                break;
        }
        const uint64_t rule = e.rule;
        if (now) {
            now->frames[n] = e.frame;
            now->rules[n] = rule;
            now->sps[n] = sp;
        } else {
            frames[n] = e.frame;
        }
        if (__builtin_expect((rule & RULE_KIND) == RULE_PLAIN, 1)) {
            uintptr_t cfa = (rule & RULE_CFA_FP ? fp : sp) + (uintptr_t)offset_of(rule, RULE_CFA_OFFSET_SHIFT, 18);
            uintptr_t ra_at = cfa - sizeof(uintptr_t);
            if (__builtin_expect(cfa <= sp || cfa > high || (cfa & 7) != 0, 0))
                return n + wanted;
#if defined(__aarch64__)
            ra_at = cfa + (uintptr_t)offset_of(rule, RULE_RA_OFFSET_SHIFT, 14);
            if (!readable(ra_at, low, high))
                return n + wanted;
#endif
            pc = *(const uintptr_t *)ra_at;
            if (rule >> RULE_FP_SHIFT & 3) {
                uintptr_t fp_at = cfa + (uintptr_t)offset_of(rule, RULE_FP_OFFSET_SHIFT, 14);
                if (__builtin_expect(!readable(fp_at, low, high), 0))
                    return n + wanted;
                fp = *(const uintptr_t *)fp_at;
            }
            sp = cfa;
        } else if ((rule & RULE_KIND) == RULE_OTHER) {
            struct walk w = {pc, sp, fp, low, high};
            if (!step(&w, rule))
                return n + wanted;
            pc = w.pc;
            sp = w.sp;
            fp = w.fp;
            low = w.low;
            high = w.high;
        } else {
            *cut = (rule & RULE_KIND) == RULE_CUT;
            return n + wanted;
        }
#if defined(__aarch64__)
        pc &= (1ULL << MS_FRAME_SHIFT) - 1; /* a signed return address */
#endif
        if (__builtin_expect(pc == 0, 0)) { /* what an empty entry would be taken for */
            n += wanted;
            break;
        }
    }
    *cut = false;
    return n;
}

ANY_STACK unsigned ms_unwind(const struct ms_regs *from, ms_frame *frames, unsigned max, bool *cut)
{
    return walk(from, NULL, NULL, frames, max, cut);
}

ANY_STACK unsigned ms_unwind_along(struct ms_trail *trail, const struct ms_regs *from, unsigned max, bool *cut)
{
    uint32_t rules = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    struct ms_walk *last = &trail->walks[trail->latest], *now = &trail->walks[trail->latest ^= 1];
    if (__builtin_expect(trail->generation != rules, 0)) {
        trail->generation = rules;
        last->sps[0] = UINTPTR_MAX;
    }
    unsigned n = walk(from, last, now, NULL, max < MS_TRAIL_MOST ? max : MS_TRAIL_MOST, cut);
    now->sps[n] = UINTPTR_MAX;
    return n;
}

void ms_unwind_forget(void)
{
    if (!forget_modules())
        return;
    for (unsigned i = 0; i < ENTRIES; i++)
        __atomic_store_n(&cache[i].frame, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
}
