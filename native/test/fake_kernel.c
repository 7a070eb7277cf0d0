/*
 * fake_kernel.c - see fake.h: launches, libprofapi.so and the driver's profiling channel. The plain edition is an older stack: no
 * profiling channel, and a libprofapi.so without profSetProfCommand.
 */
#include "fake.h"

#include <errno.h>
#include <string.h>

#define API __attribute__((visibility("default"), unused))
#define ARGUMENT(x) (uint64_t)(uintptr_t)(x)

static inline int launched(const char *name, const uint64_t *arguments, size_t bytes)
{
    __atomic_add_fetch(&fake.launch.count, 1, __ATOMIC_RELAXED);
    if (fake.launch.only_count)
        return fake.result;
    fake.launch.name = name;
    memset(fake.launch.arguments, 0, sizeof fake.launch.arguments);
    memcpy(fake.launch.arguments, arguments, bytes);
    if (fake.profiling.on_launch)
        fake.profiling.on_launch();
    errno = EDOM; /* the hook must hand this through */
    return fake.result;
}

#define LAUNCHED(name, ...) launched(#name, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}))

#ifdef FAKE_RUNTIME
API int rtKernelLaunch(const void *stub, uint32_t dim, void *args, uint32_t bytes, void *desc, void *stream)
{
    return LAUNCHED(rtKernelLaunch, ARGUMENT(stub), dim, ARGUMENT(args), bytes, ARGUMENT(desc), ARGUMENT(stream));
}

API int rtKernelLaunchWithHandleV2(void *handle, uint64_t key, uint32_t dim, void *args, void *desc, void *stream,
                                   const void *config)
{
    return LAUNCHED(rtKernelLaunchWithHandleV2, ARGUMENT(handle), key, dim, ARGUMENT(args), ARGUMENT(desc),
                    ARGUMENT(stream), ARGUMENT(config));
}

API int rtKernelLaunchWithFlagV2(const void *stub, uint32_t dim, void *args, void *desc, void *stream, uint32_t flags,
                                 const void *config)
{
    return LAUNCHED(rtKernelLaunchWithFlagV2, ARGUMENT(stub), dim, ARGUMENT(args), ARGUMENT(desc), ARGUMENT(stream),
                    flags, ARGUMENT(config));
}

API int rtAicpuKernelLaunchExWithArgs(uint32_t type, const char *name, uint32_t dim, const void *args, void *desc,
                                      void *stream, uint32_t flags)
{
    return LAUNCHED(rtAicpuKernelLaunchExWithArgs, type, ARGUMENT(name), dim, ARGUMENT(args), ARGUMENT(desc),
                    ARGUMENT(stream), flags);
}

API int rtLaunchKernelByFuncHandle(void *function, uint32_t dim, void *args, void *stream)
{
    return LAUNCHED(rtLaunchKernelByFuncHandle, ARGUMENT(function), dim, ARGUMENT(args), ARGUMENT(stream));
}

API int rtLaunchKernelByFuncHandleV2(void *function, uint32_t dim, void *args, void *stream, const void *config)
{
    return LAUNCHED(rtLaunchKernelByFuncHandleV2, ARGUMENT(function), dim, ARGUMENT(args), ARGUMENT(stream),
                    ARGUMENT(config));
}
#endif

#ifdef FAKE_ACL_IMPL
API int aclrtLaunchKernelImpl(void *function, uint32_t dim, const void *args, size_t bytes, void *stream)
{
    return LAUNCHED(aclrtLaunchKernelImpl, ARGUMENT(function), dim, ARGUMENT(args), bytes, ARGUMENT(stream));
}

API int aclrtLaunchKernelV2Impl(void *function, uint32_t dim, const void *args, size_t bytes, void *config,
                                void *stream)
{
    return LAUNCHED(aclrtLaunchKernelV2Impl, ARGUMENT(function), dim, ARGUMENT(args), bytes, ARGUMENT(config),
                    ARGUMENT(stream));
}
#endif

#if !defined FAKE_HAL && !defined FAKE_RUNTIME && !defined FAKE_ACL_IMPL && !defined FAKE_PROFAPI
API int aclrtLaunchKernelWithConfig(void *function, uint32_t dim, void *stream, void *config, void *args, void *reserve)
{
    return LAUNCHED(aclrtLaunchKernelWithConfig, ARGUMENT(function), dim, ARGUMENT(stream), ARGUMENT(config),
                    ARGUMENT(args), ARGUMENT(reserve));
}

API int aclrtLaunchKernelWithHostArgs(void *function, uint32_t dim, void *stream, void *config, void *args,
                                      size_t bytes, void *holders, size_t count)
{
    return LAUNCHED(aclrtLaunchKernelWithHostArgs, ARGUMENT(function), dim, ARGUMENT(stream), ARGUMENT(config),
                    ARGUMENT(args), bytes, ARGUMENT(holders), count);
}

API const char *aclrtGetSocName(void)
{
    return fake.profiling.soc;
}
#endif

#ifdef FAKE_PROFAPI
API int32_t MsprofRegisterProfileCallback(int32_t type, void *callback, uint32_t length)
{
    if (type < 0 || type >= 16 || length != sizeof(void *) || fake.profiling.register_result)
        return -1;
    fake.profiling.callback[type] = callback;
    return 0;
}

#ifdef FAKE_INNER
API int32_t profSetProfCommand(void *command, uint32_t length)
{
    fake.profiling.commands++;
    fake.profiling.command_bytes = length;
    memcpy(fake.profiling.command, command,
           length < sizeof fake.profiling.command ? length : sizeof fake.profiling.command);
    return fake.profiling.command_result;
}
#endif
#endif

#if defined FAKE_HAL && defined FAKE_INNER
struct parameters {
    int32_t type;
    uint32_t period, real_time;
    void *data;
    uint32_t bytes;
};

API int prof_drv_start(unsigned card, unsigned channel, struct parameters *p)
{
    if (channel != 50 || p->type != 0 || p->period != 20 || p->real_time != 1)
        return -1;
    if (fake.profiling.start_result)
        return fake.profiling.start_result;
    fake.profiling.config_bytes = p->bytes;
    memcpy(fake.profiling.config, p->data,
           p->bytes < sizeof fake.profiling.config ? p->bytes : sizeof fake.profiling.config);
    __atomic_or_fetch(&fake.profiling.started, 1U << card, __ATOMIC_SEQ_CST);
    return 0;
}

API int prof_stop(unsigned card, unsigned channel)
{
    if (channel == 50)
        __atomic_or_fetch(&fake.profiling.stopped, 1U << card, __ATOMIC_SEQ_CST);
    return 0;
}

API int prof_channel_read(unsigned card, unsigned channel, char *buffer, unsigned bytes)
{
    if (channel != 50)
        return -1;
    return fake.profiling.read ? fake.profiling.read(card, buffer, bytes) : 0;
}

API int halGetDeviceInfo(uint32_t card, int32_t module, int32_t info, int64_t *value)
{
    (void)card;
    *value = info == 25 ? fake.profiling.frequency : 1000;
    return module == 0 && (info == 25 || info == 13) ? fake.profiling.info_result : -1;
}
#endif
