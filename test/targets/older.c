/*
 * older - allocates on card 0 and marks with the mstx that it is given, if that is one; tells the driver's rows, and with "told" the
 * mark's as well.
 *
 * usage: older LIBRARY [told]
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>

#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"
#include "told.h"

int main(int argc, char **argv)
{
    if (aclInit(NULL) || aclrtSetDevice(0))
        die("set-up", 0);
    if (argc < 2)
        die("without an argument", 0);
    uint64_t t = told_clock();
    void *block = device_alloc(5000);
    told(t, "MALLOC\tHAL\tN/A\t0", block, "size:5000,used:5000,page_type:normal,alloc_type:alloc");
    void *library = dlopen(argv[1], RTLD_NOW);
    printf("mstx: %s\n", library ? "there" : "none");
    void (*mark)(const char *, void *) = library ? (void (*)(const char *, void *))dlsym(library, "mstxMarkA") : NULL;
    t = told_clock();
    if (mark)
        mark("here", NULL);
    if (argc > 2)
        told(t, "MSTX\tMark\there\t0", NULL, "%s", "");
    t = told_clock();
    device_free(block);
    told(t, "FREE\tHAL\tN/A\t0", block, "size:5000,used:0");
    if (aclrtResetDevice(0) || aclFinalize())
        die("aclFinalize", 0);
    return 0;
}
