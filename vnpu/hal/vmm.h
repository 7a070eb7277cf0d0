/* vmm.h - virtual-memory calls: reserved address ranges, physical handles, mappings. The public part is ascend_hal.h. */
#ifndef VNPU_VMM_H
#define VNPU_VMM_H

#include "arena.h"

/* As arena_find, for reserved ranges: the whole mapping that `address` is in counts as the block. */
enum found vmm_find(const void *address, struct block_info *info);

#endif
