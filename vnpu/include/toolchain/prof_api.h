/*
 * prof_api.h - the part of libprofapi.so's interface that the virtual NPU serves: between those who report what the
 * host does (the runtime) and a profiler in the same process. Names, values and layouts are the real ones (abi.md 4.1).
 * Functions return 0 for success unless said otherwise.
 */
#ifndef VNPU_PROF_API_H
#define VNPU_PROF_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ records */

#define MSPROF_REPORT_DATA_MAGIC_NUM 0x5a5a
#define MSPROF_REPORT_RUNTIME_LEVEL 5000

#define RT_PROFILE_TYPE_TASK_TRACK 802
#define RT_PROFILE_TYPE_STREAM_EXPAND 804

struct MsprofRuntimeTrack {
    uint16_t deviceId; /* of the driver */
    uint16_t streamId;
    uint32_t taskInfo; /* times that the task id has wrapped << 16 | task id */
    uint64_t taskType;
    uint64_t kernelName; /* from MsprofGetHashId; 0: not a kernel */
};

struct MsprofStreamExpandSpecInfo {
    uint8_t expandStatus; /* 1: stream ids have 15 bits */
    uint8_t reserve[31];
};

struct MsprofCompactInfo {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint32_t dataLen;
    uint64_t timeStamp; /* of MsprofSysCycleTime */
    union {
        uint8_t info[40];
        struct MsprofRuntimeTrack runtimeTrack;
        struct MsprofStreamExpandSpecInfo streamExpandInfo;
    } data;
};

struct MsprofApi {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint32_t reserve;
    uint64_t beginTime;
    uint64_t endTime;
    uint64_t itemId;
};

/* ------------------------------------------------------------------ for those who report */

#define RUNTIME 7 /* their module ids */
#define PROF_CTRL_SWITCH 1
typedef int32_t (*ProfCommandHandle)(uint32_t type, void *data, uint32_t len);
/* The handle gets every command: (PROF_CTRL_SWITCH, struct CommandHandle *, its size). */
int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle);

/* Where no profiler listens: compact records are dropped, an API record is an error, the id of every text is 0. */
int32_t MsprofReportCompactInfo(uint32_t agingFlag, const void *data, uint32_t length);
int32_t MsprofReportApi(uint32_t agingFlag, const struct MsprofApi *api);
uint64_t MsprofGetHashId(const char *hashInfo, size_t length);
uint64_t MsprofSysCycleTime(void);

/* ------------------------------------------------------------------ for a profiler */

enum ProfilerCallbackType {
    PROFILE_REPORT_COMPACT_CALLBACK = 4,        /* int32_t (uint32_t agingFlag, const void *data, uint32_t len) */
    PROFILE_REPORT_API_C_CALLBACK = 9,          /* int32_t (uint32_t agingFlag, const struct MsprofApi *api) */
    PROFILE_REPORT_GET_HASH_ID_C_CALLBACK = 12, /* uint64_t (const char *text, size_t len) */
    PROFILE_CALLBACKS = 14,
};
/* The newest callback of a type counts; NULL takes it away. */
int32_t MsprofRegisterProfileCallback(int32_t callbackType, void *callback, uint32_t len);

#define PROF_TASK_TIME_MASK 0x800ULL
#define PROF_RUNTIME_TRACE_MASK 0x4000000ULL
enum { PROF_COMMANDHANDLE_TYPE_INIT, PROF_COMMANDHANDLE_TYPE_START, PROF_COMMANDHANDLE_TYPE_STOP };

struct CommandHandleParams {
    uint32_t pathLen;
    uint32_t storageLimit;
    uint32_t profDataLen;
    char path[1024];
    char profData[4096];
};
struct CommandHandle {
    uint64_t profSwitch;
    uint64_t profSwitchHi;
    uint32_t devNums;
    uint32_t devIdList[64];
    uint32_t modelId;
    uint32_t type; /* PROF_COMMANDHANDLE_TYPE_* */
    uint32_t cacheFlag;
    struct CommandHandleParams params;
};
/* Passes a command to everybody who reports. */
int32_t profSetProfCommand(void *command, uint32_t len);

#ifdef __cplusplus
}
#endif
#endif
