#include "impl.h"

aclError aclrtBinaryLoadFromDataImpl(const void *data, size_t length, const aclrtBinaryLoadOptions *options,
                                     aclrtBinHandle *binHandle)
{
    (void)options;
    const rtDevBinary_t binary = {.data = data, .length = length};
    return rtBinaryLoad(&binary, binHandle);
}

aclError aclrtBinaryUnLoadImpl(aclrtBinHandle binHandle)
{
    return rtBinaryUnLoad(binHandle);
}

aclError aclrtBinaryGetFunctionImpl(const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle)
{
    return rtBinaryGetFunctionByName(binHandle, kernelName, funcHandle);
}

aclError aclrtLaunchKernelImpl(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize,
                               aclrtStream stream)
{
    (void)argsData, (void)argsSize;
    return rtLaunchKernelByFuncHandle(funcHandle, blockDim, NULL, stream);
}

aclError aclrtLaunchKernelV2Impl(aclrtFuncHandle funcHandle, uint32_t blockDim, const void *argsData, size_t argsSize,
                                 aclrtLaunchKernelCfg *cfg, aclrtStream stream)
{
    (void)argsData, (void)argsSize, (void)cfg;
    return rtLaunchKernelByFuncHandleV2(funcHandle, blockDim, NULL, stream, NULL);
}

aclError aclrtLaunchKernelWithConfigImpl(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream,
                                         aclrtLaunchKernelCfg *cfg, aclrtArgsHandle argsHandle, void *reserve)
{
    (void)cfg, (void)reserve;
    return rtLaunchKernelByFuncHandleV2(funcHandle, blockDim, argsHandle, stream, NULL);
}

aclError aclrtLaunchKernelWithHostArgsImpl(aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream,
                                           aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
                                           aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum)
{
    (void)cfg, (void)hostArgs, (void)argsSize, (void)placeHolderArray, (void)placeHolderNum;
    return rtLaunchKernelByFuncHandleV2(funcHandle, blockDim, NULL, stream, NULL);
}

/* Kernels of ours have no code that could have an address. */
aclError aclrtGetFunctionAddrImpl(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr)
{
    (void)funcHandle, (void)aicAddr, (void)aivAddr;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
