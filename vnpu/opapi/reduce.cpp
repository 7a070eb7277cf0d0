/* reduce.cpp - operators that go along dimensions: sums, extremes, norms, concatenation. */
#include <algorithm>
#include <cmath>

#include "tensor.h"

using namespace vnpu;

namespace
{
/* For each element of the input, the place of its result. `dims` NULL or empty: one result. */
std::vector<int64_t> places(const Shape &sizes, const aclIntArray *dims, int64_t *results)
{
    std::vector<bool> gone(sizes.size(), !dims || !dims->size);
    for (uint64_t i = 0; dims && i < dims->size; i++)
        gone[positive(dims->values[i], (int64_t)sizes.size())] = true;
    Shape strides(sizes.size());
    int64_t whole = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
        strides[d] = gone[d] ? 0 : whole;
        whole *= gone[d] ? 1 : sizes[d];
    }
    *results = whole;
    std::vector<int64_t> place(count(sizes));
    Shape index(sizes.size());
    int64_t at = 0;
    for (int64_t &p : place) {
        p = at;
        for (size_t d = sizes.size(); d-- > 0;) {
            at += strides[d];
            if (++index[d] < sizes[d])
                break;
            at -= index[d] * strides[d];
            index[d] = 0;
        }
    }
    return place;
}

template <class F> void reduce(const aclTensor *self, const aclIntArray *dims, aclTensor *out, double first, F f)
{
    int64_t results;
    Values x = read(self);
    std::vector<int64_t> place = places(shape(self), dims, &results);
    Values y(results, first);
    for (size_t i = 0; i < x.size(); i++)
        y[place[i]] = f(y[place[i]], x[i]);
    write(out, y);
}

double sum(double a, double b)
{
    return a + b;
}

void norm(const aclTensor *self, double p, const aclIntArray *dims, aclTensor *out)
{
    if (std::isinf(p))
        return reduce(self, dims, out, 0, [](double a, double b) { return std::max(a, std::fabs(b)); });
    reduce(self, dims, out, 0, [p](double a, double b) { return a + std::pow(std::fabs(b), p); });
    Values y = read(out);
    for (double &v : y)
        v = std::pow(v, 1 / p);
    write(out, y);
}
} // namespace

OPERATOR(aclnnReduceSum, (const aclTensor *self, const aclIntArray *dims, bool keep, aclDataType type, aclTensor *out),
         (self, dims, keep, type, out))
{
    (void)keep, (void)type;
    reduce(self, dims, out, 0, sum);
}

OPERATOR(aclnnMean, (const aclTensor *self, const aclIntArray *dims, bool keep, aclDataType type, aclTensor *out),
         (self, dims, keep, type, out))
{
    (void)keep, (void)type;
    double n = (double)count(self) / (double)std::max<int64_t>(count(out), 1);
    reduce(self, dims, out, 0, [n](double a, double b) { return a + b / n; });
}

OPERATOR(aclnnAny, (const aclTensor *self, const aclIntArray *dims, bool keep, aclTensor *out), (self, dims, keep, out))
{
    (void)keep;
    reduce(self, dims, out, 0, [](double a, double b) { return a != 0 || b != 0; });
}

OPERATOR(aclnnAll, (const aclTensor *self, const aclIntArray *dims, bool keep, aclTensor *out), (self, dims, keep, out))
{
    (void)keep;
    reduce(self, dims, out, 1, [](double a, double b) { return a != 0 && b != 0; });
}

OPERATOR(aclnnMax, (const aclTensor *self, aclTensor *out), (self, out))
{
    reduce(self, nullptr, out, -INFINITY, [](double a, double b) { return std::max(a, b); });
}

OPERATOR(aclnnMin, (const aclTensor *self, aclTensor *out), (self, out))
{
    reduce(self, nullptr, out, INFINITY, [](double a, double b) { return std::min(a, b); });
}

OPERATOR(aclnnNorm, (const aclTensor *self, const aclScalar *p, const aclIntArray *dims, bool keep, aclTensor *out),
         (self, p, dims, keep, out))
{
    (void)keep;
    norm(self, p ? number(p) : 2, dims, out);
}

OPERATOR(aclnnLinalgVectorNorm,
         (const aclTensor *self, const aclScalar *p, const aclIntArray *dims, bool keep, aclDataType type,
          aclTensor *out),
         (self, p, dims, keep, type, out))
{
    (void)keep, (void)type;
    norm(self, number(p), dims, out);
}

OPERATOR(aclnnForeachNorm, (const aclTensorList *x, const aclScalar *p, aclTensorList *out), (x, p, out))
{
    for (uint64_t i = 0; i < x->size; i++)
        norm(x->values[i], number(p), nullptr, const_cast<aclTensor *>(out->values[i]));
}

/* The largest along a dimension, the first of several, and its index; either may be NULL. */
static void largest(const aclTensor *self, int64_t dim, aclTensor *value, aclTensor *place)
{
    Values x = read(self);
    Around around(shape(self), dim);
    Values best(around.outer * around.inner), at(best.size());
    for (int64_t o = 0; o < around.outer; o++)
        for (int64_t i = 0; i < around.inner; i++)
            for (int64_t s = 0; s < around.size; s++) {
                double v = x[(o * around.size + s) * around.inner + i], &b = best[o * around.inner + i];
                if (s == 0 || v > b) {
                    b = v;
                    at[o * around.inner + i] = (double)s;
                }
            }
    if (value)
        write(value, best);
    if (place)
        write(place, at);
}

OPERATOR(aclnnArgMax, (const aclTensor *self, int64_t dim, bool keep, aclTensor *out), (self, dim, keep, out))
{
    (void)keep;
    largest(self, dim, nullptr, out);
}

OPERATOR(aclnnMaxDim, (const aclTensor *self, int64_t dim, bool keep, aclTensor *out, aclTensor *place),
         (self, dim, keep, out, place))
{
    (void)keep;
    largest(self, dim, out, place);
}

OPERATOR(aclnnCat, (const aclTensorList *tensors, int64_t dim, aclTensor *out), (tensors, dim, out))
{
    Around whole(shape(out), dim);
    Values y(count(out));
    int64_t begin = 0;
    for (uint64_t t = 0; t < tensors->size; t++) {
        const aclTensor *tensor = tensors->values[t];
        if (tensor->dims != out->dims) /* an empty one, of the shape [0] */
            continue;
        Values x = read(tensor);
        Around part(shape(tensor), dim);
        int64_t run = part.size * part.inner;
        for (int64_t o = 0; o < part.outer; o++)
            std::copy_n(&x[o * run], run, &y[(o * whole.size + begin) * whole.inner]);
        begin += part.size;
    }
    write(out, y);
}

/* Each tensor in as many chunks along its first dimension, filled up with zeros; chunk by chunk, one tensor behind another. */
OPERATOR(aclnnChunkCat, (const aclTensorList *tensors, int64_t dim, int64_t chunks, aclTensor *out),
         (tensors, dim, chunks, out))
{
    if (dim != 0)
        throw Unsupported();
    int64_t row = count(out) / chunks, begin = 0;
    Values y(count(out));
    for (uint64_t t = 0; t < tensors->size; t++) {
        Shape sizes = shape(tensors->values[t]);
        Values x = read(tensors->values[t]);
        int64_t part = (sizes[0] + chunks - 1) / chunks * (count(sizes) / sizes[0]);
        for (int64_t i = 0; i < (int64_t)x.size(); i++)
            y[i / part * row + begin + i % part] = x[i];
        begin += part;
    }
    write(out, y);
}

OPERATOR(aclnnStack, (const aclTensorList *tensors, int64_t dim, aclTensor *out), (tensors, dim, out))
{
    Around whole(shape(out), dim);
    Values y(count(out));
    for (uint64_t t = 0; t < tensors->size; t++) {
        Values x = read(tensors->values[t]);
        for (int64_t o = 0; o < whole.outer; o++)
            std::copy_n(&x[o * whole.inner], whole.inner, &y[(o * whole.size + (int64_t)t) * whole.inner]);
    }
    write(out, y);
}

static void triangle(const aclTensor *self, int64_t diagonal, bool upper, aclTensor *out)
{
    Values x = read(self);
    int64_t rows = self->sizes[self->dims - 2], columns = self->sizes[self->dims - 1];
    for (int64_t i = 0; i < (int64_t)x.size(); i++) {
        int64_t above = i % columns - i / columns % rows;
        if (upper ? above < diagonal : above > diagonal)
            x[i] = 0;
    }
    write(out, x);
}

OPERATOR(aclnnTril, (const aclTensor *self, int64_t diagonal, aclTensor *out), (self, diagonal, out))
{
    triangle(self, diagonal, false, out);
}

OPERATOR(aclnnTriu, (const aclTensor *self, int64_t diagonal, aclTensor *out), (self, diagonal, out))
{
    triangle(self, diagonal, true, out);
}
