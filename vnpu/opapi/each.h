/* each.h - a function for each element of up to three tensors, which are broadcast to the shape of the output. */
#ifndef VNPU_OPAPI_EACH_H
#define VNPU_OPAPI_EACH_H

#include "tensor.h"

namespace vnpu
{
template <class F> void each(const aclTensor *out, const aclTensor *a, F f)
{
    Values values = read(a, shape(out));
    for (double &v : values)
        v = f(v);
    write(out, values);
}

template <class F> void each(const aclTensor *out, const aclTensor *a, const aclTensor *b, F f)
{
    Values x = read(a, shape(out)), y = read(b, shape(out));
    for (size_t i = 0; i < x.size(); i++)
        x[i] = f(x[i], y[i]);
    write(out, x);
}

template <class F> void each(const aclTensor *out, const aclTensor *a, const aclTensor *b, const aclTensor *c, F f)
{
    Values x = read(a, shape(out)), y = read(b, shape(out)), z = read(c, shape(out));
    for (size_t i = 0; i < x.size(); i++)
        x[i] = f(x[i], y[i], z[i]);
    write(out, x);
}
} // namespace vnpu

#endif
