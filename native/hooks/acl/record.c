/*
 * record.c - see record.h.
 */
#include "record.h"

#include <errno.h>
#include <string.h>

#include "symbols.h"

#pragma weak ms_enter
#pragma weak ms_leave
#pragma weak ms_reserve
#pragma weak ms_publish
#pragma weak ms_current_device
#pragma weak ms_physical_device

static bool enter(enum ms_interest interest)
{
    return ms_enter && ms_enter(interest) != MS_SKIP;
}

/*
 * Behind us in load order, as another preloaded wrapper behind us wants its turn. A program may also have linked us behind
 * libascendcl.so. Copies of this library are passed over: their hooks would come back to ours.
 */
void *behind(void **slot, const char *name)
{
    void *real = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (real)
        return real;
    int saved = errno;
    struct search search = {.name = name, .after = (const void *)enter, .except = "sanitizerRtMalloc"};
    if (!search_libraries(&search)) {
        search.after = NULL;
        search_libraries(&search);
    }
    if (search.found) {
        keep_library(search.library);
        __atomic_store_n(slot, search.found, __ATOMIC_RELEASE);
    }
    errno = saved;
    return search.found;
}

aclError put_block(aclError result, const void *block, uint64_t size, int card, uint8_t flags, const char *file,
                   int line)
{
    if (result != ACL_SUCCESS || !enter(MS_CANN_HEAP))
        return result;
    uint16_t device = card == ON_HOST      ? MS_DEVICE_CPU
                      : card == ON_CURRENT ? ms_current_device()
                                           : ms_physical_device(card);
    /* The end of a long path is what tells. */
    size_t length = file ? strlen(file) : 0;
    if (length > MS_TEXT_MAX) {
        file += length - MS_TEXT_MAX;
        length = MS_TEXT_MAX;
    }
    struct ms_acl_alloc *r = ms_reserve(MS_ACL_ALLOC, MS_HAL, device, sizeof *r + length);
    if (r) {
        r->h.flags |= flags;
        r->addr = (uint64_t)block;
        r->size = size;
        r->line = line > 0 ? (uint32_t)line : 0;
        r->length = (uint32_t)length;
        memcpy(r + 1, file ? file : "", length);
        ms_publish(&r->h);
    }
    ms_leave();
    return result;
}

bool put_free(enum ms_type type, const void *block)
{
    if (!block || !enter(MS_CANN_HEAP))
        return false;
    struct ms_free *r = ms_reserve(type, MS_HAL, MS_DEVICE_NONE, sizeof *r);
    if (r) {
        r->addr = (uint64_t)block;
        ms_publish(&r->h);
    }
    ms_leave();
    return r != NULL;
}

void put_map(enum ms_interest interest, enum ms_type type, const void *address, const void *handle)
{
    if (!enter(interest))
        return;
    struct ms_map *r = ms_reserve(type, MS_HAL, MS_DEVICE_NONE, sizeof *r);
    if (r) {
        r->addr = (uint64_t)address;
        r->handle = (uint64_t)handle;
        ms_publish(&r->h);
    }
    ms_leave();
}
