/* network.cpp - softmax, layer norm, losses, embedding, dropout, and their gradients. */
#include <cmath>
#include <random>

#include "tensor.h"

using namespace vnpu;

namespace
{
/* Calls `line` with the first element of each run along `dim`, its length and its step. */
template <class Line> void along(const Shape &shape, int64_t dim, Line line)
{
    Around around(shape, dim);
    for (int64_t o = 0; o < around.outer; o++)
        for (int64_t i = 0; i < around.inner; i++)
            line(o * around.size * around.inner + i, around.size, around.inner);
}

void softmax(const aclTensor *self, int64_t dim, bool logarithm, aclTensor *out)
{
    Values x = read(self);
    along(shape(self), dim, [&](int64_t first, int64_t n, int64_t step) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            most = std::fmax(most, x[first + i * step]);
        for (int64_t i = 0; i < n; i++)
            sum += std::exp(x[first + i * step] - most);
        for (int64_t i = 0; i < n; i++) {
            double &v = x[first + i * step];
            v = logarithm ? v - most - std::log(sum) : std::exp(v - most) / sum;
        }
    });
    write(out, x);
}

void softmax_slope(const aclTensor *grad, const aclTensor *output, int64_t dim, bool logarithm, aclTensor *out)
{
    Values g = read(grad), y = read(output, shape(grad));
    along(shape(grad), dim, [&](int64_t first, int64_t n, int64_t step) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += g[first + i * step] * (logarithm ? 1 : y[first + i * step]);
        for (int64_t i = 0; i < n; i++) {
            double &v = g[first + i * step], p = y[first + i * step];
            v = logarithm ? v - std::exp(p) * sum : p * (v - sum);
        }
    });
    write(out, g);
}
} // namespace

OPERATOR(aclnnSoftmax, (const aclTensor *self, int64_t dim, aclTensor *out), (self, dim, out))
{
    softmax(self, dim, false, out);
}

OPERATOR(aclnnLogSoftmax, (const aclTensor *self, int64_t dim, aclTensor *out), (self, dim, out))
{
    softmax(self, dim, true, out);
}

OPERATOR(aclnnSoftmaxBackward, (const aclTensor *grad, const aclTensor *output, int64_t dim, aclTensor *out),
         (grad, output, dim, out))
{
    softmax_slope(grad, output, dim, false, out);
}

OPERATOR(aclnnLogSoftmaxBackward, (const aclTensor *grad, const aclTensor *output, int64_t dim, aclTensor *out),
         (grad, output, dim, out))
{
    softmax_slope(grad, output, dim, true, out);
}

OPERATOR(aclnnLayerNorm,
         (const aclTensor *input, const aclIntArray *normalized, const aclTensor *weight, const aclTensor *bias,
          double epsilon, aclTensor *out, aclTensor *mean, aclTensor *rstd),
         (input, normalized, weight, bias, epsilon, out, mean, rstd))
{
    Values x = read(input), w = weight ? read(weight) : Values(), b = bias ? read(bias) : Values();
    int64_t n = count(Shape(normalized->values, normalized->values + normalized->size)), rows = (int64_t)x.size() / n;
    Values means(rows), scales(rows);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[r * n + i];
        means[r] = sum / (double)n;
        for (int64_t i = 0; i < n; i++)
            squares += std::pow(x[r * n + i] - means[r], 2);
        scales[r] = 1 / std::sqrt(squares / (double)n + epsilon);
        for (int64_t i = 0; i < n; i++)
            x[r * n + i] = (x[r * n + i] - means[r]) * scales[r] * (weight ? w[i] : 1) + (bias ? b[i] : 0);
    }
    write(out, x);
    if (mean)
        write(mean, means);
    if (rstd)
        write(rstd, scales);
}

/* `wanted` says which of the three gradients are. */
OPERATOR(aclnnLayerNormBackward,
         (const aclTensor *grad, const aclTensor *input, const aclIntArray *normalized, const aclTensor *mean,
          const aclTensor *rstd, const aclTensor *weight, const aclTensor *bias, const aclBoolArray *wanted,
          aclTensor *of_input, aclTensor *of_weight, aclTensor *of_bias),
         (grad, input, normalized, mean, rstd, weight, bias, wanted, of_input, of_weight, of_bias))
{
    (void)bias;
    Values g = read(grad), x = read(input), means = read(mean), scales = read(rstd),
           w = weight ? read(weight) : Values();
    int64_t n = count(Shape(normalized->values, normalized->values + normalized->size)), rows = (int64_t)x.size() / n;
    Values dx(x.size()), dw(n), db(n);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, product = 0;
        for (int64_t i = r * n; i < (r + 1) * n; i++) {
            double normal = (x[i] - means[r]) * scales[r], slope = g[i] * (weight ? w[i - r * n] : 1);
            dw[i - r * n] += g[i] * normal;
            db[i - r * n] += g[i];
            sum += slope;
            product += slope * normal;
        }
        for (int64_t i = r * n; i < (r + 1) * n; i++) {
            double normal = (x[i] - means[r]) * scales[r], slope = g[i] * (weight ? w[i - r * n] : 1);
            dx[i] = scales[r] * (slope - (sum + normal * product) / (double)n);
        }
    }
    if (of_input && wanted->values[0])
        write(of_input, dx);
    if (of_weight && wanted->values[1])
        write(of_weight, dw);
    if (of_bias && wanted->values[2])
        write(of_bias, db);
}

enum { NONE = 0, MEAN = 1 }; /* reductions of losses; 2 is the sum */

/* self: [rows, classes] or [classes] */
OPERATOR(aclnnNLLLoss,
         (const aclTensor *self, const aclTensor *target, const aclTensor *weight, int64_t reduction, int64_t ignored,
          aclTensor *out, aclTensor *total),
         (self, target, weight, reduction, ignored, out, total))
{
    Values x = read(self), t = read(target), w = weight ? read(weight) : Values(), losses(t.size());
    int64_t classes = self->sizes[self->dims - 1];
    double sum = 0, weights = 0;
    for (size_t r = 0; r < t.size(); r++) {
        int64_t c = (int64_t)t[r];
        if (c == ignored || c < 0 || c >= classes)
            continue;
        double k = weight ? w[c] : 1;
        losses[r] = -k * x[r * classes + c];
        sum += losses[r];
        weights += k;
    }
    write(out, reduction == NONE ? losses : Values(1, reduction == MEAN ? sum / weights : sum));
    write(total, Values(1, weights));
}

OPERATOR(aclnnNLLLossBackward,
         (const aclTensor *grad, const aclTensor *self, const aclTensor *target, const aclTensor *weight,
          int64_t reduction, int64_t ignored, const aclTensor *total, aclTensor *out),
         (grad, self, target, weight, reduction, ignored, total, out))
{
    Values g = read(grad), t = read(target), w = weight ? read(weight) : Values(), dx(count(self));
    int64_t classes = self->sizes[self->dims - 1];
    double scale = reduction == MEAN ? 1 / read(total)[0] : 1;
    for (size_t r = 0; r < t.size(); r++) {
        int64_t c = (int64_t)t[r];
        if (c != ignored && c >= 0 && c < classes)
            dx[r * classes + c] = -(weight ? w[c] : 1) * scale * g[g.size() == 1 ? 0 : r];
    }
    write(out, dx);
}

OPERATOR(aclnnMseLoss, (const aclTensor *self, const aclTensor *target, int64_t reduction, aclTensor *out),
         (self, target, reduction, out))
{
    Shape both = broadcast(shape(self), shape(target));
    Values x = read(self, both), t = read(target, both);
    double sum = 0;
    for (size_t i = 0; i < x.size(); i++)
        sum += x[i] = std::pow(x[i] - t[i], 2);
    write(out, reduction == NONE ? x : Values(1, reduction == MEAN ? sum / (double)x.size() : sum));
}

OPERATOR(aclnnMseLossBackward,
         (const aclTensor *grad, const aclTensor *self, const aclTensor *target, int64_t reduction, aclTensor *out),
         (grad, self, target, reduction, out))
{
    Values g = read(grad, shape(out)), x = read(self, shape(out)), t = read(target, shape(out));
    for (size_t i = 0; i < x.size(); i++)
        x[i] = 2 * (x[i] - t[i]) * g[i] / (reduction == MEAN ? (double)x.size() : 1);
    write(out, x);
}

OPERATOR(aclnnEmbedding, (const aclTensor *weight, const aclTensor *indices, aclTensor *out), (weight, indices, out))
{
    Values w = read(weight), index = read(indices), y(count(out));
    int64_t n = weight->sizes[1];
    for (size_t i = 0; i < index.size(); i++)
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] = w.at((int64_t)index[i] * n + j);
    write(out, y);
}

OPERATOR(aclnnEmbeddingDenseBackward,
         (const aclTensor *grad, const aclTensor *indices, uint64_t rows, int64_t padding, bool by_frequency,
          aclTensor *out),
         (grad, indices, rows, padding, by_frequency, out))
{
    Values g = read(grad), index = read(indices), dw(count(out)), uses(rows);
    int64_t n = out->sizes[1];
    for (double i : index)
        uses.at((size_t)i)++;
    for (size_t i = 0; i < index.size(); i++)
        for (int64_t j = 0; j < n && (int64_t)index[i] != padding; j++)
            dw.at((int64_t)index[i] * n + j) += g[i * n + j] / (by_frequency ? uses[(size_t)index[i]] : 1);
    write(out, dw);
}

/* A bit for each element, which is 1 with the probability 1 - p; the tensor has bytes. */
OPERATOR(aclnnDropoutGenMaskV2,
         (const aclIntArray *sizes, double p, int64_t seed, int64_t offset, aclDataType type, aclTensor *mask),
         (sizes, p, seed, offset, type, mask))
{
    (void)sizes, (void)type;
    std::seed_seq mix{seed, seed >> 32, offset};
    std::mt19937_64 engine(mix);
    std::bernoulli_distribution stays(1 - p);
    Values bytes(count(mask));
    for (double &byte : bytes)
        for (int bit = 0; bit < 8; bit++)
            byte += stays(engine) ? 1 << bit : 0;
    write(mask, bytes);
}

OPERATOR(aclnnDropoutDoMask, (const aclTensor *self, const aclTensor *mask, double p, aclTensor *out),
         (self, mask, p, out))
{
    Values x = read(self), m = read(mask);
    for (size_t i = 0; i < x.size(); i++)
        x[i] *= (uint8_t)m[i / 8] >> i % 8 & 1 ? 1 / (1 - p) : 0;
    write(out, x);
}
