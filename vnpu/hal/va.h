/* va.h - address space at a wished-for place. */
#ifndef VNPU_VA_H
#define VNPU_VA_H

#include <stddef.h>
#include <stdint.h>

/*
 * The address map. Every device has a window of 1 TiB that begins where the real driver's addresses do, each kind of
 * memory a part of it. These are wishes: where the kernel gives something else (39-bit address spaces, sanitizers), we
 * take it, and nothing but the look of the addresses changes.
 */
#define VA_HOST 0x124000000000ULL
#define VA_DEVICE(d) (0x12c000000000ULL + ((uint64_t)(d) << 40))
#define VA_HUGE(d) (VA_DEVICE(d) + 0x40000000ULL)
#define VA_NORMAL(d) (VA_DEVICE(d) + (1ULL << 39))
#define VA_GIANT(d) (VA_DEVICE(d) + (3ULL << 38))
#define VA_RESERVED 0x124800000000ULL /* halMemAddressReserve, which does not know the device */

/* Maps `bytes` of lazily backed memory with protection `prot`, aligned to `align`, a power of two of at least the page
 * size; at `wish` where that is free. NULL when the kernel refuses. */
char *va_map(uint64_t wish, size_t bytes, size_t align, int prot);

#endif
