/* stream.c - streams, and the submission of kernels to them. Copies are done when they are submitted (README). */
#include "../common/slab.h"
#include "kernel.h"
#include "profiler.h"
#include "queue.h"
#include "runtime.h"

enum { MOST_IDS = 1 << 15, DEVICES = 64 };

struct stream {
    int32_t device, id;
    struct queue queue;
};

static struct slab streams = {.slot_bytes = sizeof(struct stream)};
static struct stream defaults[DEVICES]; /* of each device, with the id 0 */
static int64_t device_busy[DEVICES];    /* when everything submitted so far is done */
static uint8_t ids[MOST_IDS];           /* 1: taken */

static int32_t take_id(void)
{
    for (int32_t id = 1; id < MOST_IDS; id++)
        if (!__atomic_load_n(&ids[id], __ATOMIC_RELAXED) && !__atomic_exchange_n(&ids[id], 1, __ATOMIC_ACQ_REL))
            return id;
    return 0;
}

/* Notes that the device is busy until `time`. */
static void keep_busy(int32_t device, int64_t time)
{
    int64_t *busy = &device_busy[device], before = __atomic_load_n(busy, __ATOMIC_RELAXED);
    while (before < time && !__atomic_compare_exchange_n(busy, &before, time, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static bool of_device(const void *handle, int32_t device)
{
    const struct stream *s = handle;
    if (s->device != device)
        return false;
    __atomic_store_n(&ids[s->id], 0, __ATOMIC_RELEASE);
    return true;
}

void end_streams(int32_t device)
{
    slab_end_if(&streams, of_device, device);
}

rtError_t check_stream(rtStream_t stm)
{
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error || !stm)
        return error;
    return slab_live(&streams, stm) ? RT_ERROR_NONE : ACL_ERROR_RT_PARAM_INVALID;
}

/* The stream behind a handle that check_stream has accepted. */
static struct stream *stream_of(rtStream_t stm)
{
    int32_t device = 0;
    if (stm)
        return stm;
    rtGetDevice(&device);
    return &defaults[device];
}

struct queue *stream_queue(rtStream_t stm)
{
    return &stream_of(stm)->queue;
}

rtError_t submit(rtStream_t stm, const char *name, uint64_t *name_id, int64_t duration)
{
    uint32_t card;
    int32_t device;
    rtError_t error = check_stream(stm);
    if (!error)
        error = current_card(&card);
    if (!error)
        error = rtGetDevice(&device);
    if (error)
        return error;
    struct stream *s = stream_of(stm);
    uint32_t number = queue_take(&s->queue);
    if (profiler_listens(card))
        error = profiler_launch(card, s->id, number, name, name_id);
    keep_busy(device, queue_run(&s->queue, number, card, s->id, duration));
    return error;
}

VNPU_API rtError_t rtStreamCreate(rtStream_t *stm, int32_t priority)
{
    (void)priority; /* nothing ever waits, so nothing goes first */
    int32_t device;
    if (!stm)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = rtGetDevice(&device);
    if (error)
        return error;
    int32_t id = take_id();
    if (!id)
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    struct stream *s = slab_new(&streams);
    if (!s) {
        __atomic_store_n(&ids[id], 0, __ATOMIC_RELEASE);
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    }
    s->device = device;
    s->id = id;
    *stm = s;
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtStreamDestroy(rtStream_t stm)
{
    if (!slab_live(&streams, stm))
        return ACL_ERROR_RT_PARAM_INVALID;
    sleep_until(queue_busy(stream_queue(stm)));
    int32_t id = ((struct stream *)stm)->id;
    if (!slab_end(&streams, stm))
        return ACL_ERROR_RT_PARAM_INVALID;
    __atomic_store_n(&ids[id], 0, __ATOMIC_RELEASE);
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtStreamSynchronize(rtStream_t stm)
{
    rtError_t error = check_stream(stm);
    if (!error)
        sleep_until(queue_busy(stream_queue(stm)));
    return error;
}

/* Waits for `time`, but no longer than the milliseconds of `timeout`, which are without end when negative. */
static rtError_t wait_for(int64_t time, int32_t timeout)
{
    int64_t most = timeout < 0 ? INT64_MAX : host_now() + (int64_t)timeout * 1000000;
    sleep_until(time < most ? time : most);
    return time <= most ? RT_ERROR_NONE : ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
}

VNPU_API rtError_t rtStreamSynchronizeWithTimeout(rtStream_t stm, int32_t timeout)
{
    rtError_t error = check_stream(stm);
    return error ? error : wait_for(queue_busy(stream_queue(stm)), timeout);
}

VNPU_API rtError_t rtStreamQuery(rtStream_t stm, int32_t *done)
{
    if (!done)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = check_stream(stm);
    if (!error)
        *done = queue_busy(stream_queue(stm)) <= host_now();
    return error;
}

rtError_t wait_for_device(int32_t device, int32_t timeout)
{
    return wait_for(__atomic_load_n(&device_busy[device], __ATOMIC_RELAXED), timeout);
}

VNPU_API rtError_t rtGetStreamId(rtStream_t stm, int32_t *streamId)
{
    if (!streamId)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = check_stream(stm);
    if (!error)
        *streamId = stm ? ((struct stream *)stm)->id : 0;
    return error;
}
