/*
 * steps - four steps with blocks that stay in one step and blocks that do not; tells the rows of steps 2 and 4.
 */
#define _GNU_SOURCE
#include <stdbool.h>

#include "target.h"

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

enum { BYTES = 4096 };

static const char page[] = "page_type:normal,alloc_type:alloc";

int main(void)
{
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("set-up", 0);
    void *first = device_alloc(BYTES), *second = NULL,
         *last = NULL; /* outlives all; freed in step 2; freed in step 3 */
    for (int step = 1; step <= 4; step++) {
        bool shown = step == 2 || step == 4;
        uint64_t t = told_clock();
        mstxRangeId id = mstxRangeStartA("step start", NULL);
        if (step == 1)
            second = device_alloc(2 * BYTES);
        if (step == 2) { /* what lives at the start appears there */
            told(t, "MALLOC\tHAL\tN/A\t0", first, "size:%d,shadow:true,page_type:normal,alloc_type:create", BYTES);
            told(t, "MALLOC\tHAL\tN/A\t0", second, "size:%d,shadow:true,page_type:normal,alloc_type:create", 2 * BYTES);
        }
        if (step == 4) /* and what has gone since the end of the step before */
            told(t, "FREE\tHAL\tN/A\t0", last, "size:%d,shadow:true", BYTES);
        if (shown)
            told(t, "MSTX\tRange_start\tstep start\t0", NULL, "%s", "");
        if (step == 3)
            device_free(last);
        if (step == 2) {
            t = told_clock();
            device_free(second);
            told(t, "FREE\tHAL\tN/A\t0", second, "size:%d,used:%d", 2 * BYTES, BYTES);
            t = told_clock();
            last = device_alloc(BYTES);
            told(t, "MALLOC\tHAL\tN/A\t0", last, "size:%d,used:%d,%s", BYTES, 2 * BYTES, page);
        }
        t = told_clock();
        void *block = device_alloc(BYTES);
        if (shown)
            told(t, "MALLOC\tHAL\tN/A\t0", block, "size:%d,used:%d,%s", BYTES, (step == 2 ? 3 : 2) * BYTES, page);
        t = told_clock();
        device_free(block);
        if (shown)
            told(t, "FREE\tHAL\tN/A\t0", block, "size:%d,used:%d", BYTES, (step == 2 ? 2 : 1) * BYTES);
        t = told_clock();
        mstxRangeEnd(id);
        if (shown) {
            char row[80];
            snprintf(row, sizeof row, "MSTX\tRange_end\tRange end from id %llu\t0", (unsigned long long)id);
            told(t, row, NULL, "%s", "");
        }
        if (step == 4)
            told(t, "FREE\tHAL\tN/A\t0", first, "size:%d,shadow:true", BYTES);
    }
    return 0;
}
