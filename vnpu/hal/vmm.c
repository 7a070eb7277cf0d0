/*
 * vmm.c - virtual-memory calls.
 *
 * The physical memory of a device is one sparse memory file; a handle is an extent of it, a mapping a shared mmap, so
 * that two mappings of a handle show the same bytes. Offsets are never used twice: a file may be 8 EiB long, and a
 * released extent is punched out.
 */
#define _GNU_SOURCE
#include "vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/export.h"
#include "../common/slab.h"
#include "ascend_hal.h"
#include "card.h"
#include "config.h"
#include "va.h"

#define GRANULE (2ULL << 20) /* of sizes and addresses, for every page type, as in the real driver */
#define PAGE_TYPE_MASK 0xFFULL

struct drv_mem_handle {
    uint64_t bytes;
    uint64_t offset; /* in the memory file of its device */
    int32_t device;  /* or HOST_DEVICE */
    enum page page;
    uint32_t mappings;
    bool released; /* by the user, but still mapped somewhere */
};

struct mapping {
    drv_mem_handle_t *handle; /* NULL: nothing is mapped in this granule */
    char *start;
};

struct reservation {
    struct reservation *next;
    char *start;
    uint64_t bytes;
    struct mapping *granules; /* lazily mapped */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* everything below */
static struct slab handles = {.slot_bytes = sizeof(struct drv_mem_handle)};
static struct reservation *reservations;
static struct {
    int fd; /* file descriptor + 1, so that 0 is "not yet" */
    uint64_t end;
} files[MAX_DEVICES + 1]; /* the last one is the host's */

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release);
}

static size_t file_of(int32_t device)
{
    return device == HOST_DEVICE ? MAX_DEVICES : (size_t)device;
}

/* Room for `bytes` at the end of the memory file; false when the kernel refuses. */
static bool extend(int32_t device, uint64_t bytes, uint64_t *offset)
{
    size_t f = file_of(device);
    if (!files[f].fd) {
        long fd = syscall(SYS_memfd_create, "vnpu", 1 /* MFD_CLOEXEC */);
        if (fd < 0)
            return false;
        files[f].fd = (int)fd + 1;
    }
    if (ftruncate(files[f].fd - 1, (off_t)(files[f].end + bytes)))
        return false;
    *offset = files[f].end;
    files[f].end += bytes;
    return true;
}

VNPU_API drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop, uint64_t flag)
{
    return halMemCreateInner(handle, size, prop, flag);
}

VNPU_API drvError_t halMemRelease(drv_mem_handle_t *handle)
{
    return halMemReleaseInner(handle);
}

VNPU_API drvError_t halMemCreateInner(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop,
                                      uint64_t flag)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    int injected = config_fail_alloc(cfg);
    if (injected)
        return (drvError_t)injected;
    if (!handle || !prop || flag || !size || size % GRANULE || prop->side > MEM_HOST_NUMA_SIDE ||
        prop->pg_type > MEM_GIANT_PAGE_TYPE)
        return DRV_ERROR_INVALID_VALUE;
    bool host = prop->side != MEM_DEV_SIDE;
    if (!host && prop->devid >= cfg->devices)
        return DRV_ERROR_INVALID_DEVICE;
    enum page page = (enum page)prop->pg_type;
    if (size % page_bytes(page))
        return DRV_ERROR_INVALID_VALUE;

    if (!host && !card_take(cfg, prop->devid, size))
        return DRV_ERROR_OUT_OF_MEMORY;
    int32_t device = host ? HOST_DEVICE : (int32_t)prop->devid;
    acquire();
    drv_mem_handle_t *made = slab_new(&handles);
    if (made && !extend(device, size, &made->offset)) {
        slab_end(&handles, made);
        made = NULL;
    }
    if (made) {
        made->bytes = size;
        made->device = device;
        made->page = page;
        *handle = made;
    }
    release();
    if (!made && !host)
        card_give(prop->devid, size);
    return made ? DRV_ERROR_NONE : DRV_ERROR_OUT_OF_MEMORY;
}

/* The user and all mappings have let go: the memory goes back. Called with the lock held. */
static void drop(drv_mem_handle_t *handle)
{
    fallocate(files[file_of(handle->device)].fd - 1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle->offset,
              (off_t)handle->bytes);
    if (handle->device != HOST_DEVICE)
        card_give((uint32_t)handle->device, handle->bytes);
    slab_end(&handles, handle);
}

static bool usable(const drv_mem_handle_t *handle)
{
    return slab_live(&handles, handle) && !handle->released;
}

VNPU_API drvError_t halMemReleaseInner(drv_mem_handle_t *handle)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    int injected = config_fail_free(cfg);
    if (injected)
        return (drvError_t)injected;
    acquire();
    bool good = usable(handle);
    if (good && handle->mappings)
        handle->released = true;
    else if (good)
        drop(handle);
    release();
    return good ? DRV_ERROR_NONE : DRV_ERROR_INVALID_HANDLE;
}

VNPU_API drvError_t halMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr, uint64_t flag)
{
    if (!config())
        return DRV_ERROR_UNINIT;
    if (!ptr || !size || size % GRANULE || alignment || (uintptr_t)addr % GRANULE ||
        (flag & PAGE_TYPE_MASK) > MEM_GIANT_PAGE_TYPE)
        return DRV_ERROR_INVALID_VALUE;
    size_t align = (flag & PAGE_TYPE_MASK) == MEM_GIANT_PAGE_TYPE ? page_bytes(PAGE_GIANT) : GRANULE;
    uint64_t table = size / GRANULE * sizeof(struct mapping);

    struct reservation *r = calloc(1, sizeof *r);
    char *granules = va_map(0, table, 8, PROT_READ | PROT_WRITE);
    char *start = va_map(addr ? (uintptr_t)addr : VA_RESERVED, size, align, PROT_NONE);
    if (!r || !granules || !start) {
        free(r);
        if (granules)
            munmap(granules, table);
        if (start)
            munmap(start, size);
        return DRV_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct reservation){.start = start, .bytes = size, .granules = (struct mapping *)granules};
    acquire();
    r->next = reservations;
    reservations = r;
    release();
    *ptr = start;
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t halMemAddressFree(void *ptr)
{
    if (!config())
        return DRV_ERROR_UNINIT;
    drvError_t error = DRV_ERROR_INVALID_VALUE;
    acquire();
    for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
        struct reservation *r = *link;
        if (r->start != ptr)
            continue;
        uint64_t count = r->bytes / GRANULE, mapped = 0;
        while (mapped < count && !r->granules[mapped].handle)
            mapped++;
        error = mapped < count ? DRV_ERROR_BUSY : DRV_ERROR_NONE;
        if (error == DRV_ERROR_NONE) {
            *link = r->next;
            munmap(r->start, r->bytes);
            munmap(r->granules, count * sizeof *r->granules);
            free(r);
        }
        break;
    }
    release();
    return error;
}

/* The reservation around an address, or NULL; called with the lock held. */
static struct reservation *around(const void *address)
{
    for (struct reservation *r = reservations; r; r = r->next)
        if ((uint64_t)((const char *)address - r->start) < r->bytes)
            return r;
    return NULL;
}

static struct mapping *granule_of(struct reservation *r, const void *address)
{
    return &r->granules[(uint64_t)((const char *)address - r->start) / GRANULE];
}

VNPU_API drvError_t halMemMap(void *ptr, size_t size, size_t offset, drv_mem_handle_t *handle, uint64_t flag)
{
    if (!config())
        return DRV_ERROR_UNINIT;
    if (offset || flag || !size || size % GRANULE)
        return DRV_ERROR_INVALID_VALUE;
    drvError_t error = DRV_ERROR_NONE;
    acquire();
    struct reservation *r = around(ptr);
    if (!usable(handle))
        error = DRV_ERROR_INVALID_HANDLE;
    else if (size != handle->bytes || !r || (uintptr_t)ptr % GRANULE ||
             size > r->bytes - (uint64_t)((char *)ptr - r->start))
        error = DRV_ERROR_INVALID_VALUE;
    if (error == DRV_ERROR_NONE) {
        struct mapping *granules = granule_of(r, ptr);
        uint64_t count = size / GRANULE;
        for (uint64_t i = 0; i < count; i++)
            if (granules[i].handle)
                error = DRV_ERROR_INVALID_VALUE;
        if (error == DRV_ERROR_NONE && mmap(ptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                                            files[file_of(handle->device)].fd - 1, (off_t)handle->offset) == MAP_FAILED)
            error = errno == ENOMEM ? DRV_ERROR_OUT_OF_MEMORY : DRV_ERROR_INNER_ERR;
        if (error == DRV_ERROR_NONE) {
            for (uint64_t i = 0; i < count; i++)
                granules[i] = (struct mapping){handle, ptr};
            handle->mappings++;
        }
    }
    release();
    return error;
}

VNPU_API drvError_t halMemUnmap(void *ptr)
{
    if (!config())
        return DRV_ERROR_UNINIT;
    drvError_t error = DRV_ERROR_INVALID_VALUE;
    acquire();
    struct reservation *r = around(ptr);
    struct mapping *granules = r ? granule_of(r, ptr) : NULL;
    if (granules && granules->handle && granules->start == ptr) {
        drv_mem_handle_t *handle = granules->handle;
        uint64_t bytes = handle->bytes;
        if (mmap(ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
            error = DRV_ERROR_INNER_ERR;
        } else {
            error = DRV_ERROR_NONE;
            for (uint64_t i = 0; i < bytes / GRANULE; i++)
                granules[i] = (struct mapping){0};
            if (--handle->mappings == 0 && handle->released)
                drop(handle);
        }
    }
    release();
    return error;
}

enum found vmm_find(const void *address, struct block_info *info)
{
    acquire();
    struct reservation *r = around(address);
    struct mapping *m = r ? granule_of(r, address) : NULL;
    enum found found = !r ? NOT_OURS : m->handle ? LIVE_BLOCK : NO_BLOCK;
    if (found == LIVE_BLOCK)
        *info = (struct block_info){m->handle->device, m->handle->page, m->start, m->handle->bytes};
    release();
    return found;
}
