/*
 * kernel.c - the life of ACL (abi.md 1.4), and when somebody has to listen for kernels.
 */
#include "kernel.h"

#include <errno.h>

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

void kernel_expect(void)
{
    if (ms_enter(MS_KERNEL) == MS_SKIP)
        return;
    int saved = errno;
    names_listen(false);
    errno = saved;
    ms_leave();
}

static bool kernel_traced(void)
{
    enum ms_mode mode = ms_enter(MS_KERNEL);
    if (mode != MS_SKIP)
        ms_leave();
    return mode == MS_NORMAL;
}

static void kernel_listen(void)
{
    enum ms_mode mode = ms_enter(MS_KERNEL);
    if (mode == MS_SKIP)
        return;
    int saved = errno;
    names_listen(true);
    if (mode == MS_NORMAL)
        channel_open(ms_current_device());
    errno = saved;
    ms_leave();
}

void kernel_before_launch(void)
{
    kernel_listen();
    kernel_launch.name = 0;
    kernel_launch.watched = ms_watching() && kernel_traced() && ms_watch_launch();
}

void kernel_after_launch(void)
{
    if (kernel_launch.watched)
        ms_watch_launched(kernel_launch.device, kernel_launch.name, names_id);
}

/* Recorded whatever the result: a second aclInit fails and is still the program's use of ACL. */
MS_EXPORT aclError aclInit(const char *configPath)
{
    static void *slot;
    aclError (*real)(const char *) = ms_real(&slot, (void *)aclInit, NULL, "aclInit", library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    kernel_expect(); /* the runtime may name its kernels from here on */
    aclError result = real(configPath);
    put_event(MS_ACL_INIT);
    ms_python_wanted();
    return result;
}

MS_EXPORT aclError aclFinalize(void)
{
    static void *slot;
    aclError (*real)(void) = ms_real(&slot, (void *)aclFinalize, NULL, "aclFinalize", library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    if (ms_enter(MS_KERNEL) != MS_SKIP) {
        int saved = errno;
        channel_close_all(); /* before there is no driver any more */
        errno = saved;
        ms_leave();
    }
    aclError result = real();
    put_event(MS_ACL_FINI);
    return result;
}

/* Nothing to record, but the card is one that will be used. */
MS_EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    static void *slot;
    aclError (*real)(int32_t) = ms_real(&slot, (void *)aclrtSetDevice, NULL, "aclrtSetDevice", library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    kernel_expect();
    aclError result = real(deviceId);
    if (result == 0)
        kernel_listen();
    return result;
}
