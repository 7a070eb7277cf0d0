/* objects.h - the objects behind the opaque types of acl_meta.h, for the operators of libopapi.so. */
#ifndef VNPU_NNOP_OBJECTS_H
#define VNPU_NNOP_OBJECTS_H

#include "aclnn/acl_meta.h"

enum { TENSOR_DIMS_MOST = 16 };

struct aclTensor {
    aclDataType type;
    int dims;
    int64_t sizes[TENSOR_DIMS_MOST], strides[TENSOR_DIMS_MOST]; /* elements */
    void *data;                                                 /* of the first element */
};

struct aclScalar {
    aclDataType type;
    unsigned char value[16];
};

/* NAME: of `size` elements of `type`, behind the head. */
#define VNPU_ARRAY(name, type) \
    struct name {              \
        uint64_t size;         \
        type values[];         \
    }
VNPU_ARRAY(aclIntArray, int64_t);
VNPU_ARRAY(aclFloatArray, float);
VNPU_ARRAY(aclBoolArray, bool);
VNPU_ARRAY(aclTensorList, const aclTensor *);
VNPU_ARRAY(aclScalarList, const aclScalar *);

/* An operator with its arguments, between the call that asks for its workspace and its launch. */
struct aclOpExecutor {
    void (*compute)(struct aclOpExecutor *executor);
    void (*destroy)(struct aclOpExecutor *executor);
};

/* Bytes of an element; 0 for a type that we do not know. */
#ifdef __cplusplus
extern "C"
#endif
    size_t vnpu_element_size(aclDataType type);

#endif
