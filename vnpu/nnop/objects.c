/* objects.c - tensors, scalars, arrays and lists, as far as operators need them. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "../common/export.h"
#include "runtime/rt.h"

VNPU_API size_t vnpu_element_size(aclDataType type)
{
    static const unsigned char sizes[] = {
        [ACL_FLOAT] = 4,  [ACL_FLOAT16] = 2, [ACL_INT8] = 1,      [ACL_INT32] = 4,       [ACL_UINT8] = 1,
        [ACL_INT16] = 2,  [ACL_UINT16] = 2,  [ACL_UINT32] = 4,    [ACL_INT64] = 8,       [ACL_UINT64] = 8,
        [ACL_DOUBLE] = 8, [ACL_BOOL] = 1,    [ACL_COMPLEX64] = 8, [ACL_COMPLEX128] = 16, [ACL_BF16] = 2,
    };
    return type >= 0 && (size_t)type < sizeof sizes ? sizes[type] : 0;
}

VNPU_API aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                    const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                                    uint64_t storageDimsNum, void *tensorData)
{
    (void)format, (void)storageDims, (void)storageDimsNum;
    if (viewDimsNum > TENSOR_DIMS_MOST || (viewDimsNum && !viewDims))
        return NULL;
    aclTensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return NULL;
    tensor->type = dataType;
    tensor->dims = (int)viewDimsNum;
    int64_t whole = 1;
    for (int i = tensor->dims - 1; i >= 0; i--) {
        tensor->sizes[i] = viewDims[i];
        tensor->strides[i] = stride ? stride[i] : whole;
        whole *= viewDims[i];
    }
    tensor->data = tensorData ? (char *)tensorData + offset * (int64_t)vnpu_element_size(dataType) : NULL;
    return tensor;
}

VNPU_API aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    aclScalar *scalar = value ? calloc(1, sizeof *scalar) : NULL;
    if (!scalar)
        return NULL;
    scalar->type = dataType;
    memcpy(scalar->value, value, vnpu_element_size(dataType));
    return scalar;
}

/* Creates and destroys the arrays and lists; `destroy` ends an element. */
#define ARRAY(array, create, type, end, destroy)                                           \
    VNPU_API array *create(type value, uint64_t size)                                      \
    {                                                                                      \
        array *made = value || !size ? malloc(sizeof *made + size * sizeof *value) : NULL; \
        if (!made)                                                                         \
            return NULL;                                                                   \
        made->size = size;                                                                 \
        if (size)                                                                          \
            memcpy(made->values, value, size * sizeof *value);                             \
        return made;                                                                       \
    }                                                                                      \
    VNPU_API aclnnStatus end(const array *made)                                            \
    {                                                                                      \
        for (uint64_t i = 0; made && i < made->size; i++)                                  \
            destroy(made->values[i]);                                                      \
        free((void *)made);                                                                \
        return ACL_SUCCESS;                                                                \
    }

#define NOTHING(value) ((void)(value))
ARRAY(aclIntArray, aclCreateIntArray, const int64_t *, aclDestroyIntArray, NOTHING)
ARRAY(aclFloatArray, aclCreateFloatArray, const float *, aclDestroyFloatArray, NOTHING)
ARRAY(aclBoolArray, aclCreateBoolArray, const bool *, aclDestroyBoolArray, NOTHING)
ARRAY(aclTensorList, aclCreateTensorList, const aclTensor *const *, aclDestroyTensorList, aclDestroyTensor)
ARRAY(aclScalarList, aclCreateScalarList, const aclScalar *const *, aclDestroyScalarList, aclDestroyScalar)

VNPU_API aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    free((void *)tensor);
    return ACL_SUCCESS;
}

VNPU_API aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    free((void *)scalar);
    return ACL_SUCCESS;
}

VNPU_API aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    if (!tensor || !viewDims || !viewDimsNum)
        return ACLNN_ERR_PARAM_NULLPTR;
    *viewDims = malloc((size_t)tensor->dims * sizeof **viewDims + 1); /* one more: a number has no dimensions */
    if (!*viewDims)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    memcpy(*viewDims, tensor->sizes, (size_t)tensor->dims * sizeof **viewDims);
    *viewDimsNum = (uint64_t)tensor->dims;
    return ACL_SUCCESS;
}

VNPU_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    if (executor)
        executor->destroy(executor);
    return ACL_SUCCESS;
}
