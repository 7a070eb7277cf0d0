#include <stdbool.h>
#include <unistd.h>

#include "impl.h"

enum { DEVICES = 64 };
static char contexts[DEVICES]; /* the context of device i is the address of element i */

static bool exists(int32_t device)
{
    int32_t count;
    return rtGetDeviceCount(&count) == RT_ERROR_NONE && device >= 0 && device < count;
}

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

aclError aclrtSynchronizeDeviceWithTimeoutImpl(int32_t timeout)
{
    return rtDeviceSynchronizeWithTimeout(timeout);
}

aclError aclrtGetCurrentContextImpl(aclrtContext *context)
{
    int32_t device;
    if (!context)
        return ACL_ERROR_INVALID_PARAM;
    rtError_t error = rtGetDevice(&device);
    if (!error)
        *context = &contexts[device];
    return error;
}

aclError aclrtSetCurrentContextImpl(aclrtContext context)
{
    uintptr_t device = (uintptr_t)context - (uintptr_t)contexts;
    return device < DEVICES ? rtSetDevice((int32_t)device) : ACL_ERROR_INVALID_PARAM;
}

/* `flags` may be NULL, and is 0: contexts of ours have none. */
aclError aclrtGetPrimaryCtxStateImpl(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    if (!active)
        return ACL_ERROR_INVALID_PARAM;
    if (flags)
        *flags = 0;
    return rtGetPrimaryCtxState(deviceId, active);
}

aclError aclrtDeviceCanAccessPeerImpl(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    if (!canAccessPeer || deviceId == peerDeviceId)
        return ACL_ERROR_INVALID_PARAM;
    if (!exists(deviceId) || !exists(peerDeviceId))
        return ACL_ERROR_RT_INVALID_DEVICEID;
    *canAccessPeer = 1;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccessImpl(int32_t peerDeviceId, uint32_t flags)
{
    if (flags)
        return ACL_ERROR_INVALID_PARAM;
    return exists(peerDeviceId) ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_DEVICEID;
}

/* The process id outside of containers, which is that of the inside as far as we know. */
aclError aclrtDeviceGetBareTgidImpl(int32_t *pid)
{
    if (!pid)
        return ACL_ERROR_INVALID_PARAM;
    *pid = getpid();
    return ACL_SUCCESS;
}

/* Those of an Ascend910B3. */
aclError aclGetDeviceCapabilityImpl(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    static const int64_t values[] = {
        [ACL_DEVICE_INFO_AI_CORE_NUM] = 20,
        [ACL_DEVICE_INFO_VECTOR_CORE_NUM] = 40,
        [ACL_DEVICE_INFO_L2_SIZE] = 192 << 20,
    };
    if (!value || (size_t)deviceInfo >= sizeof values / sizeof *values)
        return ACL_ERROR_INVALID_PARAM;
    if (!exists((int32_t)deviceId))
        return ACL_ERROR_RT_INVALID_DEVICEID;
    *value = values[deviceInfo];
    return ACL_SUCCESS;
}

aclError aclGetCannAttributeListImpl(const aclCannAttr **cannAttrList, size_t *num)
{
    static const aclCannAttr all[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};
    if (!cannAttrList || !num)
        return ACL_ERROR_INVALID_PARAM;
    *cannAttrList = all;
    *num = sizeof all / sizeof *all;
    return ACL_SUCCESS;
}

aclError aclGetCannAttributeImpl(aclCannAttr cannAttr, int32_t *value)
{
    if (!value || cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE)
        return ACL_ERROR_INVALID_PARAM;
    *value = 1;
    return ACL_SUCCESS;
}
