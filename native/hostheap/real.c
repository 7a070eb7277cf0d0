/*
 * real.c - the allocator behind the hook, and memory for those who ask before it is known.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "state.h"
#include "symbols.h"

struct real real;

static const char several = 0;
const char *single_threaded = &several;

/* The functions are looked for by whoever comes first, usually ld.so itself; several may do it at once, with one result. */
bool find_real_functions(void)
{
    if (self.resolving)
        return false;
    self.resolving = true;
    struct real found = {0};
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"calloc", &found.calloc},
        {"realloc", &found.realloc},
        {"free", &found.free},
        {"posix_memalign", &found.posix_memalign},
        {"aligned_alloc", &found.aligned_alloc},
        {"memalign", &found.memalign},
        {"valloc", &found.valloc},
        {"pvalloc", &found.pvalloc},
        {"malloc_usable_size", &found.usable_size},
        {"dlclose", &found.dlclose},
        {"malloc", &found.malloc},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        /* Another copy of this library would come back to us; all of them have ms_host_start. */
        struct search search = {
            .name = wanted[i].name, .after = (void *)find_real_functions, .except = "ms_host_start"};
        void *address = search_libraries(&search);
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    struct search word = {.name = "__libc_single_threaded", .data = true};
    const char *single = search_libraries(&word);
    self.resolving = false;
    if (!found.malloc || !found.calloc || !found.realloc || !found.free || !found.usable_size)
        return false;
    if (single)
        single_threaded = single;
    real.calloc = found.calloc;
    real.realloc = found.realloc;
    real.free = found.free;
    real.posix_memalign = found.posix_memalign;
    real.aligned_alloc = found.aligned_alloc;
    real.memalign = found.memalign;
    real.valloc = found.valloc;
    real.pvalloc = found.pvalloc;
    real.usable_size = found.usable_size;
    real.dlclose = found.dlclose;
    __atomic_store_n(&real.malloc, found.malloc, __ATOMIC_RELEASE);
    return true;
}

/*
 * Early memory: pieces of a static arena, then of mappings of that size, each piece with its size before it. It is told
 * from other memory by its address; mappings are kept in a short list, and what does not fit into that has one of its own
 * that is never freed either.
 */
enum { EARLY_BYTES = 65536, EARLY_AREAS = 64 };

static unsigned char first_area[EARLY_BYTES] __attribute__((aligned(64)));
static struct {
    unsigned char *start;
    size_t size, used;
} areas[EARLY_AREAS] = {{first_area, EARLY_BYTES, 0}};
static uint32_t area_count = 1;
bool early_in_use;

static void *piece_of(uint32_t area, size_t size, size_t alignment)
{
    size_t used = __atomic_load_n(&areas[area].used, __ATOMIC_RELAXED), at;
    do {
        uintptr_t base = (uintptr_t)areas[area].start;
        at = ((base + used + sizeof size + alignment - 1) & -alignment) - base;
        if (at > areas[area].size || size > areas[area].size - at)
            return NULL;
    } while (
        !__atomic_compare_exchange_n(&areas[area].used, &used, at + size, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    unsigned char *piece = areas[area].start + at;
    memcpy(piece - sizeof size, &size, sizeof size);
    return piece;
}

void *early_alloc(size_t size, size_t alignment)
{
    __atomic_store_n(&early_in_use, true, __ATOMIC_RELAXED);
    alignment = alignment < 16 ? 16 : alignment;
    if (size > SIZE_MAX / 4 || alignment > SIZE_MAX / 4 || (alignment & (alignment - 1)))
        return NULL;
    uint32_t last = __atomic_load_n(&area_count, __ATOMIC_ACQUIRE) - 1;
    void *piece = piece_of(last, size, alignment);
    if (piece)
        return piece;
    size_t bytes = size + 2 * alignment > EARLY_BYTES ? (size + 2 * alignment + 4095) & -(size_t)4096 : EARLY_BYTES;
    uint32_t area = __atomic_fetch_add(&area_count, 1, __ATOMIC_ACQ_REL);
    if (area >= EARLY_AREAS)
        return NULL;
    void *memory = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    areas[area].size = bytes;
    __atomic_store_n(&areas[area].start, memory, __ATOMIC_RELEASE);
    return piece_of(area, size, alignment);
}

bool lies_in_early(const void *block)
{
    uint32_t count = __atomic_load_n(&area_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < EARLY_AREAS; i++) {
        const unsigned char *start = __atomic_load_n(&areas[i].start, __ATOMIC_ACQUIRE);
        if (start && (uintptr_t)block - (uintptr_t)start < areas[i].size)
            return true;
    }
    return false;
}

size_t early_size(const void *block)
{
    size_t size;
    memcpy(&size, (const unsigned char *)block - sizeof size, sizeof size);
    return size;
}
