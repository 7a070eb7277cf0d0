#include "impl.h"

aclError aclrtCreateEventImpl(aclrtEvent *event)
{
    return rtEventCreate(event);
}

/* The flag says what the event is wanted for; one of ours serves for everything. */
aclError aclrtCreateEventWithFlagImpl(aclrtEvent *event, uint32_t flag)
{
    (void)flag;
    return rtEventCreate(event);
}

aclError aclrtCreateEventExWithFlagImpl(aclrtEvent *event, uint32_t flag)
{
    return aclrtCreateEventWithFlagImpl(event, flag);
}

aclError aclrtDestroyEventImpl(aclrtEvent event)
{
    return rtEventDestroy(event);
}

aclError aclrtRecordEventImpl(aclrtEvent event, aclrtStream stream)
{
    return rtEventRecord(event, stream);
}

aclError aclrtResetEventImpl(aclrtEvent event, aclrtStream stream)
{
    return rtEventReset(event, stream);
}

aclError aclrtQueryEventStatusImpl(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    int32_t recorded;
    if (!status)
        return ACL_ERROR_INVALID_PARAM;
    rtError_t error = rtEventQuery(event, &recorded);
    if (!error)
        *status = recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return error;
}

/* Streams wait for the times of events, so nobody can wait for one that is over. */
aclError aclrtQueryEventWaitStatusImpl(aclrtEvent event, aclrtEventWaitStatus *status)
{
    int32_t recorded;
    if (!status)
        return ACL_ERROR_INVALID_PARAM;
    rtError_t error = rtEventQuery(event, &recorded);
    if (!error)
        *status = recorded ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return error;
}

aclError aclrtSynchronizeEventImpl(aclrtEvent event)
{
    return rtEventSynchronize(event);
}

aclError aclrtEventElapsedTimeImpl(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    return rtEventElapsedTime(ms, startEvent, endEvent);
}
