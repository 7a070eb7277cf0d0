/*
 * trail.c - a walk along the last one of the same thread.
 *
 * A trail is a stack of frames as they were met, the outermost last. Where a step leads is settled by the address, the stack
 * pointer, the frame pointer if it counts, and the words of the stack that the steps read. So an entry whose words are what
 * they were, and those of all entries behind it, is true again as soon as a walk arrives at its address and stack pointer.
 * These words are looked at in one go, no look waiting for another; only the frames before them are walked, and put in
 * front. It does not matter what the stack was in between, nor whose trail it is: everything is compared.
 */
#include <string.h>

#include "walk.h"

enum {
    ROOM = MS_TRAIL_ROOM,
#if defined(__x86_64__)
    PLAIN_INSIDE =
        1, /* the return address of a plain step is in its frame: the word below the caller's stack pointer */
#else
    PLAIN_INSIDE = 0,
#endif
    SLACK = 4, /* entries behind those wanted last time that are looked at, for the next stack may be less deep */
};

/* Frames on their way into the trail. */
struct fresh {
    ms_frame frames[MS_TRAIL_MOST];
    uint64_t rules[MS_TRAIL_MOST];
    uintptr_t sps[MS_TRAIL_MOST];
};

/* Whether the words are the same that lead to entry i and from there on; on a stack between these bounds. */
static inline ANY_STACK bool holds(const struct ms_trail *t, unsigned i, uintptr_t low, uintptr_t high)
{
    uintptr_t slot = t->slots[i], fp_slot = t->fp_slots[i];
    if (slot < low || return_address(*(const uintptr_t *)slot) != MS_FRAME_PC(t->frames[i]))
        return false;
    return !fp_slot || (fp_slot <= high - 8 && *(const uintptr_t *)fp_slot == t->fps[i + 1]);
}

/* The first entry that holds with all behind it up to `*outer`; ROOM: none. */
static inline ANY_STACK unsigned find_true(const struct ms_trail *t, uintptr_t low, uintptr_t high, unsigned max,
                                           unsigned *outer)
{
    unsigned last = t->top + max + SLACK < ROOM ? t->top + max + SLACK : ROOM, i = last;
    *outer = last;
    if (i == t->top || t->sps[i - 1] > high)
        return ROOM;
    while (i > t->top && holds(t, i - 1, low, high))
        i--;
    return i < last ? i : ROOM;
}

/* Puts n frames in front of entry `at`, to which the last of them leads. */
static inline void put_in_front(struct ms_trail *t, const struct fresh *f, unsigned n, unsigned at)
{
    uint64_t hash = t->hashes[at];
    uintptr_t fp = t->fps[at];
    t->top = at - n;
    while (n-- > 0) {
        uint64_t rule = f->rules[n];
        uintptr_t sp = f->sps[n], cfa = t->sps[at], slot = ra_place(rule, cfa), fp_slot = fp ? fp_place(rule, cfa) : 0;
        bool inside = (PLAIN_INSIDE || (slot >= sp && slot < cfa)) && (!fp_slot || (fp_slot >= sp && fp_slot < cfa));
        t->slots[at--] = __builtin_expect((rule & RULE_KIND) == RULE_PLAIN && inside, 1) ? slot : 0;
        if (at + 1 == ROOM)
            fp = 0; /* where its step leads is of no interest */
        else if (rule & RULE_CFA_FP)
            fp = cfa - (uintptr_t)offset_of(rule, RULE_CFA_OFFSET_SHIFT, 18);
        else if (rule >> RULE_FP_SHIFT & 3)
            fp = 0;
        t->frames[at] = f->frames[n];
        t->rules[at] = rule;
        t->sps[at] = sp;
        t->fp_slots[at] = fp_slot;
        t->fps[at] = fp;
        t->hashes[at] = hash = hash * MS_HASH_FACTOR + f->frames[n];
    }
#if defined(__x86_64__)
    t->slots[at] = t->sps[at] - sizeof(uintptr_t); /* whoever was called from here has put its return address there */
#else
    t->slots[at] = 0;
#endif
}

/*
 * Takes entries from `at` on, all of them true and not more than are wanted, among the fresh frames, and sets the walk to the
 * last one. Returns how many but that one.
 */
static __attribute__((noinline)) ANY_STACK unsigned take_along(const struct ms_trail *t, struct walk *w,
                                                               struct fresh *f, unsigned n, unsigned at, unsigned last)
{
    for (unsigned i = at; i < last; i++, n++) {
        uintptr_t fp_at = fp_place(t->rules[i], t->sps[i + 1]);
        f->frames[n] = t->frames[i];
        f->rules[n] = t->rules[i];
        f->sps[n] = t->sps[i];
        if (fp_at)
            w->fp = readable(fp_at, w->low, w->high) ? *(const uintptr_t *)fp_at : 0;
    }
    if (last > at) {
        w->pc = MS_FRAME_PC(t->frames[last]);
        w->sp = t->sps[last];
    }
    return n;
}

ANY_STACK unsigned ms_unwind_along(struct ms_trail *t, const struct ms_regs *from, unsigned max, bool *cut)
{
    uint32_t rules = __atomic_load_n(&rule_generation, __ATOMIC_ACQUIRE);
    if (__builtin_expect(t->generation != rules, 0)) {
        t->generation = rules;
        t->top = ROOM;
        t->sps[ROOM] = UINTPTR_MAX;
        t->fps[ROOM] = t->hashes[ROOM] = 0;
        t->power_of = 0;
        t->power = 1;
    }
    max = max < MS_TRAIL_MOST ? max : MS_TRAIL_MOST;
    struct walk w = begin_walk(from);
    const uintptr_t low = w.sp - (PLAIN_INSIDE ? sizeof(uintptr_t) : 0); /* with the caller's own return address */
    struct fresh f;
    unsigned n = 0, outer, at = find_true(t, low, w.high, max, &outer);
    enum ending ending = MORE;
    while (n < max) {
        /* To the first entry that is not passed; two at most, and without a branch, which would often be foreseen wrong. */
        at += t->sps[at] < w.sp;
        at += t->sps[at] < w.sp;
        if (__builtin_expect(t->sps[at] == w.sp && at < outer && all_wanted(&w), 0) &&
            MS_FRAME_PC(t->frames[at]) == w.pc && (!t->fps[at] || t->fps[at] == w.fp)) {
            while (n + outer - at < max && outer < ROOM && t->sps[outer] <= w.high && holds(t, outer, low, w.high))
                outer++;
            bool enough = n + outer - at >= max || (outer == ROOM && t->ending != MORE);
            if (__builtin_expect(enough && n <= at, 1)) {
                put_in_front(t, &f, n, at);
                n += ROOM - at;
                *cut = n <= max && t->ending == CUT;
                return n < max ? n : max;
            }
            unsigned last = (n + outer - at < max ? outer : at + max - n) - 1;
            struct walk moved = w;
            n = take_along(t, &moved, &f, n, at, last);
            w = moved;
            at = ROOM;
        }
        struct entry e = look_up(w.pc);
        if (!e.frame) {
            ending = CUT;
            break;
        }
        if (is_wanted(&w, from)) {
            f.frames[n] = e.frame;
            f.rules[n] = e.rule;
            f.sps[n++] = w.sp;
        } else if (w.own == 0) {
            ending = CUT;
            break;
        }
        ending = advance(&w, e.rule);
        if (ending != MORE)
            break;
    }
    put_in_front(t, &f, n, ROOM);
    /* An end that the rule does not tell is looked for again. */
    uint64_t kind = n && ending != MORE ? f.rules[n - 1] & RULE_KIND : RULE_PLAIN;
    t->ending = kind == RULE_END ? DONE : kind == RULE_CUT ? CUT : MORE;
    *cut = ending == CUT;
    return n;
}

uint64_t ms_trail_hash(struct ms_trail *t, unsigned count)
{
    if (t->top + count == ROOM)
        return t->hashes[t->top];
    if (__builtin_expect(t->power_of != count, 0)) {
        t->power_of = count;
        t->power = 1;
        for (unsigned i = 0; i < count; i++)
            t->power *= MS_HASH_FACTOR;
    }
    return t->hashes[t->top] - t->power * t->hashes[t->top + count];
}
