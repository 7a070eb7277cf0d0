/* op_compiler.c - all of libacl_op_compiler.so: operators by name. None of them computes anything. */
#include <string.h>

#include "../common/export.h"
#include "../nnop/operator.h"
#include "acl/acl_op_compiler.h"

VNPU_API aclError aclopCompileAndExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                                         const aclDataBuffer *const inputs[], int numOutputs,
                                         const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[],
                                         const aclopAttr *attr, aclopEngineType engineType,
                                         aclopCompileType compileFlag, const char *opPath, aclrtStream stream)
{
    (void)inputDesc, (void)inputs, (void)outputDesc, (void)outputs, (void)attr, (void)opPath;
    if (!opType || numInputs < 0 || numOutputs < 0 || engineType > ACL_ENGINE_VECTOR ||
        compileFlag > ACL_COMPILE_UNREGISTERED)
        return ACL_ERROR_INVALID_PARAM;
    return vnpu_missing_operator(opType, stream);
}

VNPU_API aclError aclopCompileAndExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                           aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                           aclDataBuffer *outputs[], aclopAttr *attr, aclopEngineType engineType,
                                           aclopCompileType compileFlag, const char *opPath, aclrtStream stream)
{
    return aclopCompileAndExecute(
        opType, numInputs, (const aclTensorDesc *const *)inputDesc, (const aclDataBuffer *const *)inputs, numOutputs,
        (const aclTensorDesc *const *)outputDesc, outputs, attr, engineType, compileFlag, opPath, stream);
}

VNPU_API aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                          const int64_t *const values[])
{
    return attr && attrName && numLists >= 0 && (!numLists || (numValues && values)) ? ACL_SUCCESS
                                                                                     : ACL_ERROR_INVALID_PARAM;
}

/* Options say how to compile, which nobody does. */
VNPU_API aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    return opt <= ACL_OP_DEBUG_OPTION && value ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

VNPU_API size_t aclGetCompileoptSize(aclCompileOpt opt)
{
    return opt <= ACL_OP_DEBUG_OPTION ? 1 : 0;
}

VNPU_API aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length)
{
    if (opt > ACL_OP_DEBUG_OPTION || !value || !length)
        return ACL_ERROR_INVALID_PARAM;
    *value = 0;
    return ACL_SUCCESS;
}
