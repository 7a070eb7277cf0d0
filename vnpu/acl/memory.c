#include "impl.h"

#include "ascend_hal.h"

enum { ALIGN = 32 }; /* bytes; sizes are rounded up to this, as in the real ACL */

static const struct {
    rtMemType_t type;
} policies[] = {
    [ACL_MEM_MALLOC_HUGE_FIRST] = {RT_MEMORY_POLICY_HUGE_PAGE_FIRST},
    [ACL_MEM_MALLOC_HUGE_ONLY] = {RT_MEMORY_POLICY_HUGE_PAGE_ONLY},
    [ACL_MEM_MALLOC_NORMAL_ONLY] = {RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY},
    [ACL_MEM_MALLOC_HUGE_FIRST_P2P] = {RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P},
    [ACL_MEM_MALLOC_HUGE_ONLY_P2P] = {RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P},
    [ACL_MEM_MALLOC_NORMAL_ONLY_P2P] = {RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P},
    [ACL_MEM_MALLOC_HUGE1G_ONLY] = {RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY},
    [ACL_MEM_MALLOC_HUGE1G_ONLY_P2P] = {RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P},
};

static aclError allocate(void **devPtr, size_t size, size_t extra, aclrtMemMallocPolicy policy)
{
    if (!devPtr || !size || (size_t)policy >= sizeof policies / sizeof *policies)
        return ACL_ERROR_INVALID_PARAM;
    if (size > SIZE_MAX - ALIGN - extra)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    size_t whole = (size + ALIGN - 1) / ALIGN * ALIGN + extra;
    return rtMalloc(devPtr, whole, RT_MEMORY_HBM | policies[policy].type, APP_MODULE_ID);
}

/* The real aclrtMalloc adds 32 bytes to what it rounds, aclrtMallocAlign32 does not. */
aclError aclrtMallocImpl(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return allocate(devPtr, size, ALIGN, policy);
}

aclError aclrtMallocAlign32Impl(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return allocate(devPtr, size, 0, policy);
}

aclError aclrtMallocCachedImpl(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return aclrtMallocImpl(devPtr, size, policy);
}

aclError aclrtMallocWithCfgImpl(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    return cfg ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : aclrtMallocImpl(devPtr, size, policy);
}

aclError aclrtMallocForTaskSchedulerImpl(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                         aclrtMallocConfig *cfg)
{
    return aclrtMallocWithCfgImpl(devPtr, size, policy, cfg);
}

aclError aclrtFreeImpl(void *devPtr)
{
    return devPtr ? rtFree(devPtr) : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtFreeWithDevSyncImpl(void *devPtr)
{
    rtError_t error = rtDeviceSynchronize();
    return error ? error : aclrtFreeImpl(devPtr);
}

aclError aclrtMallocHostImpl(void **hostPtr, size_t size)
{
    return hostPtr && size ? rtMallocHost(hostPtr, size, APP_MODULE_ID) : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtFreeHostImpl(void *hostPtr)
{
    return hostPtr ? rtFreeHost(hostPtr) : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtMallocHostWithCfgImpl(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    return cfg ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : aclrtMallocHostImpl(ptr, size);
}

aclError aclrtFreeHostWithDevSyncImpl(void *hostPtr)
{
    rtError_t error = rtDeviceSynchronize();
    return error ? error : aclrtFreeHostImpl(hostPtr);
}

aclError aclrtHostRegisterV2Impl(void *ptr, uint64_t size, uint32_t flag)
{
    return rtHostRegisterV2(ptr, size, flag);
}

aclError aclrtHostUnregisterImpl(void *ptr)
{
    return rtHostUnregister(ptr);
}

/* The cards have HBM and no DDR of their own. */
aclError aclrtGetMemInfoImpl(aclrtMemAttr attr, size_t *free, size_t *total)
{
    if (!free || !total)
        return ACL_ERROR_INVALID_PARAM;
    switch (attr) {
    case ACL_HBM_MEM:
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_NORMAL:
    case ACL_HBM_MEM_P2P_HUGE:
    case ACL_HBM_MEM_P2P_NORMAL:
    case ACL_HBM_MEM_HUGE1G:
    case ACL_HBM_MEM_P2P_HUGE1G:
        return rtMemGetInfoEx(RT_MEM_INFO_TYPE_HBM_SIZE, free, total);
    default:
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
}

/* The numbers agree but for the fifth, which is something else in the runtime. */
static rtMemcpyKind_t direction(aclrtMemcpyKind kind)
{
    if (kind == ACL_MEMCPY_DEFAULT)
        return RT_MEMCPY_DEFAULT;
    return kind < ACL_MEMCPY_DEFAULT ? (rtMemcpyKind_t)kind : RT_MEMCPY_RESERVED;
}

aclError aclrtMemcpyImpl(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    return rtMemcpy(dst, destMax, src, count, direction(kind));
}

aclError aclrtMemcpyAsyncImpl(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                              aclrtStream stream)
{
    return rtMemcpyAsync(dst, destMax, src, count, direction(kind), stream);
}

aclError aclrtMemsetImpl(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    return rtMemset(devPtr, maxCount, (uint32_t)value, count);
}

aclError aclrtMemsetAsyncImpl(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    return rtMemsetAsync(devPtr, maxCount, (uint32_t)value, count, stream);
}
