/*
 * target.h - what the programs of test/targets share: small helpers around the virtual NPU. The programs know nothing of
 * msmemscope, except those that call its public C API.
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ascend_hal.h"

static inline void die(const char *what, long code)
{
    fprintf(stderr, "%s failed: %ld\n", what, code);
    exit(99);
}

/* Device memory of card 0 for the module "APP". */
static inline void *device_alloc(uint64_t bytes)
{
    void *block;
    drvError_t error =
        halMemAlloc(&block, bytes, MEM_DEV | MEM_TYPE_HBM | (uint64_t)APP_MODULE_ID << MEM_MODULE_ID_BIT);
    if (error)
        die("halMemAlloc", error);
    return block;
}

static inline void device_free(void *block)
{
    drvError_t error = halMemFree(block);
    if (error)
        die("halMemFree", error);
}

static inline uint64_t argument(int argc, char **argv, int index, uint64_t otherwise)
{
    return index < argc ? strtoull(argv[index], NULL, 10) : otherwise;
}

#endif
