/*
 * profapi.c - all of libprofapi.so: who reports and who listens meet here. Callbacks and handles are atomics, so everything
 * may be called from any thread and in a forked child.
 */
#include <time.h>

#include "../common/export.h"
#include "toolchain/prof_api.h"

enum { MODULES = 64, FAILED = -1 };

static void *callbacks[PROFILE_CALLBACKS];
static ProfCommandHandle modules[MODULES];

static void *callback(enum ProfilerCallbackType type)
{
    return __atomic_load_n(&callbacks[type], __ATOMIC_ACQUIRE);
}

VNPU_API int32_t MsprofRegisterProfileCallback(int32_t callbackType, void *function, uint32_t len)
{
    if (callbackType < 0 || callbackType >= PROFILE_CALLBACKS || len != sizeof(void *))
        return FAILED;
    __atomic_store_n(&callbacks[callbackType], function, __ATOMIC_RELEASE);
    return 0;
}

VNPU_API int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle)
{
    if (moduleId >= MODULES || !handle)
        return FAILED;
    __atomic_store_n(&modules[moduleId], handle, __ATOMIC_RELEASE);
    return 0;
}

VNPU_API int32_t profSetProfCommand(void *command, uint32_t len)
{
    if (!command || len != sizeof(struct CommandHandle))
        return FAILED;
    int32_t result = 0;
    for (int i = 0; i < MODULES; i++) {
        ProfCommandHandle handle = __atomic_load_n(&modules[i], __ATOMIC_ACQUIRE);
        if (handle && handle(PROF_CTRL_SWITCH, command, len))
            result = FAILED;
    }
    return result;
}

VNPU_API int32_t MsprofReportCompactInfo(uint32_t agingFlag, const void *data, uint32_t length)
{
    int32_t (*report)(uint32_t, const void *, uint32_t) = callback(PROFILE_REPORT_COMPACT_CALLBACK);
    return report ? report(agingFlag, data, length) : 0;
}

/* Nobody listens for these. */
VNPU_API int32_t MsprofReportAdditionalInfo(uint32_t agingFlag, const void *data, uint32_t length)
{
    (void)agingFlag, (void)length;
    return data ? 0 : FAILED;
}

VNPU_API int32_t MsprofReportApi(uint32_t agingFlag, const struct MsprofApi *api)
{
    int32_t (*report)(uint32_t, const struct MsprofApi *) = callback(PROFILE_REPORT_API_C_CALLBACK);
    return report ? report(agingFlag, api) : FAILED;
}

VNPU_API uint64_t MsprofGetHashId(const char *hashInfo, size_t length)
{
    uint64_t (*hash)(const char *, size_t) = callback(PROFILE_REPORT_GET_HASH_ID_C_CALLBACK);
    return hash ? hash(hashInfo, length) : 0;
}

VNPU_API uint64_t MsprofSysCycleTime(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
