/*
 * mapping.c - physical memory and where it is mapped, of AscendCL and of the driver. Released physical memory lives on
 * until the last mapping is gone; addresses that are only reserved are no memory.
 *
 * Both ends of a mapping are recorded after the call: the program chooses the address, so nobody else gets it in between.
 */
#include "record.h"

/* aclrtPhysicalMemProp: after three enums of 32 bits the card, and what kind of place that is. */
struct physical_prop {
    uint32_t kinds[3];
    uint32_t id;
    uint32_t location; /* 0 host, 1 device */
};

MS_EXPORT aclError sanitizerRtMallocPhysical(void **handle, size_t size, const struct physical_prop *prop,
                                             uint64_t flags, const char *file, int line);
MS_EXPORT aclError sanitizerRtMallocPhysical(void **handle, size_t size, const struct physical_prop *prop,
                                             uint64_t flags, const char *file, int line)
{
    static void *slot;
    aclError (*real)(void **, size_t, const struct physical_prop *, uint64_t) = behind(&slot, "aclrtMallocPhysical");
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real(handle, size, prop, flags);
    if (result != ACL_SUCCESS)
        return result;
    int card = prop->location == 0 ? ON_HOST : (int)prop->id;
    return put_block(result, *handle, size, card, MS_F_CREATE, file, line);
}

MS_EXPORT aclError aclrtMallocPhysical(void **handle, size_t size, const struct physical_prop *prop, uint64_t flags);
MS_EXPORT aclError aclrtMallocPhysical(void **handle, size_t size, const struct physical_prop *prop, uint64_t flags)
{
    return sanitizerRtMallocPhysical(handle, size, prop, flags, NULL, 0);
}

static int map(void **slot, const char *name, enum ms_interest interest, void *address, size_t size, size_t offset,
               void *handle, uint64_t flags, int missing)
{
    int (*real)(void *, size_t, size_t, void *, uint64_t) = behind(slot, name);
    if (!real)
        return missing;
    int result = real(address, size, offset, handle, flags);
    if (result == 0)
        put_map(interest, MS_MAP, address, handle);
    return result;
}

static int unmap(void **slot, const char *name, enum ms_interest interest, void *address, int missing)
{
    int (*real)(void *) = behind(slot, name);
    if (!real)
        return missing;
    int result = real(address);
    if (result == 0)
        put_map(interest, MS_UNMAP, address, NULL);
    return result;
}

MS_EXPORT aclError aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags);
MS_EXPORT aclError aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags)
{
    static void *slot;
    return map(&slot, "aclrtMapMem", MS_CANN_HEAP, address, size, offset, handle, flags, ACL_ERROR_INTERNAL_ERROR);
}

MS_EXPORT aclError aclrtUnmapMem(void *address);
MS_EXPORT aclError aclrtUnmapMem(void *address)
{
    static void *slot;
    return unmap(&slot, "aclrtUnmapMem", MS_CANN_HEAP, address, ACL_ERROR_INTERNAL_ERROR);
}

enum { DRV_ERROR_NOT_SUPPORT = 0xfffe };

MS_EXPORT int halMemMap(void *address, size_t size, size_t offset, void *handle, uint64_t flags);
MS_EXPORT int halMemMap(void *address, size_t size, size_t offset, void *handle, uint64_t flags)
{
    static void *slot;
    return map(&slot, "halMemMap", MS_DEVICE_HEAP, address, size, offset, handle, flags, DRV_ERROR_NOT_SUPPORT);
}

MS_EXPORT int halMemUnmap(void *address);
MS_EXPORT int halMemUnmap(void *address)
{
    static void *slot;
    return unmap(&slot, "halMemUnmap", MS_DEVICE_HEAP, address, DRV_ERROR_NOT_SUPPORT);
}
