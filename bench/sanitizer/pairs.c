/*
 * pairs - calls of AscendCL, for bench/sanitizer/run.sh.
 *
 *   pairs time COUNT     processor time of a pair of aclrtMalloc and aclrtFree by this thread, in ns
 *   pairs keep COUNT     allocates COUNT blocks, says "ready", and waits for the end of standard input
 *
 * Built with -DSTACK it is the library of AscendCL that the program uses: one that does next to nothing.
 */
#include <stddef.h>
#include <stdint.h>

int aclrtMalloc(void **block, size_t size, int policy);
int aclrtFree(void *block);

#ifdef STACK
int aclrtMalloc(void **block, size_t size, int policy)
{
    static uintptr_t next = 0x124000000000;
    *block = (void *)__atomic_fetch_add(&next, size, __ATOMIC_RELAXED);
    return policy;
}

int aclrtFree(void *block)
{
    return block == NULL;
}

int aclrtGetDeviceImpl(int32_t *device);
int aclrtGetDeviceImpl(int32_t *device)
{
    *device = 0;
    return 0;
}
#else
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So that there is a stack to walk. */
static __attribute__((noinline)) void *allocate(unsigned depth)
{
    void *block = NULL;
    if (depth > 0)
        block = allocate(depth - 1);
    else if (aclrtMalloc(&block, 512, 0))
        exit(99);
    __asm__ volatile("" : "+r"(block)); /* no tail call */
    return block;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

enum { DEPTH = 8 };

int main(int argc, char **argv)
{
    int64_t count = argc > 2 ? atoll(argv[2]) : 0;
    if (count > 0 && strcmp(argv[1], "time") == 0) {
        aclrtFree(allocate(DEPTH)); /* the first one connects */
        int64_t begin = now();
        for (int64_t i = 0; i < count; i++)
            if (aclrtFree(allocate(DEPTH)))
                return 99;
        printf("%.1f\n", (double)(now() - begin) / (double)count);
        return 0;
    }
    if (count > 0 && strcmp(argv[1], "keep") == 0) {
        for (int64_t i = 0; i < count; i++)
            allocate(DEPTH);
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF)
            ;
        _Exit(0);
    }
    fprintf(stderr, "usage: pairs time|keep COUNT\n");
    return 2;
}
#endif
