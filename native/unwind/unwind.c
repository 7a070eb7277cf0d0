/*
 * unwind.c - the walk, and the cache of rules that all threads share.
 *
 * An entry is written by whoever misses it. It can be torn by another writer while it is read: the frame (address and
 * library) and the rule are one word each, and the rule has a hash of its address, so that a foreign rule is seen as one.
 * Besides, nothing is read from the stack but within its bounds. An entry remembers where its usual callers' entries are, which
 * makes a chain of loads of what would be a chain of hash look-ups.
 */
#include <stddef.h>
#include <string.h>

#include "internal.h"

enum {
    ENTRIES_BITS = 14,
    ENTRIES = 1 << ENTRIES_BITS,
    WAYS = 4, /* places where an address may be */
};

struct entry {
    ms_frame frame;
    uint64_t rule;
    uint32_t next[2]; /* entries of the usual callers */
    uint32_t spare[2];
};

static struct entry cache[ENTRIES] __attribute__((aligned(64)));
static uint32_t victims; /* which way to give up next */

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

struct found {
    ms_frame frame;
    uint64_t rule;
    uint32_t place; /* of the entry */
};

static __attribute__((noinline)) struct found look_up(uintptr_t pc)
{
    uint32_t home = (uint32_t)(scramble(pc) >> (64 - ENTRIES_BITS)) & ~(uint32_t)(WAYS - 1);
    struct found f;
    for (unsigned way = 0; way < WAYS; way++) {
        f.place = home + way;
        f.frame = __atomic_load_n(&cache[f.place].frame, __ATOMIC_ACQUIRE);
        f.rule = __atomic_load_n(&cache[f.place].rule, __ATOMIC_RELAXED);
        if (MS_FRAME_PC(f.frame) == pc && (f.rule & check_mask) == check_of(pc))
            return f;
    }
    unsigned module, way = 0;
    f.rule = learn(pc, &module);
    f.frame = pc | (ms_frame)module << MS_FRAME_SHIFT;
    while (way < WAYS && __atomic_load_n(&cache[home + way].frame, __ATOMIC_RELAXED))
        way++;
    if (way == WAYS)
        way = __atomic_fetch_add(&victims, 1, __ATOMIC_RELAXED) % WAYS;
    f.place = home + way;
    struct entry *e = &cache[f.place];
    __atomic_store_n(&e->frame, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&e->rule, f.rule, __ATOMIC_RELAXED);
    __atomic_store_n(&e->frame, f.frame, __ATOMIC_RELEASE);
    return f;
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

/* Code with many callers would have its links written all the time, by all threads: every 8th miss will do. */
static void link_to(uint32_t *next, uint32_t place, unsigned *misses)
{
    for (unsigned i = 0; i < 2; i++)
        if (__atomic_load_n(&next[i], __ATOMIC_RELAXED) == 0) {
            __atomic_store_n(&next[i], place, __ATOMIC_RELAXED);
            return;
        }
    if ((++*misses & 7) == 0)
        __atomic_store_n(&next[*misses >> 3 & 1], place, __ATOMIC_RELAXED);
}

ANY_STACK unsigned ms_unwind(const struct ms_regs *from, ms_frame *frames, unsigned max, bool *cut)
{
    uintptr_t pc = from->pc, sp = from->sp, fp = from->fp, low = sp, high = stack_end(sp);
    const uintptr_t first = from->first;
    unsigned n = 0, misses = 0;
    bool wanted = false;
    uint32_t none[2] = {0, 0}, *next = none;
    *cut = true;
    /* What is not wanted is our own code: a few frames. */
    for (unsigned steps = max + 8; n < max && steps; steps--) {
        struct entry *e = &cache[__atomic_load_n(&next[0], __ATOMIC_RELAXED)];
        ms_frame frame = __atomic_load_n(&e->frame, __ATOMIC_ACQUIRE);
        if (MS_FRAME_PC(frame) != pc) {
            e = &cache[__atomic_load_n(&next[1], __ATOMIC_RELAXED)];
            frame = __atomic_load_n(&e->frame, __ATOMIC_ACQUIRE);
        }
        uint64_t rule = __atomic_load_n(&e->rule, __ATOMIC_RELAXED);
        if (__builtin_expect(MS_FRAME_PC(frame) != pc || (rule & check_mask) != check_of(pc), 0)) {
            if (!is_code(pc))
                break;
            struct found found = look_up(pc);
            e = &cache[found.place];
            frame = found.frame;
            rule = found.rule;
            link_to(next, found.place, &misses);
        }
        next = e->next;
        if (__builtin_expect(!wanted, 0))
            wanted = pc == first;
        frames[n] = frame;
        n += wanted;
        if (__builtin_expect((rule & RULE_KIND) == RULE_PLAIN, 1)) {
            uintptr_t cfa = (rule & RULE_CFA_FP ? fp : sp) + (uintptr_t)offset_of(rule, RULE_CFA_OFFSET_SHIFT, 18);
            uintptr_t ra_at = cfa - sizeof(uintptr_t);
            if (__builtin_expect(cfa <= sp || cfa > high || (cfa & 7) != 0, 0))
                return n;
#if defined(__aarch64__)
            ra_at = cfa + (uintptr_t)offset_of(rule, RULE_RA_OFFSET_SHIFT, 14);
            if (!readable(ra_at, low, high))
                return n;
#endif
            pc = *(const uintptr_t *)ra_at;
            if (rule >> RULE_FP_SHIFT & 3) {
                uintptr_t fp_at = cfa + (uintptr_t)offset_of(rule, RULE_FP_OFFSET_SHIFT, 14);
                if (__builtin_expect(!readable(fp_at, low, high), 0))
                    return n;
                fp = *(const uintptr_t *)fp_at;
            }
            sp = cfa;
        } else if ((rule & RULE_KIND) == RULE_OTHER) {
            struct walk w = {pc, sp, fp, low, high};
            if (!step(&w, rule))
                return n;
            pc = w.pc;
            sp = w.sp;
            fp = w.fp;
            low = w.low;
            high = w.high;
        } else {
            *cut = (rule & RULE_KIND) == RULE_CUT;
            return n;
        }
#if defined(__aarch64__)
        pc &= (1ULL << MS_FRAME_SHIFT) - 1; /* a signed return address */
#endif
        if (__builtin_expect(pc == 0, 0)) /* what an empty entry would be taken for */
            break;
    }
    *cut = false;
    return n;
}

void ms_unwind_forget(void)
{
    if (forget_modules())
        for (unsigned i = 0; i < ENTRIES; i++)
            __atomic_store_n(&cache[i].frame, 0, __ATOMIC_RELAXED);
}
