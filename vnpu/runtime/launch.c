/* launch.c - the ways to launch a kernel. A kernel of ours only takes its time, whatever its arguments, except those that fill. */
#include "kernel.h"

#include <string.h>

enum { AICPU_NS = 20000 };

static rtError_t launch(struct kernel *kernel, rtStream_t stm, uint32_t blockDim)
{
    if (!kernel || !blockDim)
        return ACL_ERROR_RT_PARAM_INVALID;
    return submit(stm, kernel->name, &kernel->name_id, kernel->duration);
}

/* Done when it is submitted, as copies are (README). */
static rtError_t fill(const struct kernel *kernel, const void *args, uint32_t bytes)
{
    struct {
        void *at;
        uint64_t bytes, value;
    } what;
    if (strncmp(kernel->name, "Fill", 4) != 0)
        return RT_ERROR_NONE;
    if (!args || bytes != sizeof what)
        return ACL_ERROR_RT_PARAM_INVALID;
    memcpy(&what, args, sizeof what);
    return rtMemset(what.at, what.bytes, (uint32_t)what.value, what.bytes);
}

VNPU_API rtError_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize,
                                  rtSmDesc_t *smDesc, rtStream_t stm)
{
    (void)smDesc;
    struct kernel *kernel = kernel_of_stub(stubFunc);
    rtError_t error = launch(kernel, stm, blockDim);
    return error ? error : fill(kernel, args, argsSize);
}

VNPU_API rtError_t rtKernelLaunchWithFlagV2(const void *stubFunc, uint32_t blockDim, rtArgsEx_t *argsInfo,
                                            rtSmDesc_t *smDesc, rtStream_t stm, uint32_t flags,
                                            const rtTaskCfgInfo_t *cfgInfo)
{
    (void)argsInfo, (void)smDesc, (void)flags, (void)cfgInfo;
    return launch(kernel_of_stub(stubFunc), stm, blockDim);
}

/* The tiling key chooses among the kernels of the binary; here it is the place. */
VNPU_API rtError_t rtKernelLaunchWithHandleV2(void *hdl, const uint64_t tilingKey, uint32_t blockDim,
                                              rtArgsEx_t *argsInfo, rtSmDesc_t *smDesc, rtStream_t stm,
                                              const rtTaskCfgInfo_t *cfgInfo)
{
    (void)argsInfo, (void)smDesc, (void)cfgInfo;
    return launch(kernel_at(hdl, tilingKey), stm, blockDim);
}

VNPU_API rtError_t rtAicpuKernelLaunchExWithArgs(const uint32_t kernelType, const char *const opName,
                                                 const uint32_t blockDim, const rtAicpuArgsEx_t *argsInfo,
                                                 rtSmDesc_t *const smDesc, const rtStream_t stm, const uint32_t flags)
{
    (void)kernelType, (void)argsInfo, (void)smDesc, (void)flags;
    uint64_t name_id = 0;
    if (!opName || !blockDim)
        return ACL_ERROR_RT_PARAM_INVALID;
    return submit(stm, opName, &name_id, AICPU_NS);
}

VNPU_API rtError_t rtLaunchKernelByFuncHandle(rtFuncHandle funcHandle, uint32_t blockDim, rtLaunchArgsHandle argsHandle,
                                              rtStream_t stm)
{
    (void)argsHandle;
    return launch(kernel_of_handle(funcHandle), stm, blockDim);
}

VNPU_API rtError_t rtLaunchKernelByFuncHandleV2(rtFuncHandle funcHandle, uint32_t blockDim,
                                                rtLaunchArgsHandle argsHandle, rtStream_t stm,
                                                const rtTaskCfgInfo_t *cfgInfo)
{
    (void)argsHandle, (void)cfgInfo;
    return launch(kernel_of_handle(funcHandle), stm, blockDim);
}

/* Where the cores of a card meet during a kernel; there are none here, and nothing looks at it. */
VNPU_API rtError_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len)
{
    (void)addr, (void)len;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
