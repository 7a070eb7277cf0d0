#include "tensor.h"

#include <cstdio>
#include <cstring>

namespace vnpu
{
namespace
{
/* The two 16-bit types as their bits. */
struct Half {
    uint16_t bits;
};
struct Brain {
    uint16_t bits;
};

float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

double get(Brain b)
{
    return bits_to_float((uint32_t)b.bits << 16);
}

/* To the nearest, ties to even. */
void put(Brain &to, double value)
{
    uint32_t bits = float_to_bits((float)value);
    to.bits = value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double get(Half h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, exponent = h.bits >> 10 & 31, fraction = h.bits & 0x3ff;
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0)
        return (sign ? -1 : 1) * (double)fraction / (1 << 24);
    return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
}

void put(Half &to, double value)
{
    uint32_t bits = float_to_bits((float)value);
    uint16_t sign = bits >> 16 & 0x8000;
    float size = bits_to_float(bits & 0x7fffffff);
    if (value != value)
        to.bits = 0x7e00;
    else if (size >= 65520)
        to.bits = sign | 0x7c00;
    else if (size < 6.103515625e-05F) /* a step is 2^-24; adding 0.5 of one float's own rounds to even */
        to.bits = sign | (uint16_t)(float_to_bits(size + 0.5F) - float_to_bits(0.5F));
    else
        to.bits =
            sign | (uint16_t)((float_to_bits(size) + 0xfff + (float_to_bits(size) >> 13 & 1) - (112U << 23)) >> 13);
}

template <class T> double get(T value)
{
    return (double)value;
}

template <class T> void put(T &to, double value)
{
    to = (T)value;
}

void put(bool &to, double value)
{
    to = value != 0;
}

/* Calls `use` with a value of the type. */
template <class Use> void typed(aclDataType type, Use use)
{
    switch (type) {
    case ACL_FLOAT:
        return use(float());
    case ACL_FLOAT16:
        return use(Half());
    case ACL_BF16:
        return use(Brain());
    case ACL_DOUBLE:
        return use(double());
    case ACL_INT8:
        return use(int8_t());
    case ACL_INT16:
        return use(int16_t());
    case ACL_INT32:
        return use(int32_t());
    case ACL_INT64:
        return use(int64_t());
    case ACL_UINT8:
        return use(uint8_t());
    case ACL_UINT16:
        return use(uint16_t());
    case ACL_UINT32:
        return use(uint32_t());
    case ACL_UINT64:
        return use(uint64_t());
    case ACL_BOOL:
        return use(bool());
    default:
        throw Unsupported();
    }
}

/* Visits `n` elements of type T in row-major order of `sizes`. */
template <class T, class Visit> void walk(void *data, const Shape &sizes, const Shape &strides, Visit visit)
{
    int64_t n = count(sizes), at = 0;
    Shape index(sizes.size());
    for (int64_t i = 0; i < n; i++) {
        visit(i, static_cast<T *>(data)[at]);
        for (size_t d = sizes.size(); d-- > 0;) {
            at += strides[d];
            if (++index[d] < sizes[d])
                break;
            at -= index[d] * strides[d];
            index[d] = 0;
        }
    }
}
} // namespace

Shape shape(const aclTensor *tensor)
{
    return Shape(tensor->sizes, tensor->sizes + tensor->dims);
}

int64_t count(const Shape &shape)
{
    int64_t n = 1;
    for (int64_t size : shape)
        n *= size;
    return n;
}

Shape broadcast(const Shape &a, const Shape &b)
{
    Shape out(a.size() > b.size() ? a : b);
    const Shape &other = a.size() > b.size() ? b : a;
    for (size_t i = 0; i < other.size(); i++) {
        int64_t &size = out[out.size() - other.size() + i];
        if (size == 1)
            size = other[i];
    }
    return out;
}

Values read(const aclTensor *tensor, const Shape &wide)
{
    Values values(count(wide));
    Shape strides(wide.size());
    size_t ahead = wide.size() - tensor->dims;
    for (int d = 0; d < tensor->dims; d++)
        strides[ahead + d] = tensor->sizes[d] == 1 ? 0 : tensor->strides[d];
    typed(tensor->type, [&](auto zero) {
        walk<decltype(zero)>(tensor->data, wide, strides, [&](int64_t i, auto &element) { values[i] = get(element); });
    });
    return values;
}

Values read(const aclTensor *tensor)
{
    return read(tensor, shape(tensor));
}

void write(const aclTensor *tensor, const Values &values)
{
    Shape strides(tensor->strides, tensor->strides + tensor->dims);
    typed(tensor->type, [&](auto zero) {
        walk<decltype(zero)>(tensor->data, shape(tensor), strides,
                             [&](int64_t i, auto &element) { put(element, values[i]); });
    });
}

double number(const aclScalar *scalar)
{
    double value = 0;
    typed(scalar->type, [&](auto zero) {
        memcpy(&zero, scalar->value, sizeof zero);
        value = get(zero);
    });
    return value;
}

int64_t positive(int64_t dim, int64_t dims)
{
    return dim < 0 ? dim + dims : dim;
}

Around::Around(const Shape &shape, int64_t dim)
{
    dim = positive(dim, (int64_t)shape.size());
    for (int64_t d = 0; d < (int64_t)shape.size(); d++)
        (d < dim ? outer : d > dim ? inner : size) *= shape[d];
}

aclnnStatus launch(const char *name, aclOpExecutor *executor, aclrtStream stream)
{
    if (!executor)
        return ACL_ERROR_INVALID_PARAM;
    aclnnStatus error = vnpu_operator_launch(name, stream);
    try {
        if (!error)
            executor->compute(executor);
    } catch (const Unsupported &) {
        fprintf(stderr, "vnpu: %s has no values for this type of tensor: it computes nothing\n", name);
    } catch (const std::bad_alloc &) {
        error = ACL_ERROR_RT_FAILURE;
    }
    executor->destroy(executor);
    return error;
}
} // namespace vnpu
