/* memory.c - memory of the runtime. The driver is always called by its public names, so that those can be interposed. */
#include "runtime.h"

enum {
    ALIGN_EXPONENT = 9,         /* the 512 bytes that the real runtime asks for */
    HUGE_FIRST_ABOVE = 1 << 20, /* bytes */
    GRANULE = 2 << 20,          /* bytes, of reserved addresses */
};

#define POLICY_MASK 0x3FC00U

static unsigned long long device_flag(uint32_t card, uint16_t module)
{
    return card | MEM_DEV | MEM_TYPE_HBM | (unsigned long long)ALIGN_EXPONENT << MEM_ALIGN_BIT |
           (unsigned long long)module << MEM_MODULE_ID_BIT;
}

VNPU_API rtError_t rtMalloc(void **devPtr, uint64_t size, rtMemType_t type, const uint16_t moduleId)
{
    if (!devPtr || !size)
        return ACL_ERROR_RT_PARAM_INVALID;
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    unsigned long long flag = device_flag(card, moduleId);
    switch (type & POLICY_MASK) {
    case RT_MEMORY_POLICY_HUGE_PAGE_ONLY:
    case RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P:
        flag |= MEM_PAGE_HUGE;
        break;
    case RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY:
    case RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P:
        flag |= MEM_PAGE_GIANT;
        break;
    case RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY:
    case RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P:
        break;
    default:
        if (size > HUGE_FIRST_ABOVE) {
            drvError_t huge = halMemAlloc(devPtr, size, flag | MEM_PAGE_HUGE);
            if (huge != DRV_ERROR_OUT_OF_MEMORY)
                return rt_error(huge);
        }
    }
    return rt_error(halMemAlloc(devPtr, size, flag));
}

VNPU_API rtError_t rtFree(void *devPtr)
{
    return devPtr ? rt_error(halMemFree(devPtr)) : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtMallocHost(void **hostPtr, uint64_t size, const uint16_t moduleId)
{
    if (!hostPtr || !size)
        return ACL_ERROR_RT_PARAM_INVALID;
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    return rt_error(halMemAlloc(hostPtr, size, card | MEM_HOST | (unsigned long long)moduleId << MEM_MODULE_ID_BIT));
}

VNPU_API rtError_t rtFreeHost(void *hostPtr)
{
    return hostPtr ? rt_error(halMemFree(hostPtr)) : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtMemGetInfoEx(rtMemInfoType_t memInfoType, size_t *freeSize, size_t *totalSize)
{
    if (!freeSize || !totalSize)
        return ACL_ERROR_RT_PARAM_INVALID;
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    struct MemInfo info;
    error = rt_error(halMemGetInfo(card, memInfoType, &info));
    if (!error) {
        *freeSize = info.phy_info.free;
        *totalSize = info.phy_info.total;
    }
    return error;
}

static bool on_device(const void *address)
{
    struct DVattribute attr;
    return drvMemGetAttribute((uintptr_t)address, &attr) == DRV_ERROR_NONE && attr.memType == DV_MEM_LOCK_DEV;
}

VNPU_API rtError_t rtMemcpy(void *dst, uint64_t destMax, const void *src, uint64_t cnt, rtMemcpyKind_t kind)
{
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    if (!dst || !src || !cnt)
        return ACL_ERROR_RT_PARAM_INVALID;
    bool to, from;
    switch (kind) {
    case RT_MEMCPY_HOST_TO_HOST:
        to = from = false;
        break;
    case RT_MEMCPY_HOST_TO_DEVICE:
        to = true, from = false;
        break;
    case RT_MEMCPY_DEVICE_TO_HOST:
        to = false, from = true;
        break;
    case RT_MEMCPY_DEVICE_TO_DEVICE:
        to = from = true;
        break;
    case RT_MEMCPY_DEFAULT:
        return rt_error(drvMemcpy((uintptr_t)dst, destMax, (uintptr_t)src, cnt));
    default:
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (on_device(dst) != to || on_device(src) != from)
        return ACL_ERROR_RT_PARAM_INVALID;
    return rt_error(drvMemcpy((uintptr_t)dst, destMax, (uintptr_t)src, cnt));
}

VNPU_API rtError_t rtMemcpyAsync(void *dst, uint64_t destMax, const void *src, uint64_t cnt, rtMemcpyKind_t kind,
                                 rtStream_t stm)
{
    rtError_t error = check_stream(stm);
    return error ? error : rtMemcpy(dst, destMax, src, cnt, kind);
}

VNPU_API rtError_t rtMemset(void *devPtr, uint64_t destMax, uint32_t val, uint64_t cnt)
{
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    if (!devPtr || !cnt)
        return ACL_ERROR_RT_PARAM_INVALID;
    return rt_error(drvMemsetD8((uintptr_t)devPtr, destMax, (uint8_t)val, cnt));
}

VNPU_API rtError_t rtMemsetAsync(void *devPtr, uint64_t destMax, uint32_t val, uint64_t cnt, rtStream_t stm)
{
    rtError_t error = check_stream(stm);
    return error ? error : rtMemset(devPtr, destMax, val, cnt);
}

/* ------------------------------------------------------------------ virtual memory */

/* Programs ask for a few bytes to learn whether there is virtual memory: the runtime reserves whole granules for them. */
VNPU_API rtError_t rtReserveMemAddress(void **devPtr, size_t size, size_t alignment, void *devAddr, uint64_t flags)
{
    if (size > SIZE_MAX - GRANULE)
        return ACL_ERROR_RT_PARAM_INVALID;
    return rt_error(halMemAddressReserve(devPtr, (size + GRANULE - 1) / GRANULE * GRANULE, alignment, devAddr, flags));
}

VNPU_API rtError_t rtReleaseMemAddress(void *devPtr)
{
    return rt_error(halMemAddressFree(devPtr));
}

/* The card of a device number is the process's business, so it is translated here, as for rtMalloc. */
VNPU_API rtError_t rtMallocPhysical(rtDrvMemHandle *handle, size_t size, rtDrvMemProp_t *prop, uint64_t flags)
{
    if (!handle || !prop)
        return ACL_ERROR_RT_PARAM_INVALID;
    struct drv_mem_prop driver = {prop->side,    prop->devid,    prop->module_id,
                                  prop->pg_type, prop->mem_type, prop->reserve};
    if (prop->side == MEM_DEV_SIDE) {
        rtError_t error = card_of((int32_t)prop->devid, &driver.devid);
        if (error)
            return error;
    }
    return rt_error(halMemCreate((drv_mem_handle_t **)handle, size, &driver, flags));
}

VNPU_API rtError_t rtFreePhysical(rtDrvMemHandle handle)
{
    return rt_error(halMemRelease(handle));
}

VNPU_API rtError_t rtMapMem(void *devPtr, size_t size, size_t offset, rtDrvMemHandle handle, uint64_t flags)
{
    return rt_error(halMemMap(devPtr, size, offset, handle, flags));
}

VNPU_API rtError_t rtUnmapMem(void *devPtr)
{
    return rt_error(halMemUnmap(devPtr));
}
