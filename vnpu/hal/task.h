/* task.h - how the runtime hands the driver a kernel. The one function between the libraries that is not the real stack's. */
#ifndef VNPU_TASK_H
#define VNPU_TASK_H

#include <stdint.h>

/*
 * The card runs a task for `duration` ns, as soon as it can but not before `earliest` (CLOCK_MONOTONIC ns). Returns when it ends.
 */
int64_t vnpu_task(uint32_t device, uint16_t stream, uint16_t task, int64_t earliest, int64_t duration);

/* Whether stream ids have 15 bits (VNPU_STREAM_EXPAND). */
int vnpu_stream_expand(void);

#endif
