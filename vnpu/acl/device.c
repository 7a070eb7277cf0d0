#include "impl.h"

aclError aclrtSetDeviceImpl(int32_t deviceId)
{
    return rtSetDevice(deviceId);
}

aclError aclrtResetDeviceImpl(int32_t deviceId)
{
    return rtDeviceReset(deviceId);
}

aclError aclrtGetDeviceImpl(int32_t *deviceId)
{
    return rtGetDevice(deviceId);
}

aclError aclrtGetDeviceCountImpl(uint32_t *count)
{
    return rtGetDeviceCount((int32_t *)count);
}

aclError aclrtSynchronizeDeviceImpl(void)
{
    return rtDeviceSynchronize();
}

/* NULL when the driver is not available. */
const char *aclrtGetSocNameImpl(void)
{
    static _Thread_local char name[64];
    return rtGetSocVersion(name, sizeof name) ? NULL : name;
}
