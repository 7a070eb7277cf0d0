/*
 * kernel.c - the life of ACL (abi.md 1.4). Kernel launches come later.
 */
#include "agent.h"

typedef int aclError;

enum { ACL_ERROR_INTERNAL_ERROR = 500000 };

static const char library[] = "libascendcl.so";

static void put_event(enum ms_type type)
{
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return;
    ms_put_text(type, MS_DEVICE_NONE, 0, NULL);
    ms_leave();
}

/* Recorded whatever the result: a second aclInit fails and is still the program's use of ACL. */
MS_EXPORT aclError aclInit(const char *configPath)
{
    static void *slot;
    aclError (*real)(const char *) = ms_real(&slot, (void *)aclInit, NULL, "aclInit", library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real(configPath);
    put_event(MS_ACL_INIT);
    return result;
}

MS_EXPORT aclError aclFinalize(void)
{
    static void *slot;
    aclError (*real)(void) = ms_real(&slot, (void *)aclFinalize, NULL, "aclFinalize", library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real();
    put_event(MS_ACL_FINI);
    return result;
}

/* Nothing to record yet; collecting CPU tensors will begin here. */
MS_EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    static void *slot;
    aclError (*real)(int32_t) = ms_real(&slot, (void *)aclrtSetDevice, NULL, "aclrtSetDevice", library);
    return real ? real(deviceId) : ACL_ERROR_INTERNAL_ERROR;
}
