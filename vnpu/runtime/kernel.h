/* kernel.h - the kernels of a process, and what starts them. */
#ifndef VNPU_KERNEL_H
#define VNPU_KERNEL_H

#include <stdint.h>

#include "runtime.h"

struct binary;

struct kernel {
    struct binary *binary;
    uint32_t place;   /* in the binary, from 0 */
    int64_t duration; /* ns */
    uint64_t name_id; /* for the profiler, 0 before it is asked for */
    char *name;
};

/* NULL when there is none. */
struct kernel *kernel_of_handle(rtFuncHandle handle);
struct kernel *kernel_of_stub(const void *stubFunc);
struct kernel *kernel_at(void *binary, uint64_t place);

/* stream.c: submits to a stream, NULL for the default one of the thread's device. */
rtError_t submit(rtStream_t stm, const char *name, uint64_t *name_id, int64_t duration);

#endif
