/*
 * memory.c - the memory calls of AscendCL, by their own names and by those that the header acl/acl.h of mssanitizer turns
 * them into. An allocation is recorded after the call, a free before it, as in hal.c.
 */
#include "record.h"

typedef int policy; /* aclrtMemMallocPolicy, an enum */

typedef aclError malloc_fn(void **, size_t, policy);
typedef aclError malloc_with_fn(void **, size_t, policy, void *);
typedef aclError free_fn(void *);

/* Device memory without and with a configuration; each of the two names in a pair. */
#define DEVICE_MEMORY(rest)                                                                                     \
    MS_EXPORT aclError sanitizerRt##rest(void **block, size_t size, policy policy, const char *file, int line); \
    MS_EXPORT aclError sanitizerRt##rest(void **block, size_t size, policy policy, const char *file, int line)  \
    {                                                                                                           \
        static void *slot;                                                                                      \
        malloc_fn *real = (malloc_fn *)behind(&slot, "aclrt" #rest);                                            \
        if (!real)                                                                                              \
            return ACL_ERROR_INTERNAL_ERROR;                                                                    \
        aclError result = real(block, size, policy);                                                            \
        return put_block(result, result == ACL_SUCCESS ? *block : NULL, size, ON_CURRENT, 0, file, line);       \
    }                                                                                                           \
    MS_EXPORT aclError aclrt##rest(void **block, size_t size, policy policy);                                   \
    MS_EXPORT aclError aclrt##rest(void **block, size_t size, policy policy)                                    \
    {                                                                                                           \
        return sanitizerRt##rest(block, size, policy, NULL, 0);                                                 \
    }

#define DEVICE_MEMORY_WITH(rest)                                                                                \
    MS_EXPORT aclError sanitizerRt##rest(void **block, size_t size, policy policy, void *cfg, const char *file, \
                                         int line);                                                             \
    MS_EXPORT aclError sanitizerRt##rest(void **block, size_t size, policy policy, void *cfg, const char *file, \
                                         int line)                                                              \
    {                                                                                                           \
        static void *slot;                                                                                      \
        malloc_with_fn *real = (malloc_with_fn *)behind(&slot, "aclrt" #rest);                                  \
        if (!real)                                                                                              \
            return ACL_ERROR_INTERNAL_ERROR;                                                                    \
        aclError result = real(block, size, policy, cfg);                                                       \
        return put_block(result, result == ACL_SUCCESS ? *block : NULL, size, ON_CURRENT, 0, file, line);       \
    }                                                                                                           \
    MS_EXPORT aclError aclrt##rest(void **block, size_t size, policy policy, void *cfg);                        \
    MS_EXPORT aclError aclrt##rest(void **block, size_t size, policy policy, void *cfg)                         \
    {                                                                                                           \
        return sanitizerRt##rest(block, size, policy, cfg, NULL, 0);                                            \
    }

DEVICE_MEMORY(Malloc)
DEVICE_MEMORY(MallocCached)
DEVICE_MEMORY(MallocAlign32)
DEVICE_MEMORY_WITH(MallocWithCfg)
DEVICE_MEMORY_WITH(MallocForTaskScheduler)

MS_EXPORT aclError sanitizerRtMallocHost(void **block, size_t size, const char *file, int line);
MS_EXPORT aclError sanitizerRtMallocHost(void **block, size_t size, const char *file, int line)
{
    static void *slot;
    aclError (*real)(void **, size_t) = behind(&slot, "aclrtMallocHost");
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real(block, size);
    return put_block(result, result == ACL_SUCCESS ? *block : NULL, size, ON_HOST, 0, file, line);
}

MS_EXPORT aclError aclrtMallocHost(void **block, size_t size);
MS_EXPORT aclError aclrtMallocHost(void **block, size_t size)
{
    return sanitizerRtMallocHost(block, size, NULL, 0);
}

MS_EXPORT aclError sanitizerRtMallocHostWithCfg(void **block, uint64_t size, void *cfg, const char *file, int line);
MS_EXPORT aclError sanitizerRtMallocHostWithCfg(void **block, uint64_t size, void *cfg, const char *file, int line)
{
    static void *slot;
    aclError (*real)(void **, uint64_t, void *) = behind(&slot, "aclrtMallocHostWithCfg");
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    aclError result = real(block, size, cfg);
    return put_block(result, result == ACL_SUCCESS ? *block : NULL, size, ON_HOST, 0, file, line);
}

MS_EXPORT aclError aclrtMallocHostWithCfg(void **block, uint64_t size, void *cfg);
MS_EXPORT aclError aclrtMallocHostWithCfg(void **block, uint64_t size, void *cfg)
{
    return sanitizerRtMallocHostWithCfg(block, size, cfg, NULL, 0);
}

static aclError free_block(void **slot, const char *name, void *block)
{
    free_fn *real = (free_fn *)behind(slot, name);
    if (!real)
        return ACL_ERROR_INTERNAL_ERROR;
    bool recorded = put_free(MS_FREE, block);
    aclError result = real(block);
    if (result != ACL_SUCCESS && recorded)
        put_free(MS_UNDO, block);
    return result;
}

#define GIVES_BACK(name)                        \
    MS_EXPORT aclError name(void *block);       \
    MS_EXPORT aclError name(void *block)        \
    {                                           \
        static void *slot;                      \
        return free_block(&slot, #name, block); \
    }

GIVES_BACK(aclrtFree)
GIVES_BACK(aclrtFreeHost)
GIVES_BACK(aclrtFreeWithDevSync)
GIVES_BACK(aclrtFreeHostWithDevSync)
GIVES_BACK(aclrtFreePhysical)
