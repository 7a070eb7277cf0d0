/*
 * sized.cpp - operators whose results are as large as the values say. The caller gives outputs of the largest size that there
 * can be; the launch makes their shape the true one, which the caller asks (aclGetViewShape).
 */
#include <algorithm>
#include <numeric>

#include "tensor.h"

using namespace vnpu;

namespace
{
/* Makes the output of this shape, without gaps, and writes it. A tensor without data is one that nobody wants. */
void resize(aclTensor *out, const Shape &sizes, const Values &values)
{
    if (!out || !out->data)
        return;
    int64_t whole = 1;
    out->dims = (int)sizes.size();
    for (int d = out->dims - 1; d >= 0; d--) {
        out->sizes[d] = sizes[d];
        out->strides[d] = whole;
        whole *= sizes[d];
    }
    write(out, values);
}

/* Places of what is not zero: a row for each, or with `columns` a column. */
void nonzero(const aclTensor *self, bool columns, aclTensor *out)
{
    Values x = read(self);
    std::vector<int64_t> found;
    for (size_t i = 0; i < x.size(); i++)
        if (x[i] != 0)
            found.push_back((int64_t)i);
    int64_t n = (int64_t)found.size(), dims = self->dims;
    Values places(n * dims);
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = dims, rest = found[i]; d-- > 0; rest /= self->sizes[d])
            places[columns ? d * n + i : i * dims + d] = (double)(rest % self->sizes[d]);
    resize(out, columns ? Shape{dims, n} : Shape{n, dims}, places);
}

/*
 * The slices along a dimension, each different one once: in ascending order, or only neighbours compared. Without a
 * dimension, elements. Which of these each slice is, and how many each is.
 */
void unique(const aclTensor *self, bool sorted, const int64_t *dim, aclTensor *value, aclTensor *inverse,
            aclTensor *counts)
{
    Values x = read(self);
    Shape sizes = dim ? shape(self) : Shape{count(self)};
    int64_t along = dim ? positive(*dim, (int64_t)sizes.size()) : 0;
    Around around(sizes, along);
    std::vector<Values> slices(around.size);
    for (int64_t s = 0; s < around.size; s++)
        for (int64_t o = 0; o < around.outer; o++)
            slices[s].insert(slices[s].end(), &x[(o * around.size + s) * around.inner],
                             &x[(o * around.size + s) * around.inner] + around.inner);
    std::vector<int64_t> order(slices.size());
    std::iota(order.begin(), order.end(), 0);
    if (sorted)
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices[a] < slices[b]; });
    std::vector<int64_t> firsts;
    Values which(slices.size()), times;
    for (int64_t s : order) {
        if (firsts.empty() || slices[s] != slices[firsts.back()]) {
            firsts.push_back(s);
            times.push_back(0);
        }
        times.back()++;
        which[s] = (double)firsts.size() - 1;
    }
    sizes[along] = (int64_t)firsts.size();
    Values out;
    for (int64_t o = 0; o < around.outer; o++)
        for (int64_t s : firsts)
            out.insert(out.end(), &slices[s][o * around.inner], &slices[s][o * around.inner] + around.inner);
    resize(value, sizes, out);
    resize(inverse, dim ? Shape{around.size} : shape(self), which);
    resize(counts, {(int64_t)firsts.size()}, times);
}
} // namespace

OPERATOR(aclnnMaskedSelect, (const aclTensor *self, const aclTensor *mask, aclTensor *out), (self, mask, out))
{
    Shape both = broadcast(shape(self), shape(mask));
    Values x = read(self, both), m = read(mask, both), chosen;
    for (size_t i = 0; i < x.size(); i++)
        if (m[i] != 0)
            chosen.push_back(x[i]);
    resize(out, {(int64_t)chosen.size()}, chosen);
}

OPERATOR(aclnnNonzero, (const aclTensor *self, aclTensor *out), (self, out))
{
    nonzero(self, false, out);
}

OPERATOR(aclnnNonzeroV2, (const aclTensor *self, aclTensor *out), (self, out))
{
    nonzero(self, true, out);
}

/* What need not be sorted may be. */
OPERATOR(aclnnUnique, (const aclTensor *self, bool sorted, bool with_inverse, aclTensor *value, aclTensor *inverse),
         (self, sorted, with_inverse, value, inverse))
{
    (void)sorted;
    unique(self, true, nullptr, value, with_inverse ? inverse : nullptr, nullptr);
}

OPERATOR(aclnnUnique2,
         (const aclTensor *self, bool sorted, bool with_inverse, bool with_counts, aclTensor *value, aclTensor *inverse,
          aclTensor *counts),
         (self, sorted, with_inverse, with_counts, value, inverse, counts))
{
    (void)sorted;
    unique(self, true, nullptr, value, with_inverse ? inverse : nullptr, with_counts ? counts : nullptr);
}

OPERATOR(aclnnUniqueDim,
         (const aclTensor *self, bool sorted, bool with_inverse, int64_t dim, aclTensor *value, aclTensor *inverse,
          aclTensor *counts),
         (self, sorted, with_inverse, dim, value, inverse, counts))
{
    (void)sorted;
    unique(self, true, &dim, value, with_inverse ? inverse : nullptr, counts);
}

/* `dim` is 1000 where no dimension is meant. */
OPERATOR(aclnnUniqueConsecutive,
         (const aclTensor *self, bool with_inverse, bool with_counts, int64_t dim, aclTensor *value, aclTensor *inverse,
          aclTensor *counts),
         (self, with_inverse, with_counts, dim, value, inverse, counts))
{
    unique(self, false, dim < TENSOR_DIMS_MOST ? &dim : nullptr, value, with_inverse ? inverse : nullptr,
           with_counts ? counts : nullptr);
}
