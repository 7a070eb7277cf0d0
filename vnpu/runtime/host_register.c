/* host_register.c - host memory that the user registers. Nothing happens to the pages: every address is device-readable
 * here; the ranges are kept so that errors are those of the real runtime. */
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "runtime.h"

#define KNOWN_FLAGS (RT_MEM_HOST_REGISTER_MAPPED | RT_MEM_HOST_REGISTER_PINNED)

struct range {
    uintptr_t start, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *ranges; /* tree of struct range, disjoint */

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

/* Overlapping ranges count as equal, which orders a set of disjoint ones. */
static int compare(const void *a, const void *b)
{
    const struct range *left = a, *right = b;
    if (left->end <= right->start)
        return -1;
    return left->start >= right->end;
}

VNPU_API rtError_t rtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    if (!ptr || !size || !(flag & KNOWN_FLAGS) || (uintptr_t)ptr > UINTPTR_MAX - size)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (flag & ~KNOWN_FLAGS)
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    uint32_t card;
    rtError_t error = current_card(&card);
    if (error)
        return error;
    struct range *range = malloc(sizeof *range);
    if (!range)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *range = (struct range){(uintptr_t)ptr, (uintptr_t)ptr + size};
    acquire();
    struct range **node = tsearch(range, &ranges, compare);
    error = !node            ? ACL_ERROR_RT_MEMORY_ALLOCATION
            : *node != range ? ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                             : RT_ERROR_NONE;
    release();
    if (error)
        free(range);
    return error;
}

VNPU_API rtError_t rtHostUnregister(void *ptr)
{
    if (!ptr)
        return ACL_ERROR_RT_PARAM_INVALID;
    struct range key = {(uintptr_t)ptr, (uintptr_t)ptr + 1}, *range = NULL;
    acquire();
    struct range **node = tfind(&key, &ranges, compare);
    if (node && (*node)->start == key.start) {
        range = *node;
        tdelete(range, &ranges, compare);
    }
    release();
    free(range);
    return range ? RT_ERROR_NONE : ACL_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
