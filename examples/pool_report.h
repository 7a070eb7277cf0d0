/* pool_report.h - how the caching pool tells a memory tool about its blocks; does nothing without one. */
#ifndef POOL_REPORT_H
#define POOL_REPORT_H

#include <stddef.h>
#include <stdint.h>

/* `reserved`: bytes of all segments of the card at this moment. */
void report_alloc(uint32_t device, const void *block, size_t bytes, uint64_t reserved);
void report_free(uint32_t device, const void *block, uint64_t reserved);

#endif
