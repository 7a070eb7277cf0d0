/*
 * oom - fills card 1 from two pools, fails to get more, frees something and goes on; tells the rows that an analysis of this
 * has to have. Run it with VNPU_HBM_BYTES=64M and a visible-devices list that makes card 1 the first.
 */
#define _GNU_SOURCE
#include "target.h"

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

enum { MB = 1 << 20, BLOCKS = 3 };

static char pool_memory[4096];

int main(void)
{
    const unsigned long long flag = MEM_DEV | MEM_TYPE_HBM | 1 | (uint64_t)APP_MODULE_ID << MEM_MODULE_ID_BIT;
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("set-up", 0);
    mstxDomainHandle_t pool = mstxDomainCreateA("ptaCaching");
    mstxMemVirtualRangeDesc_t range = {.deviceId = 0, .ptr = pool_memory, .size = 40 * MB};
    mstxMemHeapDesc_t heap = {.typeSpecificDesc = &range};
    mstxMemHeapRegister(pool, &heap);
    range.size = 10 * MB;
    mstxMemRegionsRegisterBatch_t batch = {.regionCount = 1, .regionDescArray = &range};
    mstxMemRegionsRegister(pool, &batch);
    void *block[BLOCKS], *more;
    uint64_t bytes[BLOCKS] = {8 * MB, 30 * MB, 16 * MB};
    for (int i = 0; i < BLOCKS; i++)
        if (halMemAlloc(&block[i], bytes[i], flag))
            die("halMemAlloc", i);
    if (halMemAlloc(&more, 20 * MB, flag) != DRV_ERROR_OUT_OF_MEMORY)
        die("halMemAlloc should fail", 0);
    printf("TRIGGER func:halMemAlloc,req_size:%d,flag:%llu,ret:6\n", 20 * MB, flag);
    struct drv_mem_prop prop = {.side = MEM_DEV_SIDE, .devid = 1, .module_id = APP_MODULE_ID};
    drv_mem_handle_t *handle;
    if (halMemCreate(&handle, 30 * MB, &prop, 0) != DRV_ERROR_OUT_OF_MEMORY)
        die("halMemCreate should fail", 0);
    printf("TRIGGER func:halMemCreate,req_size:%d,flag:0,ret:6\n", 30 * MB);
    printf("RECENT pool:HAL,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)block[2], 16 * MB);
    printf("RECENT pool:HAL,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)block[1], 30 * MB);
    printf("RECENT pool:HAL,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)block[0], 8 * MB);
    printf("TOP pool:HAL,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)block[1], 30 * MB);
    printf("TOP pool:HAL,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)block[2], 16 * MB);
    printf("TOP pool:PTA,ptr:0x%016llx,size:%d\n", (unsigned long long)(uintptr_t)pool_memory, 10 * MB);
    device_free(block[1]);
    if (halMemAlloc(&more, 20 * MB, flag))
        die("halMemAlloc", 0);
    return 0;
}
