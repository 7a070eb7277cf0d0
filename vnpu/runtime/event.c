/* event.c - events. One is a point in time: when the kernels before it are done, or its record if they are already. */
#include "../common/slab.h"
#include "queue.h"
#include "runtime.h"

struct event {
    int32_t device;
    int64_t recorded; /* CLOCK_MONOTONIC ns, 0 = not yet */
};

static struct slab events = {.slot_bytes = sizeof(struct event)};

static bool of_device(const void *handle, int32_t device)
{
    return ((const struct event *)handle)->device == device;
}

void end_events(int32_t device)
{
    slab_end_if(&events, of_device, device);
}

static struct event *live(rtEvent_t evt)
{
    return slab_live(&events, evt) ? evt : NULL;
}

VNPU_API rtError_t rtEventCreate(rtEvent_t *evt)
{
    int32_t device;
    if (!evt)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = rtGetDevice(&device);
    if (error)
        return error;
    struct event *e = slab_new(&events);
    if (!e)
        return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    e->device = device;
    *evt = e;
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtEventDestroy(rtEvent_t evt)
{
    return slab_end(&events, evt) ? RT_ERROR_NONE : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtEventRecord(rtEvent_t evt, rtStream_t stm)
{
    struct event *e = live(evt);
    if (!e)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = check_stream(stm);
    if (error)
        return error;
    int64_t now = host_now(), busy = queue_busy(stream_queue(stm));
    __atomic_store_n(&e->recorded, busy > now ? busy : now, __ATOMIC_RELEASE);
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtEventReset(rtEvent_t evt, rtStream_t stm)
{
    struct event *e = live(evt);
    if (!e)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = check_stream(stm);
    if (!error)
        __atomic_store_n(&e->recorded, 0, __ATOMIC_RELEASE);
    return error;
}

/* An event that was never recorded counts as done, as in the real runtime. */
VNPU_API rtError_t rtEventSynchronize(rtEvent_t evt)
{
    struct event *e = live(evt);
    if (!e)
        return ACL_ERROR_RT_PARAM_INVALID;
    sleep_until(__atomic_load_n(&e->recorded, __ATOMIC_ACQUIRE));
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtEventQuery(rtEvent_t evt, int32_t *recorded)
{
    struct event *e = live(evt);
    if (!e || !recorded)
        return ACL_ERROR_RT_PARAM_INVALID;
    int64_t time = __atomic_load_n(&e->recorded, __ATOMIC_ACQUIRE);
    *recorded = time != 0 && time <= host_now();
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtStreamWaitEvent(rtStream_t stm, rtEvent_t evt)
{
    struct event *e = live(evt);
    if (!e)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = check_stream(stm);
    if (!error)
        queue_delay(stream_queue(stm), __atomic_load_n(&e->recorded, __ATOMIC_ACQUIRE));
    return error;
}

VNPU_API rtError_t rtEventElapsedTime(float *timeInterval, rtEvent_t startEvent, rtEvent_t endEvent)
{
    struct event *start = live(startEvent), *end = live(endEvent);
    if (!timeInterval || !start || !end)
        return ACL_ERROR_RT_PARAM_INVALID;
    int64_t from = __atomic_load_n(&start->recorded, __ATOMIC_ACQUIRE);
    int64_t to = __atomic_load_n(&end->recorded, __ATOMIC_ACQUIRE);
    if (!from || !to)
        return ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
    *timeInterval = (float)(to - from) / 1e6F;
    return RT_ERROR_NONE;
}
