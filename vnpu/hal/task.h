/* task.h - how the runtime hands the driver a kernel. The one function between the libraries that is not the real stack's. */
#ifndef VNPU_TASK_H
#define VNPU_TASK_H

#include <stdint.h>

/* The card runs a task from `start` to `end`, CLOCK_MONOTONIC ns, both not yet past. */
void vnpu_task(uint32_t device, uint16_t stream, uint16_t task, int64_t start, int64_t end);

/* Whether stream ids have 15 bits (VNPU_STREAM_EXPAND). */
int vnpu_stream_expand(void);

#endif
