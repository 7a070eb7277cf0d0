/*
 * rt.h - the part of libruntime.so's interface that the virtual NPU serves. Names, values and layouts are the real ones.
 * Functions return an rtError_t: 0, or the 6-digit codes that aclError shares (ACL_ERROR_RT_*).
 */
#ifndef VNPU_RT_H
#define VNPU_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rtError_t;
typedef uint32_t rtMemType_t;
typedef uint32_t rtMemInfoType_t;
typedef void *rtStream_t;
typedef void *rtEvent_t;
typedef void *rtDrvMemHandle;

#define RT_ERROR_NONE 0
#define ACL_ERROR_RT_PARAM_INVALID 107000
#define ACL_ERROR_RT_INVALID_DEVICEID 107001
#define ACL_ERROR_RT_CONTEXT_NULL 107002
#define ACL_ERROR_RT_STREAM_CONTEXT 107003
#define ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID 107008
#define ACL_ERROR_RT_REPORT_TIMEOUT 107012
#define ACL_ERROR_RT_INVALID_HANDLE 107017
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT 207000
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001
#define ACL_ERROR_RT_NO_DEVICE 207004
#define ACL_ERROR_RT_NO_EVENT_RESOURCE 207007
#define ACL_ERROR_RT_NO_STREAM_RESOURCE 207008
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046
#define ACL_ERROR_RT_DRV_INTERNAL_ERROR 507899
#define ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED 507910
#define ACL_ERROR_HOST_MEMORY_NOT_REGISTERED 507911

/* ------------------------------------------------------------------ devices */

rtError_t rtGetDeviceCount(int32_t *count);
rtError_t rtSetDevice(int32_t device);
rtError_t rtGetDevice(int32_t *device);
rtError_t rtDeviceReset(int32_t device);
rtError_t rtGetPrimaryCtxState(int32_t device, int32_t *active); /* 1 between the first set and the last reset */
rtError_t rtDeviceSynchronize(void);
rtError_t rtDeviceSynchronizeWithTimeout(int32_t timeout); /* milliseconds, negative: for ever */
rtError_t rtGetSocVersion(char *version, const uint32_t maxLen);

/* ------------------------------------------------------------------ memory; type is a kind | a policy */

#define RT_MEMORY_DEFAULT 0x0U
#define RT_MEMORY_HBM 0x2U
#define RT_MEMORY_POLICY_NONE 0x0U
#define RT_MEMORY_POLICY_HUGE_PAGE_FIRST 0x400U /* up to 1 MiB normal pages, above it huge ones, else normal ones */
#define RT_MEMORY_POLICY_HUGE_PAGE_ONLY 0x800U
#define RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY 0x1000U
#define RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P 0x2000U
#define RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P 0x4000U
#define RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P 0x8000U
#define RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY 0x10000U
#define RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P 0x20000U

rtError_t rtMalloc(void **devPtr, uint64_t size, rtMemType_t type, const uint16_t moduleId);
rtError_t rtFree(void *devPtr);
rtError_t rtMallocHost(void **hostPtr, uint64_t size, const uint16_t moduleId);
rtError_t rtFreeHost(void *hostPtr);

#define RT_MEM_HOST_REGISTER_MAPPED 0x2U
#define RT_MEM_HOST_REGISTER_PINNED 0x10000000U
rtError_t rtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
rtError_t rtHostUnregister(void *ptr);

#define RT_MEM_INFO_TYPE_DDR_SIZE 1U
#define RT_MEM_INFO_TYPE_HBM_SIZE 2U
rtError_t rtMemGetInfoEx(rtMemInfoType_t memInfoType, size_t *freeSize, size_t *totalSize);

typedef enum {
    RT_MEMCPY_HOST_TO_HOST = 0,
    RT_MEMCPY_HOST_TO_DEVICE = 1,
    RT_MEMCPY_DEVICE_TO_HOST = 2,
    RT_MEMCPY_DEVICE_TO_DEVICE = 3,
    RT_MEMCPY_DEFAULT = 8, /* the direction follows from the addresses */
    RT_MEMCPY_RESERVED = 9,
} rtMemcpyKind_t;
rtError_t rtMemcpy(void *dst, uint64_t destMax, const void *src, uint64_t cnt, rtMemcpyKind_t kind);
rtError_t rtMemcpyAsync(void *dst, uint64_t destMax, const void *src, uint64_t cnt, rtMemcpyKind_t kind,
                        rtStream_t stm);
rtError_t rtMemset(void *devPtr, uint64_t destMax, uint32_t val, uint64_t cnt);
rtError_t rtMemsetAsync(void *devPtr, uint64_t destMax, uint32_t val, uint64_t cnt, rtStream_t stm);

typedef struct {
    uint32_t side; /* 0 host, 1 device */
    uint32_t devid;
    uint32_t module_id;
    uint32_t pg_type;  /* 0 normal, 1 huge, 2 giant */
    uint32_t mem_type; /* 0 HBM, 1 DDR */
    uint64_t reserve;
} rtDrvMemProp_t;
rtError_t rtReserveMemAddress(void **devPtr, size_t size, size_t alignment, void *devAddr, uint64_t flags);
rtError_t rtReleaseMemAddress(void *devPtr);
rtError_t rtMallocPhysical(rtDrvMemHandle *handle, size_t size, rtDrvMemProp_t *prop, uint64_t flags);
rtError_t rtFreePhysical(rtDrvMemHandle handle);
rtError_t rtMapMem(void *devPtr, size_t size, size_t offset, rtDrvMemHandle handle, uint64_t flags);
rtError_t rtUnmapMem(void *devPtr);

/* ------------------------------------------------------------------ streams and events */

rtError_t rtStreamCreate(rtStream_t *stm, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stm);
rtError_t rtStreamSynchronize(rtStream_t stm); /* NULL: the default stream of the current device */
rtError_t rtStreamSynchronizeWithTimeout(rtStream_t stm, int32_t timeout); /* milliseconds, negative: for ever */
rtError_t rtStreamQuery(rtStream_t stm, int32_t *done);                    /* 1 when everything submitted is done */
rtError_t rtStreamWaitEvent(rtStream_t stm, rtEvent_t evt);
rtError_t rtGetStreamId(rtStream_t stm, int32_t *streamId);

rtError_t rtEventCreate(rtEvent_t *evt);
rtError_t rtEventDestroy(rtEvent_t evt);
rtError_t rtEventRecord(rtEvent_t evt, rtStream_t stm);
rtError_t rtEventReset(rtEvent_t evt, rtStream_t stm);
rtError_t rtEventSynchronize(rtEvent_t evt);
rtError_t rtEventQuery(rtEvent_t evt, int32_t *recorded); /* 1 when what was recorded is done */
rtError_t rtEventElapsedTime(float *timeInterval, rtEvent_t startEvent, rtEvent_t endEvent); /* milliseconds */

/* ------------------------------------------------------------------ kernels */

typedef void *rtBinHandle;
typedef void *rtFuncHandle;
typedef void *rtLaunchArgsHandle;
typedef struct rtSmDesc rtSmDesc_t; /* the arguments of kernels are not looked at, nor what goes with them */
typedef struct rtArgsEx rtArgsEx_t; /* NULL */
typedef struct rtAicpuArgsEx rtAicpuArgsEx_t;
typedef struct rtTaskCfgInfo rtTaskCfgInfo_t;

typedef struct {
    uint32_t magic;
    uint32_t version;
    const void *data; /* of the virtual NPU: lines of the name of a kernel, a blank, and its microseconds */
    uint64_t length;
} rtDevBinary_t;

rtError_t rtBinaryLoad(const rtDevBinary_t *bin, rtBinHandle *binHandle);
rtError_t rtBinaryUnLoad(rtBinHandle binHandle);
rtError_t rtBinaryGetFunctionByName(const rtBinHandle binHandle, const char *kernelName, rtFuncHandle *funcHandle);
rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl);
rtError_t rtDevBinaryUnRegister(void *hdl);
rtError_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName, const void *kernelInfoExt,
                             uint32_t funcMode);

rtError_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize, rtSmDesc_t *smDesc,
                         rtStream_t stm);
rtError_t rtKernelLaunchWithHandleV2(void *hdl, const uint64_t tilingKey, uint32_t blockDim, rtArgsEx_t *argsInfo,
                                     rtSmDesc_t *smDesc, rtStream_t stm, const rtTaskCfgInfo_t *cfgInfo);
rtError_t rtKernelLaunchWithFlagV2(const void *stubFunc, uint32_t blockDim, rtArgsEx_t *argsInfo, rtSmDesc_t *smDesc,
                                   rtStream_t stm, uint32_t flags, const rtTaskCfgInfo_t *cfgInfo);
rtError_t rtAicpuKernelLaunchExWithArgs(const uint32_t kernelType, const char *const opName, const uint32_t blockDim,
                                        const rtAicpuArgsEx_t *argsInfo, rtSmDesc_t *const smDesc, const rtStream_t stm,
                                        const uint32_t flags);
rtError_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len);
rtError_t rtLaunchKernelByFuncHandle(rtFuncHandle funcHandle, uint32_t blockDim, rtLaunchArgsHandle argsHandle,
                                     rtStream_t stm);
rtError_t rtLaunchKernelByFuncHandleV2(rtFuncHandle funcHandle, uint32_t blockDim, rtLaunchArgsHandle argsHandle,
                                       rtStream_t stm, const rtTaskCfgInfo_t *cfgInfo);

#ifdef __cplusplus
}
#endif
#endif
