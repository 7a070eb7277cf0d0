/*
 * unwind.c - the walk, and the cache of rules that all threads share.
 *
 * An entry is written by whoever misses it. It can be torn by another writer while it is read: the frame (address and
 * library) and the rule are one word each, and the rule has a hash of its address, so that a foreign rule is seen as one.
 * Besides, nothing is read from the stack but within its bounds.
 */
#include <stddef.h>

#include "walk.h"

struct entry rule_cache[ENTRIES] __attribute__((aligned(64)));
uint32_t rule_generation = 1;
static uint32_t victims; /* which way to give up next */

static uint64_t learn(uintptr_t pc, unsigned *module)
{
    const void *rules = NULL;
    *module = find_module(pc - 1, &rules);
    uint64_t rule = rules ? find_rule(rules, pc - 1) : *module ? RULE_CUT : frame_pointer_rule();
    return rule | (pc << RULE_CHECK_SHIFT & check_mask);
}

/* Into the place that is looked at first, when it is free or all are taken. */
struct entry look_up_slowly(uint32_t place, uintptr_t pc)
{
    unsigned module, way;
    struct entry e = {0};
    for (way = 1; way < WAYS; way++)
        if (is_of(e = read_entry(place ^ way), pc))
            return e;
    if (!is_code(pc))
        return (struct entry){0};
    e.rule = learn(pc, &module);
    e.frame = pc | (ms_frame)module << MS_FRAME_SHIFT;
    for (way = 0; way < WAYS && __atomic_load_n(&rule_cache[place ^ way].frame, __ATOMIC_RELAXED); way++)
        ;
    if (way == WAYS)
        way = __atomic_fetch_add(&victims, 1, __ATOMIC_RELAXED) % WAYS;
    struct entry *to = &rule_cache[place ^ way];
    __atomic_store_n(&to->frame, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&to->rule, e.rule, __ATOMIC_RELAXED);
    __atomic_store_n(&to->frame, e.frame, __ATOMIC_RELEASE);
    return e;
}

/* One step by a rule that is not plain. False: there is none. */
ANY_STACK bool odd_step(struct walk *w, uint64_t rule)
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

ANY_STACK unsigned ms_unwind(const struct ms_regs *from, ms_frame *frames, unsigned max, bool *cut)
{
    struct walk w = begin_walk(from);
    unsigned n = 0;
    enum ending ending = MORE;
    while (n < max && ending == MORE) {
        struct entry e = look_up(w.pc);
        if (!e.frame) {
            ending = CUT;
            break;
        }
        if (is_wanted(&w, from)) {
            frames[n++] = e.frame;
        } else if (w.own == 0) {
            ending = CUT;
            break;
        }
        ending = advance(&w, e.rule);
    }
    *cut = ending == CUT;
    return n;
}

void ms_unwind_forget(void)
{
    if (!forget_modules())
        return;
    for (unsigned i = 0; i < ENTRIES; i++)
        __atomic_store_n(&rule_cache[i].frame, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&rule_generation, 1, __ATOMIC_RELEASE);
}
