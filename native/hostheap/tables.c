/*
 * tables.c - memory in the tables. It is handed out from the front and comes as zeros; only region tables come back.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "state.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { STEP = 1 << 20 };

static uint64_t populated; /* bytes of the arena whose pages are there */

/*
 * Gets the pages of [0, end) of the arena. A touch of a page for which there is no memory is SIGBUS; this call says so
 * instead. Older kernels do not know it: then a touch has to do, as with any other memory.
 */
static bool populate(uint64_t end)
{
    uint64_t have;
    while (end > (have = __atomic_load_n(&populated, __ATOMIC_ACQUIRE))) {
        uint64_t step = tables.arena_bytes - have < STEP ? tables.arena_bytes - have : STEP;
        int saved = errno;
        long result = syscall(SYS_madvise, tables.arena + have, step, MADV_POPULATE_WRITE);
        uint64_t now = have + step;
        if (result < 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM))
            now = UINT64_MAX;
        else if (result < 0 && errno != EAGAIN && errno != EINTR)
            now = 0;
        else if (result < 0)
            now = have;
        errno = saved;
        if (now == 0)
            return false;
        __atomic_compare_exchange_n(&populated, &have, now, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    return true;
}

uint32_t arena_alloc(uint64_t bytes)
{
    bytes = (bytes + MS_HEAP_UNIT - 1) & -(uint64_t)MS_HEAP_UNIT;
    if (__atomic_load_n(&tables.heap->arena_next, __ATOMIC_RELAXED) > tables.arena_bytes)
        return 0;
    uint64_t at = __atomic_fetch_add(&tables.heap->arena_next, bytes, __ATOMIC_RELAXED) + MS_HEAP_UNIT; /* not at 0 */
    if (at + bytes > tables.arena_bytes || !populate(at + bytes))
        return 0;
    return (uint32_t)(at / MS_HEAP_UNIT);
}

uint32_t text_add(const char *text, size_t bytes)
{
    if (bytes > UINT32_MAX / 2)
        return 0;
    uint64_t need = (sizeof(uint32_t) + bytes + 3) & ~3ULL;
    if (__atomic_load_n(&tables.heap->text_next, __ATOMIC_RELAXED) > tables.text_bytes)
        return 0;
    uint64_t at = __atomic_fetch_add(&tables.heap->text_next, need, __ATOMIC_RELAXED) + 4;
    if (at + need > tables.text_bytes)
        return 0;
    uint32_t length = (uint32_t)bytes;
    memcpy(tables.text + at, &length, sizeof length);
    memcpy(tables.text + at + sizeof length, text, bytes);
    return (uint32_t)(at / 4);
}
