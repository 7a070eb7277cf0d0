#include <poll.h>

#include "impl.h"

aclError aclrtCreateStreamImpl(aclrtStream *stream)
{
    return rtStreamCreate(stream, 0);
}

/* The flag chooses between ways of submitting, all of which are the same here. */
aclError aclrtCreateStreamWithConfigImpl(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    (void)flag;
    return rtStreamCreate(stream, (int32_t)priority);
}

aclError aclrtDestroyStreamImpl(aclrtStream stream)
{
    return rtStreamDestroy(stream);
}

aclError aclrtDestroyStreamForceImpl(aclrtStream stream)
{
    return rtStreamDestroy(stream);
}

aclError aclrtSynchronizeStreamImpl(aclrtStream stream)
{
    return rtStreamSynchronize(stream);
}

aclError aclrtSynchronizeStreamWithTimeoutImpl(aclrtStream stream, int32_t timeout)
{
    return rtStreamSynchronizeWithTimeout(stream, timeout);
}

aclError aclrtStreamQueryImpl(aclrtStream stream, aclrtStreamStatus *status)
{
    int32_t done;
    if (!status)
        return ACL_ERROR_INVALID_PARAM;
    rtError_t error = rtStreamQuery(stream, &done);
    if (!error)
        *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return error;
}

/* No stream of ours has callbacks, so none comes within the time. */
aclError aclrtProcessReportImpl(int32_t timeout)
{
    if (timeout > 0)
        poll(NULL, 0, timeout);
    return ACL_ERROR_RT_REPORT_TIMEOUT;
}

aclError aclrtStreamWaitEventImpl(aclrtStream stream, aclrtEvent event)
{
    return rtStreamWaitEvent(stream, event);
}

aclError aclrtStreamGetIdImpl(aclrtStream stream, int32_t *streamId)
{
    return rtGetStreamId(stream, streamId);
}
