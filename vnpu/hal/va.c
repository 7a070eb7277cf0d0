#define _GNU_SOURCE
#include "va.h"

#include <sys/mman.h>

enum { FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

char *va_map(uint64_t wish, size_t bytes, size_t align, int prot)
{
    /* A hint, not MAP_FIXED: the kernel honours it when the place is free and never overwrites a neighbour. */
    char *p = mmap((void *)(uintptr_t)wish, bytes, prot, FLAGS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if ((uintptr_t)p % align == 0)
        return p;
    munmap(p, bytes);
    if (bytes > SIZE_MAX - align)
        return NULL;
    p = mmap(NULL, bytes + align, prot, FLAGS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = (align - (uintptr_t)p % align) % align;
    if (before)
        munmap(p, before);
    munmap(p + before + bytes, align - before);
    return p + before;
}
