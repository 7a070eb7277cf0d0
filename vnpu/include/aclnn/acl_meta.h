/*
 * acl_meta.h - what operators (aclnnX) work on, served by libnnopbase.so. Names, values and layouts are the real ones.
 * The data stay the caller's; arrays and lists are copied, the tensors of a list belong to it. Destroying returns 0.
 */
#ifndef VNPU_ACL_META_H
#define VNPU_ACL_META_H

#include <stdbool.h>

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int aclnnStatus; /* an aclError, or: */
enum { ACLNN_ERR_PARAM_NULLPTR = 161001 };
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

/* Strides and offset in elements; strides may be NULL. NULL when out of memory or when there are more than 16 dimensions. */
aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData);
aclScalar *aclCreateScalar(void *value, aclDataType dataType);
aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);
aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size);
aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);
aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size);
aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size);

/* The sizes of the tensor, which operators change whose results are as large as the values say. The caller frees them. */
aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum);

aclnnStatus aclDestroyTensor(const aclTensor *tensor);
aclnnStatus aclDestroyScalar(const aclScalar *scalar);
aclnnStatus aclDestroyIntArray(const aclIntArray *array);
aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);
aclnnStatus aclDestroyTensorList(const aclTensorList *list);
aclnnStatus aclDestroyScalarList(const aclScalarList *list);
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

#ifdef __cplusplus
}
#endif
#endif
