/* stream.c - streams. Work is done when it is submitted (README), so a stream is an identity without a queue. */
#include "../common/slab.h"
#include "runtime.h"

struct stream {
    int32_t device, id;
};

static struct slab streams = {.slot_bytes = sizeof(struct stream)};
static int32_t last_id; /* 0 is the default stream */

static bool of_device(const void *handle, int32_t device)
{
    return ((const struct stream *)handle)->device == device;
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

VNPU_API rtError_t rtStreamCreate(rtStream_t *stm, int32_t priority)
{
    (void)priority; /* nothing ever waits, so nothing goes first */
    int32_t device;
    if (!stm)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t error = rtGetDevice(&device);
    if (error)
        return error;
    struct stream *s = slab_new(&streams);
    if (!s)
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    s->device = device;
    s->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    *stm = s;
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtStreamDestroy(rtStream_t stm)
{
    return slab_end(&streams, stm) ? RT_ERROR_NONE : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtStreamSynchronize(rtStream_t stm)
{
    return check_stream(stm);
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
