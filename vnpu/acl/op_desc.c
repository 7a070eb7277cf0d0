/* op_desc.c - descriptions, buffers and attributes, from which a caller builds the call of an operator by name. */
#include <stdlib.h>
#include <string.h>

#include "impl.h"

enum { DIMS_MOST = 64 };

struct aclTensorDesc {
    aclDataType type;
    aclFormat format;
    int dims;
    int64_t sizes[DIMS_MOST];
};

struct aclDataBuffer {
    void *data;
    size_t size;
};

static aclError set_shape(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    if (!desc || numDims < 0 || numDims > DIMS_MOST || (numDims && !dims))
        return ACL_ERROR_INVALID_PARAM;
    desc->dims = numDims;
    if (numDims)
        memcpy(desc->sizes, dims, (size_t)numDims * sizeof *dims);
    return ACL_SUCCESS;
}

aclTensorDesc *aclCreateTensorDescImpl(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format)
{
    aclTensorDesc *desc = calloc(1, sizeof *desc);
    if (!desc)
        return NULL;
    desc->type = dataType;
    desc->format = format;
    if (set_shape(desc, numDims, dims) == ACL_SUCCESS)
        return desc;
    free(desc);
    return NULL;
}

void aclDestroyTensorDescImpl(const aclTensorDesc *desc)
{
    free((void *)desc);
}

aclDataType aclGetTensorDescTypeImpl(const aclTensorDesc *desc)
{
    return desc ? desc->type : ACL_DT_UNDEFINED;
}

aclFormat aclGetTensorDescFormatImpl(const aclTensorDesc *desc)
{
    return desc ? desc->format : -1;
}

size_t aclGetTensorDescNumDimsImpl(const aclTensorDesc *desc)
{
    return desc ? (size_t)desc->dims : 0;
}

aclError aclGetTensorDescDimV2Impl(const aclTensorDesc *desc, size_t index, int64_t *dimSize)
{
    if (!desc || !dimSize || index >= (size_t)desc->dims)
        return ACL_ERROR_INVALID_PARAM;
    *dimSize = desc->sizes[index];
    return ACL_SUCCESS;
}

/* Names, storage formats and shapes, and places say how a real operator is to be compiled. */
void aclSetTensorDescNameImpl(aclTensorDesc *desc, const char *name)
{
    (void)desc, (void)name;
}

aclError aclSetTensorFormatImpl(aclTensorDesc *desc, aclFormat format)
{
    (void)format;
    return desc ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclSetTensorShapeImpl(aclTensorDesc *desc, int numDims, const int64_t *dims)
{
    return desc && numDims >= 0 && (dims || !numDims) ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclSetTensorPlaceMentImpl(aclTensorDesc *desc, aclMemType memType)
{
    return desc && memType <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclDataBuffer *aclCreateDataBufferImpl(void *data, size_t size)
{
    aclDataBuffer *buffer = malloc(sizeof *buffer);
    if (buffer)
        *buffer = (aclDataBuffer){data, size};
    return buffer;
}

aclError aclDestroyDataBufferImpl(const aclDataBuffer *dataBuffer)
{
    free((void *)dataBuffer);
    return dataBuffer ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

/* Operators that are called by name compute nothing, so nobody would read an attribute. */
aclopAttr *aclopCreateAttrImpl(void)
{
    return malloc(1);
}

void aclopDestroyAttrImpl(const aclopAttr *attr)
{
    free((void *)attr);
}

static aclError named(aclopAttr *attr, const char *name)
{
    return attr && name ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclopSetAttrBoolImpl(aclopAttr *attr, const char *attrName, uint8_t attrValue)
{
    return attrValue <= 1 ? named(attr, attrName) : ACL_ERROR_INVALID_PARAM;
}

aclError aclopSetAttrIntImpl(aclopAttr *attr, const char *attrName, int64_t attrValue)
{
    (void)attrValue;
    return named(attr, attrName);
}

aclError aclopSetAttrFloatImpl(aclopAttr *attr, const char *attrName, float attrValue)
{
    (void)attrValue;
    return named(attr, attrName);
}

aclError aclopSetAttrStringImpl(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    return attrValue ? named(attr, attrName) : ACL_ERROR_INVALID_PARAM;
}

aclError aclopSetAttrDataTypeImpl(aclopAttr *attr, const char *attrName, aclDataType attrValue)
{
    (void)attrValue;
    return named(attr, attrName);
}

static aclError list(aclopAttr *attr, const char *name, int count, const void *values)
{
    return count >= 0 && (values || !count) ? named(attr, name) : ACL_ERROR_INVALID_PARAM;
}

aclError aclopSetAttrListBoolImpl(aclopAttr *attr, const char *attrName, int numValues, const uint8_t *values)
{
    return list(attr, attrName, numValues, values);
}

aclError aclopSetAttrListIntImpl(aclopAttr *attr, const char *attrName, int numValues, const int64_t *values)
{
    return list(attr, attrName, numValues, values);
}

aclError aclopSetAttrListFloatImpl(aclopAttr *attr, const char *attrName, int numValues, const float *values)
{
    return list(attr, attrName, numValues, values);
}
