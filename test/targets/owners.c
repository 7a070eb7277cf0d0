/*
 * owners - blocks of PyTorch's caching pool that are labelled, accessed by operators, and used well or badly.
 *
 * usage: owners                      tells the rows that it expects (told.h)
 *        owners random SEED COUNT    COUNT operators, 0 for ever, at random on two cards; prints "done"
 *
 * Run it with --events=alloc,free,launch,access.
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "acl/acl.h"
#include "msmemscope.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

static int (*push)(int, const char *), (*pop)(int, const char *), (*address)(uint64_t, int, const char *);
static mstxDomainHandle_t pool;
static char memory[1 << 20]; /* addresses; the pool hands out nothing real */
static uint64_t used;

static void allocate(int card, char *block, uint64_t bytes)
{
    mstxMemVirtualRangeDesc_t range = {.deviceId = card, .ptr = block, .size = bytes};
    mstxMemRegionsRegisterBatch_t batch = {.regionCount = 1, .regionDescArray = &range};
    mstxMemRegionsRegister(pool, &batch);
}

static void release(char *block)
{
    mstxMemRegionRef_t ref = {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = block};
    mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &ref};
    mstxMemRegionsUnregister(pool, &batch);
}

/* `rest`: what its row says in the end behind the usage. */
static void tell_allocate(char *block, uint64_t bytes, const char *rest)
{
    uint64_t t = told_clock();
    allocate(0, block, bytes);
    told(t, "MALLOC\tPTA\tN/A\t0", block, "size:%llu,used:%llu,total:0,%s", (unsigned long long)bytes,
         (unsigned long long)(used += bytes), rest);
}

static void tell_release(char *block, uint64_t bytes)
{
    uint64_t t = told_clock();
    release(block);
    told(t, "FREE\tPTA\tN/A\t0", block, "size:%llu,used:%llu,total:0", (unsigned long long)bytes,
         (unsigned long long)(used -= bytes));
}

static void operator(bool start)
{
    uint64_t t = told_clock();
    mstxMarkA(start ? "memscope-aten-b: name=torch._ops.aten.add.Tensor"
                    : "memscope-aten-e: name=torch._ops.aten.add.Tensor",
              NULL);
    told(t,
         start ? "OP_LAUNCH\tATEN_START\ttorch._ops.aten.add.Tensor\t0"
               : "OP_LAUNCH\tATEN_END\ttorch._ops.aten.add.Tensor\t0",
         NULL, "%s", "");
}

static void touch(const char *block, uint64_t bytes, const char *read, const char *write)
{
    char text[400];
    snprintf(text, sizeof text,
             "memscope-aten-ac:ptr=%llu;is_write=%s;is_read=%s;is_output=False;name=torch._ops.aten.add.Tensor;"
             "shape=torch.Size([2, 3]);dtype=torch.float16;tensor_size=%llu;device=npu:0",
             (unsigned long long)(uintptr_t)block, write, read, (unsigned long long)bytes);
    mstxMarkA(text, NULL);
}

static void tell_access(const char *block, uint64_t bytes, const char *read, const char *write, const char *type)
{
    char row[100];
    snprintf(row, sizeof row, "ACCESS\t%s\ttorch._ops.aten.add.Tensor\t0", type);
    uint64_t t = told_clock();
    touch(block, bytes, read, write);
    told(t, row, block, "size:%llu,type:PTA,dtype:torch.float16,shape:torch.Size([2, 3])", (unsigned long long)bytes);
}

static void *other_thread(void *unused)
{
    if (aclrtSetDevice(0))
        die("aclrtSetDevice", 0);
    push(MS_LABEL_USER_1, "mine");
    push(MS_LABEL_USER_1, "too");
    push(MS_LABEL_DETAIL_1, "gradient");
    tell_allocate(memory + 0x3000, 64, "owner:PTA@gradient@mine@too");
    pop(MS_LABEL_DETAIL_1, "gradient");
    pop(MS_LABEL_USER_1, "mine");
    tell_allocate(memory + 0x4000, 64, "owner:PTA@too");
    fflush(stdout);
    return unused;
}

static void labels(void)
{
    uint64_t t = told_clock();
    void *block = device_alloc(4096);
    told(t, "MALLOC\tHAL\tN/A\t0", block, "size:4096,used:4096,owner:CANN@APP,page_type:normal,alloc_type:alloc");
    push(MS_LABEL_COMPONENT, "fsdp2");
    push(MS_LABEL_PROCESS, "activation");
    push(MS_LABEL_PROCESS, "backward");
    tell_allocate(memory, 1024, "owner:PTA@fsdp2@backward@weight@ops,inefficient_type:late_deallocation");
    pop(MS_LABEL_PROCESS, "backward");
    tell_allocate(memory + 0x1000, 512, "owner:PTA@fsdp2@activation");
    pop(MS_LABEL_PROCESS, "activation");
    pop(MS_LABEL_COMPONENT, "fsdp2");
    tell_access(memory + 16, 64, "True", "False", "READ");
    tell_access(memory + 16, 64, "False", "True", "WRITE");
    tell_access(memory, 64, "False", "False", "UNKNOWN");
    address((uint64_t)(uintptr_t)memory + 8, MS_LABEL_DETAIL_1, "weight");
    tell_access(memory + 0x20000, 64, "True", "False", "READ"); /* of no block that is known */
    mstxMarkA("sanitizer-op: name=add;read=a:1:2", NULL);
    mstxMarkA("memscope-aten-nonsense", NULL);
    tell_allocate(memory + 0x2000, 256, "owner:PTA");
    fflush(stdout);
    pthread_t other;
    if (pthread_create(&other, NULL, other_thread, NULL) || pthread_join(other, NULL))
        die("pthread_create", 0);
    tell_release(memory, 1024);
    tell_release(memory + 0x1000, 512);
    tell_release(memory + 0x2000, 256);
    tell_release(memory + 0x3000, 64);
    tell_release(memory + 0x4000, 64);
    t = told_clock();
    device_free(block);
    told(t, "FREE\tHAL\tN/A\t0", block, "size:4096,used:0");
}

/* The example of contract 5.4. */
static void waste(void)
{
    operator(true);
    tell_allocate(memory, 1024, "owner:PTA@ops,inefficient_type:early_allocation,late_deallocation");
    tell_allocate(memory + 0x1000, 1024, "owner:PTA");
    operator(false);
    tell_release(memory + 0x1000, 1024);
    operator(true);
    tell_access(memory, 1024, "True", "False", "READ");
    operator(false);
    tell_allocate(memory + 0x2000, 1024, "owner:PTA");
    tell_release(memory, 1024);
    tell_release(memory + 0x2000, 1024);
}

static uint64_t seed;

static unsigned pick(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static void at_random(uint64_t count)
{
    enum { BLOCKS = 512, BYTES = 256 };
    bool live[2][BLOCKS] = {0};
    for (uint64_t n = 0; count == 0 || n < count; n++) {
        int card = (int)pick(2);
        if (pick(10) == 0 && aclrtSetDevice(card))
            die("aclrtSetDevice", card);
        if (aclrtGetDevice(&card))
            die("aclrtGetDevice", 0);
        bool in_operator = pick(3) > 0;
        if (in_operator)
            mstxMarkA("memscope-aten-b: name=op", NULL);
        for (unsigned i = pick(4); i > 0; i--) {
            unsigned b = pick(pick(8) ? 8 : BLOCKS); /* some rarely */
            char *block = memory + (size_t)card * BLOCKS * BYTES + b * BYTES;
            if (live[card][b] && pick(3)) {
                touch(block, BYTES, pick(2) ? "True" : "False", pick(2) ? "True" : "False");
                continue;
            }
            if (live[card][b])
                release(block);
            else
                allocate(card, block, BYTES);
            live[card][b] = !live[card][b];
        }
        if (in_operator)
            mstxMarkA("memscope-aten-e: name=op", NULL);
    }
    puts("done");
}

int main(int argc, char **argv)
{
    push = (int (*)(int, const char *))dlsym(RTLD_DEFAULT, "ms_label_push");
    pop = (int (*)(int, const char *))dlsym(RTLD_DEFAULT, "ms_label_pop");
    address = (int (*)(uint64_t, int, const char *))dlsym(RTLD_DEFAULT, "ms_label_address");
    if (!push || !pop || !address)
        die("dlsym", 0);
    pool = mstxDomainCreateA("ptaCaching");
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("aclrtSetDevice", 0);
    if (argc > 3 && strcmp(argv[1], "random") == 0) {
        seed = argument(argc, argv, 2, 1);
        at_random(argument(argc, argv, 3, 0));
    } else {
        labels();
        waste();
    }
    return 0;
}
