/*
 * profiler.c - see profiler.h. libprofapi.so is looked for at load and may be absent, unlike on a real server, where it comes with
 * the runtime: what programs do without it can be tried this way.
 */
#define _GNU_SOURCE
#include "profiler.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../hal/task.h"
#include "runtime.h"
#include "toolchain/prof_api.h"

enum { CARDS = 64, TASK_KERNEL_AICORE = 0, API_LAUNCH = 1000 };

static uint8_t listening[CARDS];
static __typeof__(MsprofReportCompactInfo) *report_compact;
static __typeof__(MsprofReportApi) *report_api;
static __typeof__(MsprofGetHashId) *hash_id;
static __typeof__(MsprofSysCycleTime) *cycle_time;

static struct MsprofCompactInfo compact(uint32_t type, uint32_t bytes)
{
    return (struct MsprofCompactInfo){
        .magicNumber = MSPROF_REPORT_DATA_MAGIC_NUM,
        .level = MSPROF_REPORT_RUNTIME_LEVEL,
        .type = type,
        .threadId = (uint32_t)syscall(SYS_gettid),
        .dataLen = bytes,
        .timeStamp = cycle_time(),
    };
}

static int32_t command(uint32_t type, void *data, uint32_t len)
{
    const struct CommandHandle *c = data;
    if (type != PROF_CTRL_SWITCH || len != sizeof *c || c->devNums > CARDS)
        return -1;
    bool start = c->type == PROF_COMMANDHANDLE_TYPE_START;
    if (!start && c->type != PROF_COMMANDHANDLE_TYPE_STOP)
        return 0;
    if (start && vnpu_stream_expand()) {
        struct MsprofCompactInfo info = compact(RT_PROFILE_TYPE_STREAM_EXPAND, sizeof info.data.streamExpandInfo);
        info.data.streamExpandInfo.expandStatus = 1;
        report_compact(1, &info, sizeof info);
    }
    if (c->profSwitch & PROF_RUNTIME_TRACE_MASK)
        for (uint32_t i = 0; i < c->devNums; i++)
            if (c->devIdList[i] < CARDS)
                __atomic_store_n(&listening[c->devIdList[i]], start, __ATOMIC_RELEASE);
    return 0;
}

__attribute__((constructor)) static void find_profapi(void)
{
    void *library = dlopen("libprofapi.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return;
    __typeof__(MsprofRegisterCallback) *add = (__typeof__(add))dlsym(library, "MsprofRegisterCallback");
    report_compact = (__typeof__(report_compact))dlsym(library, "MsprofReportCompactInfo");
    report_api = (__typeof__(report_api))dlsym(library, "MsprofReportApi");
    hash_id = (__typeof__(hash_id))dlsym(library, "MsprofGetHashId");
    cycle_time = (__typeof__(cycle_time))dlsym(library, "MsprofSysCycleTime");
    if (add && report_compact && report_api && hash_id && cycle_time)
        add(RUNTIME, command);
}

bool profiler_listens(uint32_t card)
{
    return __atomic_load_n(&listening[card], __ATOMIC_ACQUIRE);
}

rtError_t profiler_launch(uint32_t card, int32_t stream, uint32_t number, const char *name, uint64_t *id)
{
    uint64_t hash = __atomic_load_n(id, __ATOMIC_RELAXED);
    if (!hash) {
        hash = hash_id(name, strlen(name));
        __atomic_store_n(id, hash, __ATOMIC_RELAXED);
    }
    struct MsprofCompactInfo info = compact(RT_PROFILE_TYPE_TASK_TRACK, sizeof info.data.runtimeTrack);
    info.data.runtimeTrack = (struct MsprofRuntimeTrack){
        .deviceId = (uint16_t)card,
        .streamId = (uint16_t)stream,
        .taskInfo = number,
        .taskType = TASK_KERNEL_AICORE,
        .kernelName = hash,
    };
    report_compact(1, &info, sizeof info);
    struct MsprofApi api = {
        .magicNumber = MSPROF_REPORT_DATA_MAGIC_NUM,
        .level = MSPROF_REPORT_RUNTIME_LEVEL,
        .type = API_LAUNCH,
        .threadId = info.threadId,
        .beginTime = info.timeStamp,
        .endTime = cycle_time(),
    };
    return report_api(1, &api) ? ACL_ERROR_RT_DRV_INTERNAL_ERROR : RT_ERROR_NONE;
}
