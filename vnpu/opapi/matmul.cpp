/* matmul.cpp - products of matrices. The last argument says with which precision the real ones may compute. */
#include "tensor.h"

using namespace vnpu;

/* beta * self + alpha * a * b, of matrices or batches of them; without `self`, alpha * a * b. */
static void multiply(const aclTensor *self, const aclTensor *a, const aclTensor *b, double beta, double alpha,
                     aclTensor *out)
{
    Shape left = shape(a), right = shape(b), result;
    bool row = left.size() == 1, column = right.size() == 1; /* vectors are matrices of one row or column */
    if (row)
        left.insert(left.begin(), 1);
    if (column)
        right.push_back(1);
    int64_t m = left[left.size() - 2], k = left.back(), n = right.back();
    Shape batch = broadcast(Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2));
    Shape wide_left(batch), wide_right(batch);
    wide_left.insert(wide_left.end(), {m, k});
    wide_right.insert(wide_right.end(), {k, n});
    Values x = row ? read(a) : read(a, wide_left), y = column ? read(b) : read(b, wide_right);
    Values z = self ? read(self, shape(out)) : Values(count(batch) * m * n);
    for (double &value : z)
        value *= self ? beta : 0;
    for (int64_t i = 0; i < count(batch) * m; i++) {
        const double *from = &y[column ? 0 : i / m * k * n];
        double *to = &z[i * n];
        for (int64_t j = 0; j < k; j++) {
            double factor = alpha * x[(row ? 0 : i) * k + j];
            for (int64_t c = 0; c < n; c++)
                to[c] += factor * from[j * n + c];
        }
    }
    write(out, z);
}

#define PRODUCT(name)                                                                                 \
    OPERATOR(name, (const aclTensor *self, const aclTensor *other, aclTensor *out, int8_t precision), \
             (self, other, out, precision))                                                           \
    {                                                                                                 \
        (void)precision;                                                                              \
        multiply(nullptr, self, other, 0, 1, out);                                                    \
    }
PRODUCT(aclnnMatmul)
PRODUCT(aclnnMm)
PRODUCT(aclnnBatchMatMul)

#define SUM_AND_PRODUCT(name)                                                                       \
    OPERATOR(name,                                                                                  \
             (const aclTensor *self, const aclTensor *a, const aclTensor *b, const aclScalar *beta, \
              const aclScalar *alpha, aclTensor *out, int8_t precision),                            \
             (self, a, b, beta, alpha, out, precision))                                             \
    {                                                                                               \
        (void)precision;                                                                            \
        multiply(self, a, b, number(beta), number(alpha), out);                                     \
    }
SUM_AND_PRODUCT(aclnnAddmm)
SUM_AND_PRODUCT(aclnnBaddbmm)

OPERATOR(aclnnInplaceAddmm,
         (aclTensor * self, const aclTensor *a, const aclTensor *b, const aclScalar *beta, const aclScalar *alpha,
          int8_t precision),
         (self, a, b, beta, alpha, precision))
{
    (void)precision;
    multiply(self, a, b, number(beta), number(alpha), self);
}
