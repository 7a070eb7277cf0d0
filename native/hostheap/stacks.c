/*
 * stacks.c - from a caller to the number of its stack: hostheap.h, "Stacks"; and the counters of a stack.
 */
#include "pyframes.h"
#include "state.h"

enum {
    PROBES = 256, /* places of the index that are looked at */
    ID_MASK = MS_HEAP_STACK_MOST,
    COUNTER_SHARE = 4, /* at most a quarter of the arena is for counters of single threads */
};

_Static_assert((int)MS_HEAP_DEPTH_MAX <= (int)MS_TRAIL_MOST, "a trail is long enough");

struct walked {
    const ms_frame *native;
    struct ms_py_frame python[MS_HEAP_DEPTH_MAX];
    unsigned natives, pythons;
    bool cut;
};

/*
 * To the native frames' hash comes a sum of products, one odd factor per Python frame: the products do not wait for each
 * other. Finished by a mixer, so that equal low halves of frames do not make equal low halves of hashes.
 */
static uint64_t factors[MS_HEAP_DEPTH_MAX];

void prepare_hash(void)
{
    for (unsigned i = 0; i < MS_HEAP_DEPTH_MAX; i++) {
        uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL;
        factors[i] = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL | 1;
    }
}

static uint64_t finish_hash(uint64_t native, const struct walked *w)
{
    uint64_t h = native ^ native >> 29;
    h += w->natives + w->pythons * 0x100000001b3ULL;
    for (unsigned i = 0; i < w->pythons; i++) {
        uint64_t f = (uintptr_t)w->python[i].code ^ (uint64_t)w->python[i].offset << 32 ^
                     w->python[i].identity * 0x100000001b3ULL;
        h += (f ^ f >> 23) * factors[i];
    }
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
    return (h ^ h >> 32) | 1ULL << 63;
}

/* A stack id that nobody uses: one never used, or one that the collector has recycled. 0: none. */
static uint32_t fresh_stack(void)
{
    struct ms_heap *heap = tables.heap;
    uint32_t id = self.spare_stack;
    if (id) {
        self.spare_stack = 0;
        return id;
    }
    if (__atomic_load_n(&heap->stack_next, __ATOMIC_RELAXED) < tables.stack_count &&
        (id = __atomic_fetch_add(&heap->stack_next, 1, __ATOMIC_RELAXED)) < tables.stack_count)
        return id;
    uint32_t tail = __atomic_load_n(&heap->spare_tail, __ATOMIC_ACQUIRE);
    while (tail != __atomic_load_n(&heap->spare_head, __ATOMIC_ACQUIRE)) {
        id = __atomic_load_n(&tables.spares[tail & tables.spare_mask], __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&heap->spare_tail, &tail, tail + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return id >= MS_HEAP_STACK_FIRST && id < tables.stack_count ? id : 0;
    }
    return 0;
}

static void write_record(uint32_t id, uint64_t hash, const struct walked *w)
{
    struct ms_heap_stack *s = (void *)(tables.stacks + (uint64_t)id * tables.stack_bytes);
    uint32_t *frames = (uint32_t *)(s + 1), incarnation = s->incarnation;
    __atomic_store_n(&s->incarnation, incarnation + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    s->hash = hash;
    s->natives = (uint8_t)w->natives;
    s->pythons = (uint8_t)w->pythons;
    s->flags = w->cut ? MS_HEAP_CUT_NATIVE : 0;
    for (unsigned i = 0; i < w->natives; i++)
        *frames++ = native_place(w->native[i]);
    for (unsigned i = 0; i < w->pythons; i++)
        *frames++ = python_place(&w->python[i]);
    __atomic_store_n(&s->incarnation, incarnation + 2, __ATOMIC_RELEASE);
}

static __attribute__((noinline)) uint32_t new_stack(uint64_t *place, uint64_t seen, uint64_t hash,
                                                    const struct walked *w)
{
    uint32_t id = fresh_stack();
    if (!id) {
        __atomic_fetch_or(&tables.heap->truncated, MS_HEAP_TRUNC_STACKS, __ATOMIC_RELAXED);
        return MS_HEAP_STACK_UNKNOWN;
    }
    write_record(id, hash, w);
    if (w->cut)
        add(&self.slot->truncated, 1);
    uint64_t entry = (hash & ~(uint64_t)ID_MASK) | id;
    if (__atomic_compare_exchange_n(place, &seen, entry, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return id;
    self.spare_stack = id;
    return 0;
}

static uint32_t look_up(uint64_t hash, const struct walked *w)
{
    uint64_t *vacated = NULL, was = 0;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint64_t *place = &tables.index[(hash + probe) & tables.index_mask];
        uint64_t entry = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (LIKELY((entry ^ hash) <= ID_MASK && (entry & ID_MASK)))
            return entry & ID_MASK;
        if (entry && !(entry & ID_MASK) && !vacated) {
            vacated = place;
            was = entry;
        }
        if (!entry) {
            uint32_t id = new_stack(vacated ? vacated : place, vacated ? was : 0, hash, w);
            if (id)
                return id;
            probe = UINT32_MAX; /* somebody was here first: from the beginning */
            vacated = NULL;
        }
    }
    __atomic_fetch_or(&tables.heap->truncated, MS_HEAP_TRUNC_STACKS, __ATOMIC_RELAXED);
    return MS_HEAP_STACK_UNKNOWN;
}

uint32_t stack_of(const struct ms_regs *caller)
{
    struct walked w;
    ms_frame frames[MS_HEAP_DEPTH_MAX];
    uint64_t hash;
    if (LIKELY(self.trail)) {
        w.natives = ms_unwind_along(self.trail, caller, tables.native_depth, &w.cut);
        w.native = self.trail->frames + self.trail->top;
        hash = ms_trail_hash(self.trail, w.natives);
    } else {
        w.natives = ms_unwind(caller, frames, tables.native_depth, &w.cut);
        w.native = frames;
        hash = ms_frames_hash(frames, w.natives);
    }
    w.pythons = 0;
    if (tables.python_depth) {
        int pythons = ms_py_walk(w.python, (int)tables.python_depth);
        w.pythons = pythons > 0 ? (unsigned)pythons : 0;
    }
    return look_up(finish_hash(hash, &w), &w);
}

static uint64_t counter_bytes; /* given to single threads */

static __attribute__((noinline)) struct ms_heap_count *new_counters(struct ms_heap_slot *slot, uint32_t chunk)
{
    const uint64_t bytes = MS_HEAP_COUNTERS * sizeof(struct ms_heap_count);
    bool own = slot != tables.slots;
    if (own && __atomic_fetch_add(&counter_bytes, bytes, __ATOMIC_RELAXED) > tables.arena_bytes / COUNTER_SHARE)
        return NULL;
    uint32_t unit = arena_alloc(bytes), none = 0;
    if (!unit)
        return NULL;
    if (!__atomic_compare_exchange_n(&slot->counters[chunk], &none, unit, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        unit = none;
    return at_unit(unit);
}

struct ms_heap_count *counters_of(uint32_t stack)
{
    struct ms_heap_slot *slot = self.slot;
    uint32_t chunk = stack / MS_HEAP_COUNTERS, unit = __atomic_load_n(&slot->counters[chunk], __ATOMIC_ACQUIRE);
    struct ms_heap_count *counts = LIKELY(unit) ? at_unit(unit) : new_counters(slot, chunk);
    return LIKELY(counts) ? counts + stack % MS_HEAP_COUNTERS : NULL;
}
