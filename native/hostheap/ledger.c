/*
 * ledger.c - the live blocks: hostheap.h, "The ledger of live blocks".
 *
 * A region's lock is its own and held for some tens of nanoseconds; nothing is called under it but memory from the arena.
 */
#include <linux/futex.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "state.h"

enum {
    SPINS = 40,
    PATIENCE = 1000, /* waits for a lock, then the block is not tracked: whoever has it will not come back */
    SIZE_MASK = MS_HEAP_SIZE_LARGE,
};

static const uint64_t age_mask = MS_HEAP_AGE_MOST;

static uint32_t capacity(uint8_t class)
{
    return (2U + class % 2) << (3 + class / 2);
}

_Static_assert(MS_HEAP_GIB_REGIONS == 1 << (MS_HEAP_GIB_SHIFT - MS_HEAP_REGION_SHIFT), "a GiB is made of its regions");

static inline uint32_t index_in_gib(uintptr_t address)
{
    return (address >> MS_HEAP_REGION_SHIFT) % MS_HEAP_GIB_REGIONS;
}

static struct ms_heap_region *find_region(uintptr_t address, bool make)
{
    if (address >> 48)
        return NULL;
    uint32_t *entry = &tables.directory[address >> MS_HEAP_GIB_SHIFT], unit = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
    if (UNLIKELY(!unit)) {
        if (!make)
            return NULL;
        uint32_t fresh = arena_alloc(sizeof(struct ms_heap_gib));
        if (!fresh)
            return NULL;
        /* Two threads at once, once per GiB: one of them is lost. */
        unit =
            __atomic_compare_exchange_n(entry, &unit, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? fresh : unit;
    }
    return &((struct ms_heap_gib *)at_unit(unit))->regions[index_in_gib(address)];
}

/*
 * Whoever has to wait says so in `waiting` and sleeps a millisecond at most. So the lock can be given back by a plain store:
 * a wake-up that is lost because that store is not seen in time costs this millisecond.
 */
static __attribute__((noinline)) bool lock_slowly(struct ms_heap_region *r)
{
    for (unsigned waits = 0, spins = 0; waits < PATIENCE;) {
        uint32_t word = __atomic_load_n(&r->lock, __ATOMIC_RELAXED);
        if (!(word & 1)) {
            if (__atomic_compare_exchange_n(&r->lock, &word, word | 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return true;
        } else if (spins++ >= SPINS) {
            __atomic_store_n(&r->waiting, 1, __ATOMIC_SEQ_CST);
            futex_wait(&r->lock, word, 1000000);
            waits++;
        }
    }
    return false;
}

static inline bool lock(struct ms_heap_region *r)
{
    uint32_t word = __atomic_load_n(&r->lock, __ATOMIC_RELAXED) & ~1U;
    if (LIKELY(*single_threaded))
        __atomic_store_n(&r->lock, word | 1, __ATOMIC_RELAXED);
    else if (UNLIKELY(
                 !__atomic_compare_exchange_n(&r->lock, &word, word | 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) &&
             !lock_slowly(r))
        return false;
    __atomic_thread_fence(__ATOMIC_RELEASE); /* readers see the lock before any change */
    return true;
}

static inline void unlock(struct ms_heap_region *r)
{
    __atomic_store_n(&r->lock, __atomic_load_n(&r->lock, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
    if (UNLIKELY(__atomic_load_n(&r->waiting, __ATOMIC_RELAXED))) {
        __atomic_store_n(&r->waiting, 0, __ATOMIC_RELAXED);
        futex_wake(&r->lock);
    }
}

/* ---- region tables */

/* Memory of a class, not cleared if it was used before: `*used`. */
static uint32_t take_table(uint8_t class, bool *used)
{
    uint64_t *head = &tables.heap->free_tables[class], old = __atomic_load_n(head, __ATOMIC_ACQUIRE);
    while ((uint32_t)old) {
        uint32_t next = __atomic_load_n((uint32_t *)at_unit((uint32_t)old), __ATOMIC_RELAXED);
        uint64_t changed = next | ((old >> 32) + 1) << 32;
        if (__atomic_compare_exchange_n(head, &old, changed, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            *used = true;
            return (uint32_t)old;
        }
    }
    *used = false;
    return arena_alloc(capacity(class) * sizeof(uint64_t));
}

static void give_table(uint8_t class, uint32_t unit)
{
    uint64_t *head = &tables.heap->free_tables[class], old = __atomic_load_n(head, __ATOMIC_RELAXED), changed;
    do {
        __atomic_store_n((uint32_t *)at_unit(unit), (uint32_t)old, __ATOMIC_RELAXED);
        changed = unit | (old >> 32) << 32;
    } while (!__atomic_compare_exchange_n(head, &old, changed, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/*
 * ---- entries. All stores are of whole words, because the collector reads beside us.
 *
 * A table is buckets of one cache line each. An entry is in the bucket of its granule's hash, or when that is full in the next
 * that is not; so a search ends at a bucket that is not full. All of a bucket is looked at at once: a search through places
 * one after the other ends where no processor foresees it.
 */

enum { BUCKET = 8 };

static uint32_t bucket_of(uint32_t granule, uint32_t entries)
{
    return (uint32_t)(((uint64_t)(granule * 0x9e3779b1U) * (entries / BUCKET)) >> 32) * BUCKET;
}

static inline uint32_t next_bucket(uint32_t bucket, uint32_t entries)
{
    return bucket + BUCKET == entries ? 0 : bucket + BUCKET;
}

/* What is in a bucket, a bit for each place: entries of the granule, and free ones. The upper half of an entry is never 0. */
struct seen {
    unsigned same, free;
};

#if defined(__SSE2__)
/* By two loads of one entry each: one of both would wait until an entry that was just stored is in the cache. */
static inline __m128 two_entries(const uint64_t *at)
{
    return _mm_castpd_ps(_mm_loadh_pd(_mm_load_sd((const double *)at), (const double *)at + 1));
}
#endif

static inline struct seen look(const uint64_t *bucket, uint32_t granule)
{
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi32((int)granule), zero = _mm_setzero_si128();
    __m128i low = _mm_castps_si128(_mm_shuffle_ps(two_entries(bucket), two_entries(bucket + 2), 0xdd));
    __m128i high = _mm_castps_si128(_mm_shuffle_ps(two_entries(bucket + 4), two_entries(bucket + 6), 0xdd));
    __m128i free = _mm_packs_epi32(_mm_cmpeq_epi32(low, zero), _mm_cmpeq_epi32(high, zero));
    __m128i same = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_srli_epi32(low, MS_HEAP_GRANULE_SHIFT - 32), wanted),
                                   _mm_cmpeq_epi32(_mm_srli_epi32(high, MS_HEAP_GRANULE_SHIFT - 32), wanted));
    unsigned both = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(same, free));
    struct seen seen = {.same = both & 0xff, .free = both >> BUCKET};
#else
    struct seen seen = {0};
    for (unsigned i = 0; i < BUCKET; i++) {
        seen.same |= (unsigned)(bucket[i] >> MS_HEAP_GRANULE_SHIFT == granule) << i;
        seen.free |= (unsigned)(bucket[i] == 0) << i;
    }
#endif
    seen.same &= ~seen.free;
    return seen;
}

/* Place of the granule, or of the free entry where it would be; and what is in that bucket. */
static inline uint32_t place_of(const uint64_t *table, uint32_t entries, uint32_t granule, struct seen *seen)
{
    for (uint32_t bucket = bucket_of(granule, entries);; bucket = next_bucket(bucket, entries)) {
        *seen = look(table + bucket, granule);
        if (LIKELY(seen->same | seen->free))
            return bucket + (uint32_t)__builtin_ctz(seen->same ? seen->same : seen->free);
    }
}

static void put(uint64_t *table, uint32_t entries, uint64_t entry)
{
    struct seen seen;
    uint32_t i = place_of(table, entries, (uint32_t)(entry >> MS_HEAP_GRANULE_SHIFT), &seen);
    __atomic_store_n(&table[i], entry, __ATOMIC_RELAXED);
}

/* The entry at `hole` has left a bucket that was full: one that had to go on to a bucket behind comes back, and so on. */
static __attribute__((noinline)) void bring_back(uint64_t *table, uint32_t entries, uint32_t hole)
{
    uint32_t bucket = hole & -(uint32_t)BUCKET, at = bucket;
    for (bool last = false; !last;) {
        at = next_bucket(at, entries);
        last = look(table + at, 0).free;
        for (uint32_t i = at; i < at + BUCKET; i++) {
            if (!table[i])
                continue;
            uint32_t home = bucket_of((uint32_t)(table[i] >> MS_HEAP_GRANULE_SHIFT), entries);
            /* Its way from home to here, going round, leads past the hole. */
            if (bucket <= at ? home > bucket && home <= at : home > bucket || home <= at)
                continue;
            __atomic_store_n(&table[hole], table[i], __ATOMIC_RELAXED);
            hole = i;
            bucket = at;
            break;
        }
    }
    __atomic_store_n(&table[hole], 0, __ATOMIC_RELAXED);
}

static inline void take_out(uint64_t *table, uint32_t entries, uint32_t hole, struct seen bucket)
{
    if (LIKELY(bucket.free))
        __atomic_store_n(&table[hole], 0, __ATOMIC_RELAXED);
    else
        bring_back(table, entries, hole);
}

/* Of a region's word on its table. */
static inline uint8_t class_of(uint32_t table)
{
    return table & ((1 << MS_HEAP_CLASS_BITS) - 1);
}

static inline uint64_t *table_of(const struct ms_heap_region *r)
{
    return at_unit(r->table >> MS_HEAP_CLASS_BITS);
}

static inline uint32_t entries_of(const struct ms_heap_region *r)
{
    return LIKELY(r->table) ? capacity(class_of(r->table)) : 0;
}

/* Reads what the last change wrote, no more: a load of more than that would wait for the store. */
static inline void count_used(struct ms_heap_region *r, int n)
{
    __atomic_store_n(&r->used, (uint16_t)(__atomic_load_n(&r->used, __ATOMIC_RELAXED) + n), __ATOMIC_RELAXED);
}

/* Whether a table has to grow for one more. The fuller, the more buckets have no free place, behind which a search goes on. */
static inline bool full(uint32_t used, uint32_t entries)
{
    return (used + 1) * 16 > entries * 11;
}

/* By whole words, too: who has lost the race for this memory in take_table may still be about to look at the first one. */
static void clear(uint64_t *table, uint32_t entries)
{
    for (uint32_t i = 0; i < entries; i++)
        __atomic_store_n(&table[i], 0, __ATOMIC_RELAXED);
}

/* The class of a region's first table: what the region before, which is likely to be alike, would need now. */
static uint8_t first_class(uint32_t window, uintptr_t address)
{
    const struct ms_heap_region *before = find_region(address - (1U << MS_HEAP_REGION_SHIFT), false);
    uint8_t class = 0;
    if (before && __atomic_load_n(&before->window, __ATOMIC_RELAXED) == window)
        while (class < MS_HEAP_CLASSES - 1 && full(__atomic_load_n(&before->used, __ATOMIC_RELAXED), capacity(class)))
            class++;
    return class;
}

static bool grow(struct ms_heap_region *r, uint32_t window, uintptr_t address)
{
    uint8_t class = r->table ? class_of(r->table) + 1 : first_class(window, address);
    bool used;
    uint32_t unit = class < MS_HEAP_CLASSES ? take_table(class, &used) : 0, old = r->table;
    if (!unit)
        return false;
    uint64_t *fresh = at_unit(unit), *table = table_of(r);
    uint32_t entries = capacity(class);
    if (used)
        clear(fresh, entries);
    for (uint32_t i = 0; i < entries_of(r); i++)
        if (table[i])
            put(fresh, entries, table[i]);
    __atomic_store_n(&r->table, unit << MS_HEAP_CLASS_BITS | class, __ATOMIC_RELEASE);
    if (old)
        give_table(class_of(old), old >> MS_HEAP_CLASS_BITS);
    return true;
}

/* Halves the ages until `tick` can be one. */
static void rescale(struct ms_heap_region *r, uint64_t tick)
{
    uint64_t *table = table_of(r);
    while (tick >> r->scale > age_mask) {
        for (uint32_t i = 0; i < entries_of(r); i++)
            if (table[i])
                __atomic_store_n(&table[i], (table[i] & ~age_mask) | (table[i] & age_mask) >> 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->scale, r->scale + 1, __ATOMIC_RELAXED);
    }
}

/* The first block of this window in a region. */
static void begin(struct ms_heap_region *r, uint32_t window)
{
    if (r->table)
        clear(table_of(r), entries_of(r));
    __atomic_store_n(&r->used, 0, __ATOMIC_RELAXED); /* first_class looks at it without the lock */
    r->scale = 0;
    __atomic_store_n(&r->window, window, __ATOMIC_RELAXED);
}

/* Has the places fetched that ledger_insert and ledger_remove are going to look at; touches nothing. */
void ledger_prefetch(uintptr_t address)
{
    const struct ms_heap_region *r = find_region(address, false);
    uint32_t table = r ? __atomic_load_n(&r->table, __ATOMIC_RELAXED) : 0;
    if (!table)
        return;
    uint32_t entries = capacity(class_of(table));
    const uint64_t *entry = at_unit(table >> MS_HEAP_CLASS_BITS);
    __builtin_prefetch(entry + bucket_of(address >> 3 & 0x1fff, entries), 1);
}

/* Where the size of a large block is that begins in a region. */
static inline uint64_t *large_size(const struct ms_heap_region *r, uintptr_t address)
{
    uint32_t i = index_in_gib(address);
    return &((struct ms_heap_gib *)(r - i))->large[i];
}

static struct block block_of(const struct ms_heap_region *r, uintptr_t address, uint64_t entry)
{
    struct block b = {.size = entry >> MS_HEAP_SIZE_SHIFT & SIZE_MASK,
                      .tick = (entry & age_mask) << r->scale,
                      .stack = entry >> MS_HEAP_STACK_SHIFT & MS_HEAP_STACK_MOST};
    if (UNLIKELY(b.size == MS_HEAP_SIZE_LARGE))
        b.size = __atomic_load_n(large_size(r, address), __ATOMIC_RELAXED);
    return b;
}

enum insertion ledger_insert(uint32_t window, uintptr_t address, const struct block *block, struct block *old)
{
    struct ms_heap_region *r = find_region(address, true);
    uint64_t size = block->size;
    if (UNLIKELY(!r) || !lock(r))
        return FULL;
    if (UNLIKELY(r->window != window))
        begin(r, window);
    /* A table that cannot grow is filled to its last entry but one, which ends searches. */
    uint32_t entries = entries_of(r);
    if (UNLIKELY(full(r->used, entries)) && !grow(r, window, address) && r->used + 2U > entries) {
        unlock(r);
        return FULL;
    }
    if (UNLIKELY(block->tick >> r->scale > age_mask))
        rescale(r, block->tick);
    entries = entries_of(r);
    uint64_t *table = table_of(r);
    struct seen seen;
    uint32_t granule = address >> 3 & 0x1fff, i = place_of(table, entries, granule, &seen);
    enum insertion result = INSERTED;
    if (UNLIKELY(seen.same)) {
        *old = block_of(r, address, table[i]);
        result = REPLACED;
    } else {
        count_used(r, 1);
    }
    if (UNLIKELY(size >= MS_HEAP_SIZE_LARGE)) {
        __atomic_store_n(large_size(r, address), size, __ATOMIC_RELAXED);
        size = MS_HEAP_SIZE_LARGE;
    }
    __atomic_store_n(&table[i],
                     (uint64_t)granule << MS_HEAP_GRANULE_SHIFT | (uint64_t)block->stack << MS_HEAP_STACK_SHIFT |
                         size << MS_HEAP_SIZE_SHIFT | block->tick >> r->scale,
                     __ATOMIC_RELAXED);
    unlock(r);
    return result;
}

bool ledger_remove(uint32_t window, uintptr_t address, struct block *block)
{
    struct ms_heap_region *r = find_region(address, false);
    /* Without the lock: whoever frees a block comes after what its insertion has written. With sampling most regions have none. */
    if (!r || (address & 7) || __atomic_load_n(&r->window, __ATOMIC_RELAXED) != window ||
        __atomic_load_n(&r->used, __ATOMIC_RELAXED) == 0 || !lock(r))
        return false;
    bool found = false;
    if (LIKELY(r->window == window && r->used)) {
        uint64_t *table = table_of(r);
        struct seen seen;
        uint32_t entries = entries_of(r), i = place_of(table, entries, address >> 3 & 0x1fff, &seen);
        if (LIKELY(seen.same)) {
            *block = block_of(r, address, table[i]);
            take_out(table, entries, i, seen);
            count_used(r, -1);
            found = true;
        }
    }
    unlock(r);
    return found;
}
