/* card.h - what of each card's memory is taken. Bytes, whole pages; shared by blocks and physical handles. */
#ifndef VNPU_CARD_H
#define VNPU_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/* Takes `bytes` of the card, or nothing and false when that exceeds its capacity. */
bool card_take(const struct config *cfg, uint32_t device, uint64_t bytes);
void card_give(uint32_t device, uint64_t bytes);
uint64_t card_used(uint32_t device);

#endif
