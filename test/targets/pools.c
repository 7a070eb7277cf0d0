/*
 * pools - reports blocks of every kind of pool as the frameworks do, pins host memory, and tells what it did.
 *
 * usage: pools           with --pools=arena,heap%2 the last two domains are recorded, too
 */
#define _GNU_SOURCE
#include "target.h"

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

static char memory[1 << 20]; /* addresses; the pools hand out nothing real */

static mstxMemHeapHandle_t heap(mstxDomainHandle_t domain, const void *base, uint64_t bytes)
{
    mstxMemVirtualRangeDesc_t range = {.deviceId = 1, .ptr = base, .size = bytes};
    mstxMemHeapDesc_t desc = {.typeSpecificDesc = &range};
    return mstxMemHeapRegister(domain, &desc);
}

static void hand_out(mstxDomainHandle_t domain, size_t count, char *base, uint64_t bytes,
                     mstxMemRegionHandle_t *handles)
{
    mstxMemVirtualRangeDesc_t range[4];
    for (size_t i = 0; i < count; i++)
        range[i] = (mstxMemVirtualRangeDesc_t){.deviceId = 1, .ptr = base + i * bytes, .size = bytes};
    /* PyTorch and MindSpore leave regionHandleArrayOut as it lay on the stack: a pointer that must not be written through. */
    mstxMemRegionsRegisterBatch_t batch = {
        .regionCount = count, .regionDescArray = range, .regionHandleArrayOut = handles ? handles : (void *)16};
    mstxMemRegionsRegister(domain, &batch);
}

static void take_back(mstxDomainHandle_t domain, size_t count, char *base, uint64_t bytes,
                      mstxMemRegionHandle_t *handles)
{
    mstxMemRegionRef_t ref[4];
    for (size_t i = 0; i < count; i++)
        if (handles)
            ref[i] = (mstxMemRegionRef_t){.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE, .handle = handles[i]};
        else
            ref[i] = (mstxMemRegionRef_t){.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = base + i * bytes};
    mstxMemRegionsUnregisterBatch_t batch = {.refCount = count, .refArray = ref};
    mstxMemRegionsUnregister(domain, &batch);
}

/* PyTorch's workspace: a region carries what the pool has handed out in all. */
static void workspace(void)
{
    mstxDomainHandle_t domain = mstxDomainCreateA("ptaWorkspace");
    heap(domain, memory, 8192);
    uint64_t t = told_clock();
    hand_out(domain, 1, memory, 3000, NULL);
    told(t, "MALLOC\tPTA_WORKSPACE\tN/A\t1", memory, "size:3000,used:3000,total:8192");
    t = told_clock();
    take_back(domain, 1, memory, 3000, NULL);
    told(t, "FREE\tPTA_WORKSPACE\tN/A\t1", memory, "size:3000,used:0,total:8192");
}

/* MindSpore: a heap behind each region. */
static void mindspore(void)
{
    mstxDomainHandle_t domain = mstxDomainCreateA("mindsporeMemPool");
    if (domain != mstxDomainCreateA("mindsporeMemPool"))
        die("a second handle", 0);
    heap(domain, memory, 1 << 16);
    for (int i = 0; i < 2; i++) {
        uint64_t t = told_clock();
        hand_out(domain, 1, memory + i * 512, 512, NULL);
        told(t, "MALLOC\tMINDSPORE\tN/A\t1", memory + i * 512, "size:512,used:%d,total:%d", 512 * (i + 1),
             (1 + i) << 16);
        heap(domain, memory, (uint64_t)(2 + i) << 16);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t t = told_clock();
        take_back(domain, 1, memory + i * 512, 512, NULL);
        told(t, "FREE\tMINDSPORE\tN/A\t1", memory + i * 512, "size:512,used:%d,total:%d", 512 * (1 - i), 3 << 16);
    }
}

/* A pool whose heaps add up and whose regions have handles: ATB's, and those of the user's own. */
static void chunks(const char *name, const char *type)
{
    mstxDomainHandle_t domain = mstxDomainCreateA(name);
    if (!domain) {
        printf("%s is not recorded\n", name);
        return;
    }
    char row[100];
    mstxMemRegionHandle_t handles[3];
    mstxMemHeapHandle_t first = heap(domain, memory, 4096), second = heap(domain, memory + 4096, 1 << 12);
    if (!first || !second)
        die("mstxMemHeapRegister", 0);
    uint64_t t = told_clock();
    hand_out(domain, 3, memory, 100, handles);
    for (int i = 0; i < 3; i++) {
        snprintf(row, sizeof row, "MALLOC\t%s\tN/A\t1", type);
        told(t, row, memory + 100 * i, "size:100,used:%d,total:8192", 100 * (i + 1));
    }
    mstxMemHeapUnregister(domain, second);
    t = told_clock();
    take_back(domain, 3, memory, 100, handles);
    for (int i = 0; i < 3; i++) {
        snprintf(row, sizeof row, "FREE\t%s\tN/A\t1", type);
        told(t, row, memory + 100 * i, "size:100,used:%d,total:4096", 100 * (2 - i));
    }
    mstxMemHeapUnregister(domain, first);
}

static void pinned(void)
{
    if (aclrtHostRegisterV2(memory, 4096, ACL_HOST_REG_MAPPED) || aclrtHostUnregister(memory))
        die("mapped only", 0); /* is not recorded */
    uint64_t t = told_clock();
    if (aclrtHostRegisterV2(memory, 5000, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED))
        die("aclrtHostRegisterV2", 0);
    told(t, "MALLOC\tHOST\tN/A\tcpu", memory, "size:5000,pinned:true,used:5000");
    t = told_clock();
    if (aclrtHostUnregister(memory))
        die("aclrtHostUnregister", 0);
    told(t, "FREE\tHOST\tN/A\tcpu", memory, "size:5000,pinned:true,used:0");
    if (!aclrtHostUnregister(memory))
        die("a second aclrtHostUnregister", 0); /* fails; is not recorded */
}

int main(void)
{
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("set-up", 0);
    workspace();
    mindspore();
    chunks("atb", "ATB");
    chunks("arena", "arena");
    chunks("heap%2", "heap%2");
    pinned();
    return 0;
}
