/* injection.c - a tool for the mstx tests, loaded through MSTX_INJECTION_PATH. Its marks go to standard error. */
#include <stdio.h>

#include "mstx/ms_tools_ext.h"

static void mark(const char *message, aclrtStream stream)
{
    (void)stream;
    fprintf(stderr, "marked %s\n", message);
}

__attribute__((visibility("default"))) int InitInjectionMstx(MstxGetModuleFuncTableFunc getter)
{
    MstxFuncPointer **table;
    unsigned int size;
    if (getter(MSTX_API_MODULE_CORE, &table, &size) != MSTX_SUCCESS)
        return MSTX_FAIL;
    *table[1] = (MstxFuncPointer)mark;
    return MSTX_SUCCESS;
}
