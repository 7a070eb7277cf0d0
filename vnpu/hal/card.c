#include "card.h"

#include "share.h"

static struct {
    uint64_t used;
} __attribute__((aligned(64))) cards[MAX_DEVICES]; /* a cache line each: cards do not slow one another */

bool card_take(const struct config *cfg, uint32_t device, uint64_t bytes)
{
    if (bytes > cfg->hbm_bytes)
        return false;
    uint64_t *used = &cards[device].used;
    uint64_t now = __atomic_add_fetch(used, bytes, __ATOMIC_RELAXED);
    if (now <= cfg->hbm_bytes) {
        share_add(device, bytes);
        return true;
    }
    __atomic_sub_fetch(used, bytes, __ATOMIC_RELAXED);
    return false;
}

void card_give(uint32_t device, uint64_t bytes)
{
    __atomic_sub_fetch(&cards[device].used, bytes, __ATOMIC_RELAXED);
    share_add(device, -bytes);
}

uint64_t card_used(uint32_t device)
{
    return __atomic_load_n(&cards[device].used, __ATOMIC_RELAXED);
}
