/*
 * fake_stack.c - see fake.h. Built as libascend_hal.so (FAKE_HAL) and libascendcl.so, each with and without FAKE_INNER.
 */
#include "fake.h"

#include <errno.h>

#define API __attribute__((visibility("default")))

#ifdef FAKE_HAL
#ifdef FAKE_INNER
#define NAME(x) x##Inner
#else
#define NAME(x) x
#endif

__attribute__((constructor)) static void loaded(void)
{
    if (fake.on_load)
        fake.on_load();
}

API int NAME(halMemAlloc)(void **pp, unsigned long long size, unsigned long long flag)
{
    (void)size, (void)flag;
    fake.calls++;
    errno = EDOM; /* the hook must hand this through */
    if (fake.result == 0)
        *pp = fake.address;
    return fake.result;
}

API int NAME(halMemFree)(void *pp)
{
    fake.calls++;
    fake.last_freed = pp;
    if (fake.on_free)
        fake.on_free();
    return fake.result;
}

API int NAME(halMemCreate)(void **handle, size_t size, const struct prop *prop, uint64_t flag)
{
    (void)size, (void)prop, (void)flag;
    fake.calls++;
    if (fake.result == 0)
        *handle = fake.address;
    return fake.result;
}

API int NAME(halMemRelease)(void *handle)
{
    fake.calls++;
    fake.last_freed = handle;
    return fake.result;
}
#else
#ifdef FAKE_INNER
#define GET_DEVICE aclrtGetDeviceImpl
#else
#define GET_DEVICE rtGetDevice
#endif

API int aclInit(const char *path)
{
    fake.calls++;
    (void)path;
    return fake.result;
}

API int aclFinalize(void)
{
    fake.calls++;
    return fake.result;
}

API int aclrtSetDevice(int32_t device)
{
    fake.calls++;
    fake.device = device;
    return fake.result;
}

/* As the real one may: allocates on the way, and spoils errno. */
API int GET_DEVICE(int32_t *device)
{
    void *p = NULL;
    fake.device_calls++;
    halMemAlloc(&p, 4096, 0);
    errno = ERANGE;
    *device = fake.device;
    return fake.device_result;
}
#endif
