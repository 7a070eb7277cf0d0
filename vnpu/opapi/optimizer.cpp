/* optimizer.cpp - steps of optimizers: what their loops over tensors are made of, and Adam in one piece. */
#include <algorithm>
#include <cmath>

#include "each.h"

using namespace vnpu;

#define FUSED(name, f)                                                                                                \
    OPERATOR(aclnn##name,                                                                                             \
             (const aclTensor *self, const aclTensor *a, const aclTensor *b, const aclScalar *value, aclTensor *out), \
             (self, a, b, value, out))                                                                                \
    {                                                                                                                 \
        double k = number(value);                                                                                     \
        each(out, self, a, b, [k](double s, double x, double y) { return f; });                                       \
    }                                                                                                                 \
    OPERATOR(aclnnInplace##name, (aclTensor * self, const aclTensor *a, const aclTensor *b, const aclScalar *value),  \
             (self, a, b, value))                                                                                     \
    {                                                                                                                 \
        aclnn##name##_compute(self, a, b, value, self);                                                               \
    }                                                                                                                 \
    OPERATOR(aclnnForeach##name##ScalarV2,                                                                            \
             (const aclTensorList *self, const aclTensorList *a, const aclTensorList *b, const aclScalar *value,      \
              aclTensorList *out),                                                                                    \
             (self, a, b, value, out))                                                                                \
    {                                                                                                                 \
        for (uint64_t i = 0; i < self->size; i++)                                                                     \
            aclnn##name##_compute(self->values[i], a->values[i], b->values[i], value,                                 \
                                  const_cast<aclTensor *>(out->values[i]));                                           \
    }                                                                                                                 \
    /* `values`: a tensor with one for each */                                                                        \
    OPERATOR(aclnnForeach##name##ScalarList,                                                                          \
             (const aclTensorList *self, const aclTensorList *a, const aclTensorList *b, const aclTensor *values,     \
              aclTensorList *out),                                                                                    \
             (self, a, b, values, out))                                                                               \
    {                                                                                                                 \
        Values factors = read(values);                                                                                \
        for (uint64_t i = 0; i < self->size; i++) {                                                                   \
            double k = factors[i];                                                                                    \
            each(out->values[i], self->values[i], a->values[i], b->values[i],                                         \
                 [k](double s, double x, double y) { return f; });                                                    \
        }                                                                                                             \
    }
FUSED(Addcmul, s + k * x * y)
FUSED(Addcdiv, s + k * x / y)

OPERATOR(aclnnLerps, (const aclTensor *self, const aclTensor *end, const aclScalar *weight, aclTensor *out),
         (self, end, weight, out))
{
    double w = number(weight);
    each(out, self, end, [w](double a, double b) { return a + w * (b - a); });
}

OPERATOR(aclnnInplaceLerps, (aclTensor * self, const aclTensor *end, const aclScalar *weight), (self, end, weight))
{
    aclnnLerps_compute(self, end, weight, self);
}

OPERATOR(aclnnForeachLerpScalar,
         (const aclTensorList *x, const aclTensorList *end, const aclScalar *weight, aclTensorList *out),
         (x, end, weight, out))
{
    double w = number(weight);
    for (uint64_t i = 0; i < x->size; i++)
        each(out->values[i], x->values[i], end->values[i], [w](double a, double b) { return a + w * (b - a); });
}

/* `step` counts those before. */
OPERATOR(aclnnApplyAdamWV2,
         (aclTensor * var, aclTensor *m, aclTensor *v, aclTensor *highest, const aclTensor *grad, const aclTensor *step,
          float lr, float beta1, float beta2, float decay, float epsilon, bool amsgrad, bool maximize),
         (var, m, v, highest, grad, step, lr, beta1, beta2, decay, epsilon, amsgrad, maximize))
{
    Values w = read(var), first = read(m), second = read(v), g = read(grad), top = amsgrad ? read(highest) : Values();
    double t = read(step)[0] + 1, c1 = 1 - std::pow(beta1, t), c2 = 1 - std::pow(beta2, t);
    for (size_t i = 0; i < w.size(); i++) {
        double slope = maximize ? -g[i] : g[i];
        first[i] += (1 - beta1) * (slope - first[i]);
        second[i] = beta2 * second[i] + (1 - beta2) * slope * slope;
        double spread = amsgrad ? top[i] = std::max(top[i], second[i]) : second[i];
        w[i] = w[i] * (1 - lr * decay) - lr / c1 * first[i] / (std::sqrt(spread / c2) + epsilon);
    }
    write(var, w);
    write(m, first);
    write(v, second);
    if (amsgrad)
        write(highest, top);
}
