/* memory.c - halMemAlloc and halMemFree, copies, attributes, capacity. */
#include <string.h>

#include "../common/export.h"
#include "arena.h"
#include "ascend_hal.h"
#include "card.h"
#include "config.h"
#include "vmm.h"

/* The public names are there to be interposed (abi.md 1.1); the work is done under the Inner ones. */
VNPU_API drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag)
{
    return halMemAllocInner(pp, size, flag);
}

VNPU_API drvError_t halMemFree(void *pp)
{
    return halMemFreeInner(pp);
}

static enum page page_of_flag(unsigned long long flag)
{
    if (flag & MEM_PAGE_GIANT)
        return PAGE_GIANT;
    return flag & MEM_PAGE_HUGE ? PAGE_HUGE : PAGE_NORMAL;
}

VNPU_API drvError_t halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    int injected = config_fail_alloc(cfg);
    if (injected)
        return (drvError_t)injected;
    if (!pp || !size)
        return DRV_ERROR_INVALID_VALUE;

    uint32_t device = (uint32_t)(flag & MEM_DEVID_MASK);
    enum page page = page_of_flag(flag);
    bool host = false;
    switch ((flag & MEM_VIRT_MASK) >> MEM_VIRT_BIT) {
    case MEM_SVM_VAL:
    case MEM_DEV_VAL:
    case MEM_DVPP_VAL:
        if (device >= cfg->devices)
            return DRV_ERROR_INVALID_DEVICE;
        break;
    case MEM_HOST_VAL:
    case MEM_HOST_UVA_VAL:
        host = true;
        page = PAGE_NORMAL;
        break;
    default:
        return DRV_ERROR_NOT_SUPPORT;
    }
    /* Blocks are aligned to their page, which is as far as an alignment may go. */
    if ((flag >> MEM_ALIGN_BIT & 0x1F) > (unsigned)__builtin_ctzll(page_bytes(page)))
        return DRV_ERROR_INVALID_VALUE;
    uint64_t whole = page_round(page, size);
    if (!whole)
        return DRV_ERROR_OUT_OF_MEMORY;

    if (!host && !card_take(cfg, device, whole))
        return DRV_ERROR_OUT_OF_MEMORY;
    void *address = arena_alloc(arena_of(host ? HOST_DEVICE : (int32_t)device, page), size);
    if (!address) {
        if (!host)
            card_give(device, whole);
        return DRV_ERROR_OUT_OF_MEMORY;
    }
    *pp = address;
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t halMemFreeInner(void *pp)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    int injected = config_fail_free(cfg);
    if (injected)
        return (drvError_t)injected;
    struct block_info was;
    if (!arena_free(pp, &was))
        return DRV_ERROR_INVALID_VALUE;
    if (was.device != HOST_DEVICE)
        card_give((uint32_t)was.device, page_round(was.page, was.bytes));
    return DRV_ERROR_NONE;
}

/* Whether `bytes` from `address` may be touched: inside one live block or one mapping of ours, or no memory of ours. */
static bool touchable(const void *address, size_t bytes)
{
    struct block_info info;
    enum found found = arena_find(address, &info);
    if (found == NOT_OURS)
        found = vmm_find(address, &info);
    if (found == LIVE_BLOCK)
        return bytes <= info.bytes - (size_t)((const char *)address - info.start);
    return found == NOT_OURS && address;
}

VNPU_API drvError_t drvMemcpy(DVdeviceptr dst, size_t destMax, DVdeviceptr src, size_t byteCount)
{
    void *to = (void *)(uintptr_t)dst;
    const void *from = (const void *)(uintptr_t)src;
    if (!config())
        return DRV_ERROR_UNINIT;
    if (byteCount > destMax || !touchable(to, byteCount) || !touchable(from, byteCount))
        return DRV_ERROR_INVALID_VALUE;
    memmove(to, from, byteCount); /* real copies of overlapping ranges are undefined; ours are merely right */
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t drvMemsetD8(DVdeviceptr dst, size_t destMax, uint8_t value, size_t num)
{
    void *to = (void *)(uintptr_t)dst;
    if (!config())
        return DRV_ERROR_UNINIT;
    if (num > destMax || !touchable(to, num))
        return DRV_ERROR_INVALID_VALUE;
    memset(to, value, num);
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t drvMemGetAttribute(DVdeviceptr vptr, struct DVattribute *attr)
{
    const void *address = (const void *)(uintptr_t)vptr;
    if (!config())
        return DRV_ERROR_UNINIT;
    if (!attr || !address)
        return DRV_ERROR_INVALID_VALUE;
    struct block_info info;
    enum found found = arena_find(address, &info);
    if (found == NOT_OURS)
        found = vmm_find(address, &info);
    memset(attr, 0, sizeof *attr);
    switch (found) {
    case NO_BLOCK:
        return DRV_ERROR_INVALID_VALUE;
    case NOT_OURS:
        attr->memType = DV_MEM_USER_MALLOC;
        break;
    case LIVE_BLOCK:
        attr->memType = info.device == HOST_DEVICE ? DV_MEM_LOCK_HOST : DV_MEM_LOCK_DEV;
        attr->devId = info.device == HOST_DEVICE ? 0 : (uint32_t)info.device;
        attr->pageSize = (uint32_t)page_bytes(info.page);
        break;
    }
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t halMemGetInfo(DVdevice device, unsigned int type, struct MemInfo *info)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    if (!info)
        return DRV_ERROR_INVALID_VALUE;
    if (device >= cfg->devices)
        return DRV_ERROR_INVALID_DEVICE;
    if (type != MEM_INFO_TYPE_HBM_SIZE)
        return DRV_ERROR_NOT_SUPPORT;
    memset(info, 0, sizeof *info);
    struct MemPhyInfo *phy = &info->phy_info;
    phy->total = phy->huge_total = phy->giant_total = cfg->hbm_bytes;
    phy->free = phy->huge_free = phy->giant_free = cfg->hbm_bytes - card_used(device);
    return DRV_ERROR_NONE;
}
