/*
 * launch.c - the launch functions (abi.md 1.5). Whatever they are given goes to the real ones as it is. One may call another
 * of them; the outermost has seen to everything.
 */
#include <stddef.h>

#include "agent.h"
#include "kernel.h"

typedef int32_t rtError_t;
typedef int aclError;

enum { RT_ERROR_RESERVED = 0x99, ACL_ERROR_RT_FAILURE = 500003 };

static const char runtime[] = "libruntime.so", acl[] = "libascendcl.so", acl_impl[] = "libacl_rt_impl.so",
                  acl_impl_older[] = "libascendcl_impl.so";

__thread struct kernel_launch kernel_launch;

static void *real_function(void **slot, const void *hook, const char *name, const char *library)
{
    void *real = ms_real(slot, hook, NULL, name, library);
    if (!real && library == acl_impl)
        real = ms_real(slot, hook, NULL, name, acl_impl_older);
    return real;
}

#define LAUNCH(type, name, parameters, arguments, library, unresolved)                                   \
    MS_EXPORT type name parameters;                                                                      \
    MS_EXPORT type name parameters                                                                       \
    {                                                                                                    \
        static void *slot;                                                                               \
        type(*real) parameters = (type(*) parameters)real_function(&slot, (void *)name, #name, library); \
        if (!real)                                                                                       \
            return unresolved;                                                                           \
        if (kernel_launch.depth++ == 0) {                                                                \
            MS_CALLER(kernel_launch.caller);                                                             \
            kernel_before_launch();                                                                      \
        }                                                                                                \
        type result = real arguments;                                                                    \
        if (--kernel_launch.depth == 0)                                                                  \
            kernel_after_launch();                                                                       \
        return result;                                                                                   \
    }

LAUNCH(rtError_t, rtKernelLaunch,
       (const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize, void *smDesc, void *stm),
       (stubFunc, blockDim, args, argsSize, smDesc, stm), runtime, RT_ERROR_RESERVED)
LAUNCH(rtError_t, rtKernelLaunchWithHandleV2,
       (void *hdl, uint64_t tilingKey, uint32_t blockDim, void *argsInfo, void *smDesc, void *stm, const void *cfgInfo),
       (hdl, tilingKey, blockDim, argsInfo, smDesc, stm, cfgInfo), runtime, RT_ERROR_RESERVED)
LAUNCH(rtError_t, rtKernelLaunchWithFlagV2,
       (const void *stubFunc, uint32_t blockDim, void *argsInfo, void *smDesc, void *stm, uint32_t flags,
        const void *cfgInfo),
       (stubFunc, blockDim, argsInfo, smDesc, stm, flags, cfgInfo), runtime, RT_ERROR_RESERVED)
LAUNCH(rtError_t, rtAicpuKernelLaunchExWithArgs,
       (uint32_t kernelType, const char *opName, uint32_t blockDim, const void *argsInfo, void *smDesc, void *stm,
        uint32_t flags),
       (kernelType, opName, blockDim, argsInfo, smDesc, stm, flags), runtime, RT_ERROR_RESERVED)
LAUNCH(rtError_t, rtLaunchKernelByFuncHandle, (void *funcHandle, uint32_t blockDim, void *argsHandle, void *stm),
       (funcHandle, blockDim, argsHandle, stm), runtime, RT_ERROR_RESERVED)
LAUNCH(rtError_t, rtLaunchKernelByFuncHandleV2,
       (void *funcHandle, uint32_t blockDim, void *argsHandle, void *stm, const void *cfgInfo),
       (funcHandle, blockDim, argsHandle, stm, cfgInfo), runtime, RT_ERROR_RESERVED)
LAUNCH(aclError, aclrtLaunchKernelImpl,
       (void *funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize, void *stream),
       (funcHandle, blockDim, argsData, argsSize, stream), acl_impl, ACL_ERROR_RT_FAILURE)
LAUNCH(aclError, aclrtLaunchKernelV2Impl,
       (void *funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize, void *cfg, void *stream),
       (funcHandle, blockDim, argsData, argsSize, cfg, stream), acl_impl, ACL_ERROR_RT_FAILURE)
LAUNCH(aclError, aclrtLaunchKernelWithConfig,
       (void *funcHandle, uint32_t blockDim, void *stream, void *cfg, void *argsHandle, void *reserve),
       (funcHandle, blockDim, stream, cfg, argsHandle, reserve), acl, ACL_ERROR_RT_FAILURE)
LAUNCH(aclError, aclrtLaunchKernelWithHostArgs,
       (void *funcHandle, uint32_t blockDim, void *stream, void *cfg, void *hostArgs, size_t argsSize,
        void *placeHolders, size_t placeHolderCount),
       (funcHandle, blockDim, stream, cfg, hostArgs, argsSize, placeHolders, placeHolderCount), acl,
       ACL_ERROR_RT_FAILURE)
