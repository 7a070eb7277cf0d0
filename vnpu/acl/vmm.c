/* vmm.c - reserved addresses, physical memory, mappings. */
#include "impl.h"

#include "ascend_hal.h"

aclError aclrtReserveMemAddressImpl(void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags)
{
    return rtReserveMemAddress(virPtr, size, alignment, expectPtr, flags);
}

aclError aclrtReleaseMemAddressImpl(void *virPtr)
{
    return rtReleaseMemAddress(virPtr);
}

static const rtDrvMemProp_t attributes[] = {
    [ACL_DDR_MEM_HUGE] = {.pg_type = MEM_HUGE_PAGE_TYPE, .mem_type = MEM_DDR_TYPE},
    [ACL_DDR_MEM_NORMAL] = {.pg_type = MEM_NORMAL_PAGE_TYPE, .mem_type = MEM_DDR_TYPE},
    [ACL_HBM_MEM_HUGE] = {.pg_type = MEM_HUGE_PAGE_TYPE, .mem_type = MEM_HBM_TYPE},
    [ACL_HBM_MEM_NORMAL] = {.pg_type = MEM_NORMAL_PAGE_TYPE, .mem_type = MEM_HBM_TYPE},
    [ACL_HBM_MEM_P2P_HUGE] = {.pg_type = MEM_HUGE_PAGE_TYPE, .mem_type = 2},
    [ACL_HBM_MEM_P2P_NORMAL] = {.pg_type = MEM_NORMAL_PAGE_TYPE, .mem_type = 2},
    [ACL_HBM_MEM_HUGE1G] = {.pg_type = MEM_GIANT_PAGE_TYPE, .mem_type = MEM_HBM_TYPE},
    [ACL_HBM_MEM_P2P_HUGE1G] = {.pg_type = MEM_GIANT_PAGE_TYPE, .mem_type = 2},
};

aclError aclrtMallocPhysicalImpl(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop,
                                 uint64_t flags)
{
    if (!handle || !size || !prop || prop->handleType != ACL_MEM_HANDLE_TYPE_NONE ||
        prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED || prop->memAttr < ACL_DDR_MEM_HUGE ||
        prop->memAttr > ACL_HBM_MEM_P2P_HUGE1G || prop->location.type > ACL_MEM_LOCATION_TYPE_DEVICE)
        return ACL_ERROR_INVALID_PARAM;
    rtDrvMemProp_t runtime = attributes[prop->memAttr];
    runtime.side = prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE ? MEM_DEV_SIDE : MEM_HOST_SIDE;
    runtime.devid = prop->location.id;
    runtime.module_id = APP_MODULE_ID;
    return rtMallocPhysical(handle, size, &runtime, flags);
}

aclError aclrtFreePhysicalImpl(aclrtDrvMemHandle handle)
{
    return rtFreePhysical(handle);
}

aclError aclrtMapMemImpl(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    return rtMapMem(virPtr, size, offset, handle, flags);
}

aclError aclrtUnmapMemImpl(void *virPtr)
{
    return rtUnmapMem(virPtr);
}

/* Between processes there are no handles of ours. */
aclError aclrtMemExportToShareableHandleImpl(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
                                             uint64_t *shareableHandle)
{
    (void)handle, (void)handleType, (void)flags, (void)shareableHandle;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError aclrtMemImportFromShareableHandleImpl(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle)
{
    (void)shareableHandle, (void)deviceId, (void)handle;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError aclrtMemSetPidToShareableHandleImpl(uint64_t shareableHandle, int32_t *pid, size_t pidNum)
{
    (void)shareableHandle, (void)pid, (void)pidNum;
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
