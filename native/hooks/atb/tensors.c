/*
 * tensors.c - tensors of ATB and of its kernels (Mki) as records.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "atb.h"

/* Both libraries number types and layouts as AscendCL does. */
static const char *dtype_name(int32_t dtype)
{
    static const char *const names[] = {
        [0] = "FLOAT",        [1] = "FLOAT16",        [2] = "INT8",         [3] = "INT32",        [4] = "UINT8",
        [6] = "INT16",        [7] = "UINT16",         [8] = "UINT32",       [9] = "INT64",        [10] = "UINT64",
        [11] = "DOUBLE",      [12] = "BOOL",          [13] = "STRING",      [16] = "COMPLEX64",   [17] = "COMPLEX128",
        [27] = "BF16",        [29] = "INT4",          [30] = "UINT1",       [33] = "COMPLEX32",   [34] = "HIFLOAT8",
        [35] = "FLOAT8_E5M2", [36] = "FLOAT8_E4M3FN", [37] = "FLOAT8_E8M0", [38] = "FLOAT6_E3M2", [39] = "FLOAT6_E2M3",
        [40] = "FLOAT4_E2M1", [41] = "FLOAT4_E1M2",
    };
    return dtype >= 0 && (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : NULL;
}

static const char *format_name(int32_t format)
{
    static const char *const names[] = {
        [0] = "NCHW",         [1] = "NHWC",          [2] = "ND",     [3] = "NC1HWC0",     [4] = "FRACTAL_Z",
        [12] = "NC1HWC0_C04", [16] = "HWCN",         [27] = "NDHWC", [29] = "FRACTAL_NZ", [30] = "NCDHW",
        [32] = "NDC1HWC0",    [33] = "FRACTAL_Z_3D", [35] = "NC",    [47] = "NCL",
    };
    const char *name = format >= 0 && (size_t)format < sizeof names / sizeof *names ? names[format] : NULL;
    return name ? name : "UNDEFINED";
}

/* Appends to `text`, which has room for ATB_TEXT_BYTES; the rest is cut. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(text + *length, ATB_TEXT_BYTES - *length, format, arguments);
    va_end(arguments);
    if (more > 0)
        *length = *length + (size_t)more < ATB_TEXT_BYTES ? *length + (size_t)more : ATB_TEXT_BYTES - 1;
}

static void put(enum ms_access_kind kind, uint16_t device, const char *name, const void *data, uint64_t size,
                const char *attr, size_t attr_length)
{
    size_t name_length = strlen(name), length = name_length + 1 + attr_length;
    struct ms_access *r = ms_reserve(MS_ATB_ACCESS, MS_ATB, device, sizeof *r + length);
    if (!r)
        return;
    r->addr = (uint64_t)(uintptr_t)data;
    r->size = size;
    r->kind = kind;
    r->length = (uint32_t)length;
    char *text = (char *)(r + 1);
    memcpy(text, name, name_length);
    text[name_length] = '\n';
    memcpy(text + name_length + 1, attr, attr_length);
    ms_publish(&r->h);
}

static size_t describe(char *attr, const char *dtype_prefix, const char *dtype, const char *format_prefix,
                       int32_t format, const int64_t *dims, uint64_t count)
{
    size_t length = 0;
    append(attr, &length, "dtype:%s%s,format:%s%s,shape:[", dtype_prefix, dtype, format_prefix, format_name(format));
    for (uint64_t i = 0; i < count; i++)
        append(attr, &length, "%lld,", (long long)dims[i]);
    append(attr, &length, "]");
    return length;
}

const struct atb_tensor *atb_all(const struct atb_tensors *tensors)
{
    if (tensors->size > tensors->capacity)
        return NULL;
    return tensors->capacity > ATB_INLINE ? tensors->heap : tensors->inside;
}

void atb_put_tensors(const struct atb_tensors *tensors, enum ms_access_kind kind, uint16_t device, const char *name)
{
    const struct atb_tensor *all = atb_all(tensors);
    for (size_t i = 0; all && i < tensors->size; i++) {
        const struct atb_tensor *t = &all[i];
        if (!t->device_data)
            continue;
        char attr[ATB_TEXT_BYTES];
        const char *dtype = dtype_name(t->dtype);
        size_t length = describe(attr, "ACL_", dtype ? dtype : "DT_UNDEFINED", "ACL_FORMAT_", t->format, t->dims,
                                 t->dim_count <= ATB_DIMS ? t->dim_count : 0);
        put(kind, device, name, t->device_data, t->data_size, attr, length);
    }
}

void mki_put_tensors(const struct mki_tensors *tensors, enum ms_access_kind kind, uint16_t device, const char *name)
{
    if (!tensors || tensors->size > MKI_INLINE)
        return;
    for (size_t i = 0; i < tensors->size; i++) {
        const struct mki_tensor *t = &tensors->inside[i];
        if (!t->data)
            continue;
        char attr[ATB_TEXT_BYTES];
        const char *dtype = dtype_name(t->dtype);
        size_t length = describe(attr, "TENSOR_DTYPE_", dtype ? dtype : "UNDEFINED", "TENSOR_FORMAT_", t->format,
                                 t->dims.dims, t->dims.size <= MKI_INLINE ? t->dims.size : 0);
        put(kind, device, name, t->data, t->data_size, attr, length);
    }
}
