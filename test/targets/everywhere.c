/*
 * libeverywhere.so - preloaded into a program that knows nothing of cards: from everywhere_begin() on, a block of the C heap that is asked
 * for by way of a place not seen before is accompanied by one of card 0. So the tool takes stacks all over the program.
 */
#include "target.h"

#include <execinfo.h>
#include <stdbool.h>

enum { PLACES = 1 << 18, DEPTH = 8 };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

static bool begun;
static __thread bool inside;
static bool seen[PLACES]; /* by return address; threads may see one twice */

void everywhere_begin(void)
{
    begun = true;
}

static void accompany(void)
{
    if (!begun || inside)
        return;
    inside = true;
    void *frames[DEPTH];
    bool fresh = false;
    for (int i = backtrace(frames, DEPTH); i-- > 0;) {
        bool *place = &seen[((uintptr_t)frames[i] * 0x9e3779b97f4a7c15u) >> 46];
        fresh |= !*place;
        *place = true;
    }
    if (fresh)
        device_free(device_alloc(4096));
    inside = false;
}

void *malloc(size_t size)
{
    accompany();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    accompany();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    accompany();
    return __libc_realloc(block, size);
}
