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

aclError aclrtStreamWaitEventImpl(aclrtStream stream, aclrtEvent event)
{
    return rtStreamWaitEvent(stream, event);
}

aclError aclrtStreamGetIdImpl(aclrtStream stream, int32_t *streamId)
{
    return rtGetStreamId(stream, streamId);
}
