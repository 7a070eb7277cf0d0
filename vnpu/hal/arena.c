#define _GNU_SOURCE
#include "arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/export.h"
#include "config.h"
#include "va.h"

enum {
    CLASSES = 160,
    CHUNK_MIN = 256 << 20, /* bytes of the first chunk of an arena; later ones double what there is */
    DIRTY_MAX = 64 << 20,  /* bytes that a class keeps of freed memory before it gives the pages back */
};

struct block {
    struct block *next; /* in the list of its class while free */
    char *addr;         /* NULL: nothing begins at this page */
    uint64_t bytes;     /* as asked for; 0 while free */
};

struct chunk {
    char *start, *end, *bump; /* bump: first address that was never carved */
    struct arena *arena;
    struct block *blocks; /* one for each page; lazily mapped */
    uint64_t *begins;     /* bit per page: a block begins here */
};

struct size_class {
    struct block *free; /* last freed first */
    uint32_t dirty;     /* how many from the top of the list may still hold pages */
};

struct arena {
    pthread_mutex_t lock;
    int32_t device;
    enum page page;
    uint64_t wish;       /* where the next chunk should go */
    uint64_t mapped;     /* bytes of all chunks */
    struct chunk *chunk; /* the one that is carved now */
    struct size_class classes[CLASSES];
} __attribute__((aligned(64)));

/* All chunks of the process by address. An immutable snapshot that readers need no lock for; superseded ones are kept,
 * since a reader may still look at them (chunks double, so there are few). */
struct directory {
    struct directory *superseded;
    size_t count;
    struct chunk *chunks[];
};

static struct arena *arenas; /* PAGES for each device, then the host's */
static uint32_t arena_count;
static struct directory *directory;
static pthread_mutex_t directory_lock = PTHREAD_MUTEX_INITIALIZER;

static const unsigned page_shift[PAGES] = {12, 21, 30};

uint64_t page_bytes(enum page page)
{
    return 1ULL << page_shift[page];
}

uint64_t page_round(enum page page, uint64_t bytes)
{
    uint64_t mask = page_bytes(page) - 1;
    return bytes > UINT64_MAX - mask ? 0 : (bytes + mask) & ~mask;
}

static void lock_all(void)
{
    for (uint32_t i = 0; i < arena_count; i++)
        pthread_mutex_lock(&arenas[i].lock);
    pthread_mutex_lock(&directory_lock); /* after any arena's, as in add_chunk */
}

static void unlock_all(void)
{
    pthread_mutex_unlock(&directory_lock);
    for (uint32_t i = 0; i < arena_count; i++)
        pthread_mutex_unlock(&arenas[i].lock);
}

void arenas_init(uint32_t devices)
{
    arena_count = devices * PAGES + 1;
    arenas = aligned_alloc(_Alignof(struct arena), arena_count * sizeof *arenas);
    if (!arenas)
        abort(); /* some 10 KiB at the start of the process */
    memset(arenas, 0, arena_count * sizeof *arenas);
    for (uint32_t i = 0; i < arena_count; i++) {
        struct arena *a = &arenas[i];
        bool host = i == arena_count - 1;
        a->device = host ? HOST_DEVICE : (int32_t)(i / PAGES);
        a->page = host ? PAGE_NORMAL : (enum page)(i % PAGES);
        const uint64_t wishes[PAGES] = {VA_NORMAL(a->device), VA_HUGE(a->device), VA_GIANT(a->device)};
        a->wish = host ? VA_HOST : wishes[a->page];
        pthread_mutex_init(&a->lock, NULL);
    }
    pthread_atfork(lock_all, unlock_all, unlock_all);
}

struct arena *arena_of(int32_t device, enum page page)
{
    return device == HOST_DEVICE ? &arenas[arena_count - 1] : &arenas[(uint32_t)device * PAGES + page];
}

/* Four classes per doubling: 1 2 3 4 5 6 7 8 10 12 14 16 20 ... pages. */
static unsigned class_of(uint64_t pages, uint64_t *class_pages)
{
    if (pages <= 4) {
        *class_pages = pages;
        return (unsigned)pages - 1;
    }
    unsigned shift = 61 - (unsigned)__builtin_clzll(pages - 1); /* of a quarter of the doubling */
    unsigned quarter = (unsigned)((pages - 1) >> shift) & 3;
    *class_pages = (uint64_t)(5 + quarter) << shift;
    return 4 + 4 * shift + quarter;
}

static bool publish(struct chunk *chunk)
{
    pthread_mutex_lock(&directory_lock);
    struct directory *old = directory;
    size_t count = old ? old->count : 0, at = 0;
    struct directory *new = malloc(sizeof *new + (count + 1) * sizeof *new->chunks);
    if (new) {
        while (at < count && old->chunks[at]->start < chunk->start)
            at++;
        for (size_t i = 0; i < count; i++)
            new->chunks[i + (i >= at)] = old->chunks[i];
        new->chunks[at] = chunk;
        new->superseded = old;
        new->count = count + 1;
        __atomic_store_n(&directory, new, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&directory_lock);
    return new != NULL;
}

/* A new chunk with room for at least `bytes`; called with the arena's lock held. */
static bool add_chunk(struct arena *a, uint64_t bytes)
{
    uint64_t size = bytes;
    if (size < CHUNK_MIN)
        size = CHUNK_MIN;
    if (size < a->mapped)
        size = a->mapped;
    uint64_t pages = size >> page_shift[a->page];
    uint64_t bitmap = (pages + 63) / 64 * sizeof(uint64_t);

    struct chunk *chunk = calloc(1, sizeof *chunk);
    char *tables = va_map(0, pages * sizeof(struct block) + bitmap, 8, PROT_READ | PROT_WRITE);
    char *memory = va_map(a->wish, size, page_bytes(a->page), PROT_READ | PROT_WRITE);
    if (chunk && tables && memory) {
        *chunk = (struct chunk){.start = memory,
                                .end = memory + size,
                                .bump = memory,
                                .arena = a,
                                .blocks = (struct block *)tables,
                                .begins = (uint64_t *)(tables + pages * sizeof(struct block))};
        if (publish(chunk)) {
            a->wish = (uintptr_t)chunk->end;
            a->mapped += size;
            a->chunk = chunk;
            return true;
        }
    }
    if (tables)
        munmap(tables, pages * sizeof(struct block) + bitmap);
    if (memory)
        munmap(memory, size);
    free(chunk);
    return false;
}

/* A block that never was; called with the arena's lock held. */
static struct block *carve(struct arena *a, uint64_t bytes)
{
    struct chunk *chunk = a->chunk;
    if (!chunk || (uint64_t)(chunk->end - chunk->bump) < bytes) {
        if (!add_chunk(a, bytes))
            return NULL;
        chunk = a->chunk;
    }
    size_t page = (size_t)(chunk->bump - chunk->start) >> page_shift[a->page];
    struct block *block = &chunk->blocks[page];
    block->addr = chunk->bump;
    chunk->bump += bytes;
    chunk->begins[page / 64] |= 1ULL << page % 64;
    return block;
}

void *arena_alloc(struct arena *a, uint64_t bytes)
{
    uint64_t class_pages;
    unsigned c = class_of((bytes + page_bytes(a->page) - 1) >> page_shift[a->page], &class_pages);
    struct size_class *class = &a->classes[c];

    pthread_mutex_lock(&a->lock);
    struct block *block = class->free;
    if (LIKELY(block)) {
        class->free = block->next;
        class->dirty -= class->dirty > 0;
    } else {
        block = carve(a, class_pages << page_shift[a->page]);
    }
    void *address = NULL;
    if (LIKELY(block)) {
        block->bytes = bytes;
        address = block->addr;
    }
    pthread_mutex_unlock(&a->lock);
    return address;
}

static struct chunk *chunk_of(const void *address)
{
    struct directory *d = __atomic_load_n(&directory, __ATOMIC_ACQUIRE);
    if (!d)
        return NULL;
    size_t low = 0, high = d->count; /* the last chunk that starts at or below the address */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->chunks[middle]->start <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || (const char *)address >= d->chunks[low - 1]->end)
        return NULL;
    return d->chunks[low - 1];
}

/* Gives the pages of the freshly freed blocks of a class back to the kernel; called with the arena's lock held. */
static void clean(struct size_class *class, uint64_t bytes)
{
    struct block *block = class->free;
    for (; class->dirty; class->dirty--, block = block->next)
        madvise(block->addr, bytes, MADV_DONTNEED);
}

bool arena_free(void *address, struct block_info *was)
{
    struct chunk *chunk = chunk_of(address);
    if (!chunk)
        return false;
    struct arena *a = chunk->arena;
    struct block *block = &chunk->blocks[(size_t)((char *)address - chunk->start) >> page_shift[a->page]];

    pthread_mutex_lock(&a->lock);
    bool live = block->addr == address && block->bytes;
    if (LIKELY(live)) {
        uint64_t class_pages;
        *was = (struct block_info){a->device, a->page, address, block->bytes};
        unsigned c = class_of((block->bytes + page_bytes(a->page) - 1) >> page_shift[a->page], &class_pages);
        struct size_class *class = &a->classes[c];
        block->bytes = 0;
        block->next = class->free;
        class->free = block;
        class->dirty++;
        uint64_t class_bytes = class_pages << page_shift[a->page];
        if (UNLIKELY(class->dirty * class_bytes > DIRTY_MAX))
            clean(class, class_bytes);
    }
    pthread_mutex_unlock(&a->lock);
    return live;
}

enum found arena_find(const void *address, struct block_info *info)
{
    struct chunk *chunk = chunk_of(address);
    if (!chunk)
        return NOT_OURS;
    struct arena *a = chunk->arena;
    size_t page = (size_t)((const char *)address - chunk->start) >> page_shift[a->page];
    enum found found = NO_BLOCK;

    pthread_mutex_lock(&a->lock);
    /* The nearest beginning at or below the page. */
    size_t word = page / 64;
    uint64_t bits = chunk->begins[word] & (UINT64_MAX >> (63 - page % 64));
    while (!bits && word)
        bits = chunk->begins[--word];
    if (bits) {
        struct block *block = &chunk->blocks[word * 64 + 63 - (size_t)__builtin_clzll(bits)];
        if ((uint64_t)((const char *)address - block->addr) < block->bytes) {
            *info = (struct block_info){a->device, a->page, block->addr, block->bytes};
            found = LIVE_BLOCK;
        }
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}
