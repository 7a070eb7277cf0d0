/* plugin.c - a library that allocates, also when it is loaded. */
#include <stdlib.h>

static void *first;

__attribute__((constructor)) static void load(void)
{
    first = malloc(33);
}

__attribute__((destructor)) static void unload(void)
{
    free(first);
}

__attribute__((visibility("default"))) void *make(void)
{
    void *p = malloc(48);
    __asm__ volatile("");
    return p;
}
