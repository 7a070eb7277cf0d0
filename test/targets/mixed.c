/*
 * mixed - calls of the driver, of a pool and of the runtime in a loop.
 *
 * usage: mixed COUNT NS [ROUNDS]
 *                            COUNT calls, each of which takes NS more: a block of the driver, a block of a pool that reports it as
 *                            PyTorch's does, the end of both; after ten of these a launch
 *
 * NS are so many rounds of a loop: measured, unless a run before has printed how many it takes, so that two runs do the same.
 * Prints the ns that the loop took: processor time of the thread, processor time of the process, real time; then the rounds.
 */
#define _GNU_SOURCE
#include "target.h"

#include <time.h>

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"

static const char kernels[] = "Nothing 0\n";

static long long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void check(const char *what, int error)
{
    if (error)
        die(what, error);
}

static void spin(uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++)
        __asm__ volatile("" ::: "memory");
}

/* How many rounds take `ns` of this thread's time: the fastest of some trials, which nobody interrupts. */
static uint64_t rounds_of(long long ns)
{
    long long best = 1LL << 62;
    for (int i = 0; i < 50; i++) {
        long long began = now(CLOCK_THREAD_CPUTIME_ID);
        spin(100000);
        long long took = now(CLOCK_THREAD_CPUTIME_ID) - began;
        best = took < best ? took : best;
    }
    return (uint64_t)(ns * 100000 / best);
}

/* As frameworks do: nothing is reported where nobody listens. The heap comes before what is handed out of it. */
static void pool_takes(mstxDomainHandle_t domain, const void *block, uint64_t bytes)
{
    if (!domain)
        return;
    mstxMemVirtualRangeDesc_t range = {.deviceId = 0, .ptr = block, .size = bytes};
    mstxMemHeapDesc_t heap = {.typeSpecificDesc = &range};
    mstxMemHeapRegister(domain, &heap);
    mstxMemRegionsRegisterBatch_t batch = {.regionCount = 1, .regionDescArray = &range};
    mstxMemRegionsRegister(domain, &batch);
}

static void pool_gives(mstxDomainHandle_t domain, const void *block)
{
    if (!domain)
        return;
    mstxMemRegionRef_t ref = {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = block};
    mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &ref};
    mstxMemRegionsUnregister(domain, &batch);
}

static void loop(uint64_t count, uint64_t rounds)
{
    static char memory[4096]; /* of the pool */
    static const clockid_t clocks[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC};
    long long began[3];
    void *binary, *f, *block = NULL;
    mstxDomainHandle_t domain = mstxDomainCreateA("ptaCaching");
    check("aclInit", aclInit(NULL));
    check("aclrtBinaryLoadFromData", aclrtBinaryLoadFromData(kernels, sizeof kernels - 1, NULL, &binary));
    check("aclrtBinaryGetFunction", aclrtBinaryGetFunction(binary, "Nothing", &f));
    check("aclrtSetDevice", aclrtSetDevice(0));
    for (int i = 0; i < 3; i++)
        began[i] = now(clocks[i]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t step = i % 41;
        if (step == 40)
            check("launch", aclrtLaunchKernel(f, 1, NULL, 0, NULL));
        else if (step % 4 == 0)
            block = device_alloc(4096);
        else if (step % 4 == 1)
            pool_takes(domain, memory, sizeof memory);
        else if (step % 4 == 2)
            pool_gives(domain, memory);
        else
            device_free(block);
        spin(rounds);
    }
    for (int i = 0; i < 3; i++)
        printf("%lld ", now(clocks[i]) - began[i]);
    printf("%llu\n", (unsigned long long)rounds);
}

int main(int argc, char **argv)
{
    uint64_t rounds = argument(argc, argv, 3, 0);
    loop(argument(argc, argv, 1, 1000000), rounds ? rounds : rounds_of((long long)argument(argc, argv, 2, 5000)));
    return 0;
}
