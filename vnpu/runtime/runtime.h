/* runtime.h - what the files of libruntime share. */
#ifndef VNPU_RUNTIME_H
#define VNPU_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/export.h"
#include "ascend_hal.h"
#include "runtime/rt.h"

/* The code that the layers above see for an error of the driver. */
rtError_t rt_error(drvError_t error);

/* The physical card behind the calling thread's device; ACL_ERROR_RT_CONTEXT_NULL when the thread has set none. */
rtError_t current_card(uint32_t *card);

/* The physical card behind a device number of this process. */
rtError_t card_of(int32_t device, uint32_t *card);

/* Whether the stream may take work: NULL is the default stream of the thread's device. */
rtError_t check_stream(rtStream_t stm);

/* The time line of a stream that check_stream has accepted. */
struct queue *stream_queue(rtStream_t stm);

/* Until everything that was submitted to the device is done; `timeout` in milliseconds, negative: for ever. */
rtError_t wait_for_device(int32_t device, int32_t timeout);

/* Streams and events of a device end with it. */
void end_streams(int32_t device);
void end_events(int32_t device);

#endif
