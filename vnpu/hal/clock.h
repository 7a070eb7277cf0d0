/* clock.h - each card's own counter. It starts somewhere, ticks 50 million times a second, and may run fast (VNPU_CLOCK_PPM). */
#ifndef VNPU_CLOCK_H
#define VNPU_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "config.h"

enum { CARD_CLOCK_KHZ = 50000 };

static inline int64_t host_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What the counter of the card shows at a CLOCK_MONOTONIC time in ns. */
static inline uint64_t card_count(const struct config *cfg, uint32_t device, int64_t ns)
{
    unsigned __int128 shown = (unsigned __int128)ns * (1000000 + cfg->clock_ppm) / 1000000;
    return (uint64_t)(shown * CARD_CLOCK_KHZ / 1000000) + 0x1234567890 * (device + 1);
}

#endif
