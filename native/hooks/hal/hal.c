/*
 * hal.c - the driver's memory calls. Prototypes, flag bits and error codes: abi.md 1.1, 2.1, 2.3.
 *
 * A MALLOC is recorded after the real call, a FREE before it: once the driver has taken an address back, another thread
 * may be given it at once, and its MALLOC must not overtake our FREE. If the driver then refuses, UNDO says so.
 */
#include "agent.h"

typedef int drvError_t;
struct drv_mem_handle;

struct drv_mem_prop {
    uint32_t side; /* enum side */
    uint32_t devid;
    uint32_t module_id;
    uint32_t pg_type; /* 0 normal, 1 huge, 2 giant */
    uint32_t mem_type;
    uint64_t reserve;
};

enum { DRV_ERROR_NONE = 0, DRV_ERROR_OUT_OF_MEMORY = 6, DRV_ERROR_NOT_SUPPORT = 0xfffe, DRV_ERROR_RESERVED = 0xffff };
enum side { SIDE_HOST = 0, SIDE_DEVICE = 1, SIDE_HOST_NUMA = 2 };
enum { FLAG_DEVICE_MASK = 0x3ff, FLAG_SPACE_SHIFT = 10, FLAG_SPACE_MASK = 0xf, FLAG_SPACE_HOST = 2 };

static const char library[] = "libascend_hal.so";

static void put_alloc(const void *block, uint64_t size, uint16_t device, uint64_t detail, uint8_t flags)
{
    if (ms_enter(MS_MEMORY) == MS_SKIP)
        return;
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HAL, device, sizeof *r);
    if (r) {
        r->h.flags |= flags;
        r->addr = (uint64_t)block;
        r->size = size;
        r->detail = detail;
        ms_publish(&r->h);
    }
    ms_leave();
}

static void put_oom(uint64_t size, uint64_t flag, uint16_t device, uint32_t create, drvError_t result)
{
    enum ms_mode mode = ms_enter(MS_MEMORY);
    if (mode == MS_SKIP)
        return;
    struct ms_oom *r = mode == MS_NORMAL ? ms_reserve(MS_OOM, MS_HAL, device, sizeof *r) : NULL;
    if (r) {
        r->size = size;
        r->flag = flag;
        r->create = create;
        r->result = result;
        ms_publish(&r->h);
    }
    ms_leave();
}

/* Returns whether there is something to undo. The card is not known here; the collector knows the block. */
static bool put_free(enum ms_type type, const void *block)
{
    if (!block || ms_enter(MS_MEMORY) == MS_SKIP)
        return false;
    struct ms_free *r = ms_reserve(type, MS_HAL, MS_DEVICE_NONE, sizeof *r);
    if (r) {
        r->addr = (uint64_t)block;
        ms_publish(&r->h);
    }
    ms_leave();
    return r != NULL;
}

MS_EXPORT drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag)
{
    static void *slot;
    drvError_t (*real)(void **, unsigned long long, unsigned long long) =
        ms_real(&slot, (void *)halMemAlloc, "halMemAllocInner", "halMemAlloc", library);
    if (!real)
        return DRV_ERROR_NOT_SUPPORT;
    drvError_t result = real(pp, size, flag);
    bool host = (flag >> FLAG_SPACE_SHIFT & FLAG_SPACE_MASK) == FLAG_SPACE_HOST;
    uint16_t device = host ? MS_DEVICE_CPU : (uint16_t)(flag & FLAG_DEVICE_MASK);
    if (result == DRV_ERROR_NONE)
        put_alloc(*pp, size, device, flag, 0);
    else if (result == DRV_ERROR_OUT_OF_MEMORY)
        put_oom(size, flag, device, 0, result);
    return result;
}

MS_EXPORT drvError_t halMemFree(void *pp)
{
    static void *slot;
    drvError_t (*real)(void *) = ms_real(&slot, (void *)halMemFree, "halMemFreeInner", "halMemFree", library);
    if (!real)
        return DRV_ERROR_NOT_SUPPORT;
    bool recorded = put_free(MS_FREE, pp);
    drvError_t result = real(pp);
    if (result != DRV_ERROR_NONE && recorded)
        put_free(MS_UNDO, pp);
    return result;
}

MS_EXPORT drvError_t halMemCreate(struct drv_mem_handle **handle, size_t size, const struct drv_mem_prop *prop,
                                  uint64_t flag)
{
    static void *slot;
    drvError_t (*real)(struct drv_mem_handle **, size_t, const struct drv_mem_prop *, uint64_t) =
        ms_real(&slot, (void *)halMemCreate, "halMemCreateInner", "halMemCreate", library);
    if (!real)
        return DRV_ERROR_RESERVED;
    drvError_t result = real(handle, size, prop, flag);
    if ((result == DRV_ERROR_NONE || result == DRV_ERROR_OUT_OF_MEMORY) && prop) {
        uint16_t device = MS_DEVICE_NONE;
        if (prop->side == SIDE_HOST || prop->side == SIDE_HOST_NUMA)
            device = MS_DEVICE_CPU;
        else if (prop->devid <= FLAG_DEVICE_MASK)
            device = (uint16_t)prop->devid;
        if (result == DRV_ERROR_OUT_OF_MEMORY) {
            put_oom(size, flag, device, 1, result);
            return result;
        }
        put_alloc(*handle, size, device,
                  (prop->pg_type & 0xff) | (uint64_t)prop->module_id << 8 | (uint64_t)prop->side << 40, MS_F_CREATE);
    }
    return result;
}

MS_EXPORT drvError_t halMemRelease(struct drv_mem_handle *handle)
{
    static void *slot;
    drvError_t (*real)(struct drv_mem_handle *) =
        ms_real(&slot, (void *)halMemRelease, "halMemReleaseInner", "halMemRelease", library);
    if (!real)
        return DRV_ERROR_RESERVED;
    bool recorded = put_free(MS_FREE, handle);
    drvError_t result = real(handle);
    if (result != DRV_ERROR_NONE && recorded)
        put_free(MS_UNDO, handle);
    return result;
}

/*
 * Host memory that a program pins itself. The registration is recorded like an allocation of host memory by the driver, of
 * which it has the flag word.
 */
typedef int aclError;

enum { ACL_SUCCESS = 0, ACL_ERROR_INTERNAL_ERROR = 500000, ACL_HOST_REG_PINNED = 0x10000000 };

static const char acl_library[] = "libascendcl.so";

MS_EXPORT aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    static void *slot;
    aclError (*real)(void *, uint64_t, uint32_t) =
        ms_real(&slot, (void *)aclrtHostRegisterV2, NULL, "aclrtHostRegisterV2", acl_library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real(ptr, size, flag);
    if (result == ACL_SUCCESS && flag & ACL_HOST_REG_PINNED)
        put_alloc(ptr, size, MS_DEVICE_CPU, (uint64_t)FLAG_SPACE_HOST << FLAG_SPACE_SHIFT, 0);
    return result;
}

/* Recorded for every address; the collector knows which of them were pinned. */
MS_EXPORT aclError aclrtHostUnregister(void *ptr)
{
    static void *slot;
    aclError (*real)(void *) = ms_real(&slot, (void *)aclrtHostUnregister, NULL, "aclrtHostUnregister", acl_library);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    bool recorded = put_free(MS_FREE, ptr);
    aclError result = real(ptr);
    if (result != ACL_SUCCESS && recorded)
        put_free(MS_UNDO, ptr);
    return result;
}
