/*
 * slab.h - handles that can be checked.
 *
 * Opaque handles (streams, events, physical memory) come from fixed address ranges of equal slots, so that "is this a
 * live handle of this kind?" is arithmetic and a byte, never a read through a wild pointer. Slots are recycled oldest
 * first, which keeps a stale handle invalid for long. Thread-safe; consistent in a forked child.
 */
#ifndef VNPU_SLAB_H
#define VNPU_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLAB_SLOTS = 1 << 20 }; /* live handles of one kind; the range is lazily mapped */

struct slab {
    size_t slot_bytes; /* set by the owner, sizeof the object */
    char *base;
    uint8_t *live;      /* one byte for each slot */
    uint32_t *recycled; /* ring of freed slots */
    uint32_t fresh, first, count;
};

/* A zeroed slot, or NULL when none is left. */
void *slab_new(struct slab *slab);
bool slab_live(struct slab *slab, const void *handle);
/* Ends the handle; false if it was not live. The slot's contents stay until it is handed out again. */
bool slab_end(struct slab *slab, void *handle);
/* Ends every live handle for which `match` holds. */
void slab_end_if(struct slab *slab, bool (*match)(const void *handle, int32_t arg), int32_t arg);

#endif
