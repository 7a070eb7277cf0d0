/*
 * aclheap - what a program can do with the memory of AscendCL, right and wrong. It tells each block that it leaves behind, in the order
 * of their allocation, for test/smoke/sanitizer_test.go to compare with the report of mssanitizer:
 *
 *     LEAK <tab> bytes <tab> address <tab> space <tab> line
 *
 * usage: aclheap SCENARIO
 */
#define _GNU_SOURCE
#include "target.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

enum { GRANULE = 2 << 20 };
#define NORMAL ACL_MEM_MALLOC_NORMAL_ONLY
#define HUGE_FIRST ACL_MEM_MALLOC_HUGE_FIRST

static void leaks(uint64_t bytes, const void *block, const char *space, int line)
{
    printf("LEAK\t%llu\t0x%llx\t%s\t%d\n", (unsigned long long)bytes, (unsigned long long)(uintptr_t)block, space,
           line);
}

/* The call must succeed, and what it allocates stays; or fail. A place is one line. */
#define OK(call)               \
    do {                       \
        long error = (call);   \
        if (error)             \
            die(#call, error); \
    } while (0)
#define LEAVES(call, bytes, block, space)     \
    do {                                      \
        OK(call);                             \
        leaks(bytes, block, space, __LINE__); \
    } while (0)
#define FAILS(call)                        \
    do {                                   \
        if ((call) == ACL_SUCCESS)         \
            die("not to fail: " #call, 0); \
    } while (0)

static void *give(size_t bytes)
{
    void *block = NULL;
    OK(aclrtMalloc(&block, bytes, NORMAL));
    return block;
}

static void clean(void)
{
    void *block[100];
    for (int i = 0; i < 100; i++)
        block[i] = give(100 + i);
    for (int i = 0; i < 100; i++)
        OK(aclrtFree(block[(i * 37) % 100]));
}

/* The second free fails and takes nothing away. */
static void twice(void)
{
    void *block = give(100);
    OK(aclrtFree(block));
    FAILS(aclrtFree(block));
}

/* A free of nothing, of the middle of a block and of another world's memory; the block stays. */
static void unknown(void)
{
    char here, *block;
    LEAVES(aclrtMalloc((void **)&block, 5000, NORMAL), 5000, block, "GM");
    FAILS(aclrtFree(NULL));
    FAILS(aclrtFree(&here));
    FAILS(aclrtFree(block + 64));
    FAILS(aclrtFreeHost(&here));
}

static void *free_it(void *block)
{
    OK(aclrtSetDevice(0));
    OK(aclrtFree(block));
    return NULL;
}

static void other_thread(void)
{
    pthread_t thread;
    OK(pthread_create(&thread, NULL, free_it, give(700)));
    OK(pthread_join(thread, NULL));
}

/* A block that grows: allocate, copy, free the old one. Only the last one stays; its address may have been another's. */
static void grow(void)
{
    void *block = give(64), *larger;
    for (size_t bytes = 128; bytes <= 4096; bytes *= 2) {
        larger = give(bytes);
        OK(aclrtMemcpy(larger, bytes, block, bytes / 2, ACL_MEMCPY_DEVICE_TO_DEVICE));
        OK(aclrtFree(block));
        block = larger;
    }
    LEAVES(aclrtMalloc(&larger, 8192, NORMAL), 8192, larger, "GM");
    OK(aclrtFree(block));
}

static void kinds(void)
{
    void *block;
    LEAVES(aclrtMalloc(&block, 101, HUGE_FIRST), 101, block, "GM");
    LEAVES(aclrtMallocCached(&block, 102, HUGE_FIRST), 102, block, "GM");
    LEAVES(aclrtMallocAlign32(&block, 103, HUGE_FIRST), 103, block, "GM");
    LEAVES(aclrtMallocWithCfg(&block, 104, HUGE_FIRST, NULL), 104, block, "GM");
    LEAVES(aclrtMallocForTaskScheduler(&block, 105, HUGE_FIRST, NULL), 105, block, "GM");
    LEAVES(aclrtMallocHost(&block, 106), 106, block, "HOST");
    LEAVES(aclrtMallocHostWithCfg(&block, 107, NULL), 107, block, "HOST");
    OK(aclrtMallocCached(&block, 108, HUGE_FIRST));
    OK(aclrtFreeWithDevSync(block));
    OK(aclrtMallocHost(&block, 109));
    OK(aclrtFreeHostWithDevSync(block));
}

static void devices(void)
{
    void *block;
    OK(aclrtSetDevice(1));
    LEAVES(aclrtMalloc(&block, 1001, NORMAL), 1001, block, "GM");
    OK(aclrtSetDevice(0));
    LEAVES(aclrtMalloc(&block, 1000, NORMAL), 1000, block, "GM");
}

static const aclrtPhysicalMemProp on_card = {.memAttr = ACL_HBM_MEM_HUGE,
                                             .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};

/* Released, but mapped in two places, one of which stays; another one is unmapped and released, in both orders. */
static void mapped(void)
{
    char *at;
    aclrtDrvMemHandle handle;
    OK(aclrtReserveMemAddress((void **)&at, 4 * GRANULE, 0, NULL, 0)); /* no memory, and so no leak */
    LEAVES(aclrtMallocPhysical(&handle, GRANULE, &on_card, 0), GRANULE, handle, "GM");
    OK(aclrtMapMem(at, GRANULE, 0, handle, 0));
    OK(aclrtMapMem(at + GRANULE, GRANULE, 0, handle, 0));
    OK(aclrtFreePhysical(handle));
    FAILS(aclrtFreePhysical(handle));
    OK(aclrtUnmapMem(at));

    for (int released_first = 0; released_first < 2; released_first++) {
        OK(aclrtMallocPhysical(&handle, GRANULE, &on_card, 0));
        OK(aclrtMapMem(at, GRANULE, 0, handle, 0));
        if (released_first)
            OK(aclrtFreePhysical(handle));
        OK(aclrtUnmapMem(at));
        if (!released_first)
            OK(aclrtFreePhysical(handle));
    }
    LEAVES(aclrtMallocPhysical(&handle, GRANULE, &on_card, 0), GRANULE, handle, "GM");
    FAILS(aclrtUnmapMem(at));
}

/* The child leaks one block; what it has from its parent is the parent's, which frees it. */
static void child(void)
{
    void *mine = give(100);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        void *block;
        LEAVES(aclrtMalloc(&block, 3000, NORMAL), 3000, block, "GM");
        exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        die("the child", status);
    OK(aclrtFree(mine));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {{"clean", clean},         {"twice", twice},   {"unknown", unknown},
                     {"thread", other_thread}, {"grow", grow},     {"kinds", kinds},
                     {"devices", devices},     {"mapped", mapped}, {"child", child}};
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 7;
        }
    die("usage: aclheap SCENARIO", 0);
}
