/* index.cpp - operators that take elements by their places, sort or move them. */
#include <algorithm>
#include <numeric>

#include "tensor.h"

using namespace vnpu;

/*
 * An index of the shape [0] stands for a whole dimension. The others are broadcast against each other, and their dimensions
 * come where the first of them is if they are neighbours, in front otherwise.
 */
OPERATOR(aclnnIndex, (const aclTensor *self, const aclTensorList *indices, aclTensor *out), (self, indices, out))
{
    Shape sizes = shape(self), wide, rest;
    auto whole = [&](size_t d) {
        return d >= indices->size || !indices->values[d] || shape(indices->values[d]) == Shape{0};
    };
    size_t first = sizes.size(), last = 0, taken = 0;
    for (size_t d = 0; d < sizes.size(); d++) {
        if (whole(d)) {
            rest.push_back(sizes[d]);
            continue;
        }
        wide = broadcast(wide, shape(indices->values[d]));
        first = std::min(first, d);
        last = d;
        taken++;
    }
    int64_t ahead = last - first + 1 == taken ? (int64_t)first : 0; /* dimensions before those of the indices */
    Shape before(rest.begin(), rest.begin() + ahead);
    int64_t n = count(wide), after = count(rest) / std::max<int64_t>(count(before), 1);
    std::vector<Values> at(sizes.size());
    for (size_t d = 0; d < sizes.size(); d++)
        if (!whole(d))
            at[d] = read(indices->values[d], wide);
    Values x = read(self), y(count(before) * n * after);
    for (int64_t i = 0; i < (int64_t)y.size(); i++) {
        int64_t which = i / after % n, other = i / after / n * after + i % after, from = 0, step = 1;
        for (size_t d = sizes.size(); d-- > 0; step *= sizes[d])
            if (whole(d)) {
                from += other % sizes[d] * step;
                other /= sizes[d];
            } else {
                from += positive((int64_t)at[d][which], sizes[d]) * step;
            }
        y[i] = x[from];
    }
    write(out, y);
}

OPERATOR(aclnnIndexSelect, (const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out),
         (self, dim, index, out))
{
    Around around(shape(self), dim);
    Values x = read(self), at = read(index), y;
    for (int64_t o = 0; o < around.outer; o++)
        for (double s : at)
            for (int64_t i = 0; i < around.inner; i++)
                y.push_back(x[(o * around.size + (int64_t)s) * around.inner + i]);
    write(out, y);
}

/* The index may be smaller than the tensor in every dimension. */
OPERATOR(aclnnGather, (const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out),
         (self, dim, index, out))
{
    Values x = read(self), at = read(index);
    Shape sizes = shape(self), small = shape(index);
    size_t along = positive(dim, (int64_t)sizes.size());
    for (size_t i = 0; i < at.size(); i++) {
        int64_t from = 0, step = 1, rest = (int64_t)i;
        for (size_t d = sizes.size(); d-- > 0; rest /= small[d], step *= sizes[d])
            from += (d == along ? (int64_t)at[i] : rest % small[d]) * step;
        at[i] = x[from];
    }
    write(out, at);
}

/* As many along a dimension as there is room for, in order, NaN being the largest, equal ones as they stand; and their places. */
static void sort(const aclTensor *self, int64_t dim, bool descending, aclTensor *value, aclTensor *place)
{
    Values x = read(self);
    Around from(shape(self), dim), to(shape(value), dim);
    Values y(count(value)), at(y.size());
    std::vector<int64_t> order(from.size);
    for (int64_t o = 0; o < from.outer; o++)
        for (int64_t i = 0; i < from.inner; i++) {
            auto element = [&](int64_t s) { return x[(o * from.size + s) * from.inner + i]; };
            auto less = [](double a, double b) { return a < b || (b != b && a == a); };
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                return descending ? less(element(b), element(a)) : less(element(a), element(b));
            });
            for (int64_t s = 0; s < to.size; s++) {
                y[(o * to.size + s) * to.inner + i] = element(order[s]);
                at[(o * to.size + s) * to.inner + i] = (double)order[s];
            }
        }
    write(value, y);
    write(place, at);
}

OPERATOR(aclnnSort,
         (const aclTensor *self, bool stable, int64_t dim, bool descending, aclTensor *value, aclTensor *place),
         (self, stable, dim, descending, value, place))
{
    (void)stable;
    sort(self, dim, descending, value, place);
}

OPERATOR(aclnnTopk,
         (const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor *value, aclTensor *place),
         (self, k, dim, largest, sorted, value, place))
{
    (void)k, (void)sorted;
    sort(self, dim, largest, value, place);
}

/* `policy` says how it is sorted. */
OPERATOR(aclnnTopkV2,
         (const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted, int64_t policy, aclTensor *value,
          aclTensor *place),
         (self, k, dim, largest, sorted, policy, value, place))
{
    (void)k, (void)sorted, (void)policy;
    sort(self, dim, largest, value, place);
}

/* `pad` has what goes before and behind each dimension, the last one first; less than 0 cuts off. */
OPERATOR(aclnnConstantPadNd, (const aclTensor *self, const aclIntArray *pad, const aclScalar *value, aclTensor *out),
         (self, pad, value, out))
{
    Values x = read(self), y(count(out), number(value));
    Shape from = shape(self), to = shape(out);
    for (int64_t i = 0; i < (int64_t)x.size(); i++) {
        int64_t at = 0, step = 1, rest = i;
        bool inside = true;
        for (size_t d = from.size(); d-- > 0; rest /= from[d], step *= to[d]) {
            size_t pair = 2 * (from.size() - 1 - d);
            int64_t place = rest % from[d] + (pair < pad->size ? pad->values[pair] : 0);
            inside = inside && place >= 0 && place < to[d];
            at += place * step;
        }
        if (inside)
            y[at] = x[i];
    }
    write(out, y);
}
