/*
 * gauge - allocates and frees on card 0 with pauses, so that the driver's own numbers can be read in between, and reports a block of
 * a pool. Tells the rows; the numbers are those of the virtual NPU when nobody else uses it.
 */
#define _GNU_SOURCE
#include "target.h"

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

enum { MB = 1 << 20 };

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int main(void)
{
    static char pool_memory[4096];
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("set-up", 0);
    device_free(device_alloc(4096)); /* from here on the numbers are asked for */
    pause_ms(500);
    for (int i = 0; i < 3; i++) {
        device_alloc(32 * MB);
        pause_ms(30);
        printf("USED %d\n",
               32 * MB * (i + 1)); /* when the next one is allocated, the driver has been asked at or after this */
    }
    mstxDomainHandle_t pool = mstxDomainCreateA("ptaCaching");
    mstxMemVirtualRangeDesc_t range = {.deviceId = 0, .ptr = pool_memory, .size = 4096};
    mstxMemRegionsRegister(pool, &(mstxMemRegionsRegisterBatch_t){.regionCount = 1, .regionDescArray = &range});
    return 0;
}
