#define _GNU_SOURCE
#include "slab.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { RESTING = 4096 }; /* freed slots that wait before the oldest is used again */

/* One lock for all slabs of a library: handles are made rarely, and fork has one lock to care for. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

/* Before the other constructors: handlers that run before a fork go from last to first, so this innermost lock is taken
 * after those of the slabs' owners. */
__attribute__((constructor(200))) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release);
}

static bool map(struct slab *slab)
{
    size_t objects = slab->slot_bytes * SLAB_SLOTS;
    size_t bytes = objects + SLAB_SLOTS * (sizeof *slab->live + sizeof *slab->recycled);
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    slab->base = p;
    slab->recycled = (uint32_t *)(p + objects);
    slab->live = (uint8_t *)(slab->recycled + SLAB_SLOTS);
    return true;
}

/* Index of the slot, or SLAB_SLOTS for what is no slot of this slab. */
static size_t slot_of(const struct slab *slab, const void *handle)
{
    if (!slab->base)
        return SLAB_SLOTS;
    size_t offset = (uintptr_t)handle - (uintptr_t)slab->base;
    if (offset >= slab->slot_bytes * SLAB_SLOTS || offset % slab->slot_bytes)
        return SLAB_SLOTS;
    return offset / slab->slot_bytes;
}

void *slab_new(struct slab *slab)
{
    void *object = NULL;
    acquire();
    if (slab->base || map(slab)) {
        /* The longer a freed slot rests, the surer a stale handle is caught; but do not touch memory for ever. */
        size_t slot = SLAB_SLOTS;
        if (slab->count >= RESTING || (slab->count && slab->fresh == SLAB_SLOTS)) {
            slot = slab->recycled[slab->first];
            slab->first = (slab->first + 1) % SLAB_SLOTS;
            slab->count--;
        } else if (slab->fresh < SLAB_SLOTS) {
            slot = slab->fresh++;
        }
        if (slot < SLAB_SLOTS) {
            object = memset(slab->base + slot * slab->slot_bytes, 0, slab->slot_bytes);
            slab->live[slot] = 1;
        }
    }
    release();
    return object;
}

bool slab_live(struct slab *slab, const void *handle)
{
    acquire();
    size_t slot = slot_of(slab, handle);
    bool live = slot < SLAB_SLOTS && slab->live[slot];
    release();
    return live;
}

static bool end(struct slab *slab, size_t slot)
{
    if (slot >= SLAB_SLOTS || !slab->live[slot])
        return false;
    slab->live[slot] = 0;
    slab->recycled[(slab->first + slab->count++) % SLAB_SLOTS] = (uint32_t)slot;
    return true;
}

bool slab_end(struct slab *slab, void *handle)
{
    acquire();
    bool ended = end(slab, slot_of(slab, handle));
    release();
    return ended;
}

void slab_end_if(struct slab *slab, bool (*match)(const void *handle, int32_t arg), int32_t arg)
{
    acquire();
    for (size_t slot = 0; slot < slab->fresh; slot++)
        if (slab->live[slot] && match(slab->base + slot * slab->slot_bytes, arg))
            end(slab, slot);
    release();
}
