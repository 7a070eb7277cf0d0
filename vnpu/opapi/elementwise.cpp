/* elementwise.cpp - operators that go element by element, with their forms in place, with scalars and for lists of tensors. */
#include <cmath>

#include "tensor.h"

using namespace vnpu;

namespace
{
double add(double a, double b, double alpha)
{
    return a + alpha * b;
}
double subtract(double a, double b, double alpha)
{
    return a - alpha * b;
}
double multiply(double a, double b)
{
    return a * b;
}
double divide(double a, double b)
{
    return a / b;
}
double larger(double a, double b)
{
    return a != a || b != b ? NAN : a > b ? a : b;
}
double smaller(double a, double b)
{
    return a != a || b != b ? NAN : a < b ? a : b;
}
double power(double a, double b)
{
    return std::pow(a, b);
}
double equal(double a, double b)
{
    return a == b;
}
double unequal(double a, double b)
{
    return a != b;
}
double greater(double a, double b)
{
    return a > b;
}
double less(double a, double b)
{
    return a < b;
}
double at_least(double a, double b)
{
    return a >= b;
}
double at_most(double a, double b)
{
    return a <= b;
}
double both(double a, double b)
{
    return a != 0 && b != 0;
}
double either(double a, double b)
{
    return a != 0 || b != 0;
}
double negate(double x)
{
    return -x;
}
double rectify(double x)
{
    return x > 0 ? x : 0;
}
double reciprocal(double x)
{
    return 1 / x;
}
double reciprocal_root(double x)
{
    return 1 / std::sqrt(x);
}
double sigmoid(double x)
{
    return 1 / (1 + std::exp(-x));
}
double silu(double x)
{
    return x * sigmoid(x);
}
double nothing(double x)
{
    return x == 0;
}
double is_finite(double x)
{
    return std::isfinite(x);
}
double gelu(double x)
{
    return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
}
const double tanh_factor = 0.7978845608028654; /* sqrt(2 / pi) */
double gelu_tanh(double x)
{
    return 0.5 * x * (1 + std::tanh(tanh_factor * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x)
{
    return 0.5 * (1 + std::erf(x * M_SQRT1_2)) + x * std::exp(-0.5 * x * x) * M_2_SQRTPI * M_SQRT1_2 * 0.5;
}
double gelu_tanh_slope(double x)
{
    double t = std::tanh(tanh_factor * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * tanh_factor * (1 + 3 * 0.044715 * x * x);
}
double silu_slope(double x)
{
    double s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

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
} // namespace

#define UNARY(name, f)                                                                   \
    OPERATOR(aclnn##name, (const aclTensor *self, aclTensor *out), (self, out))          \
    {                                                                                    \
        each(out, self, f);                                                              \
    }                                                                                    \
    OPERATOR(aclnnInplace##name, (aclTensor * self), (self))                             \
    {                                                                                    \
        each(self, self, f);                                                             \
    }                                                                                    \
    OPERATOR(aclnnForeach##name, (const aclTensorList *x, aclTensorList *out), (x, out)) \
    {                                                                                    \
        for (uint64_t i = 0; i < x->size; i++)                                           \
            each(out->values[i], x->values[i], f);                                       \
    }
UNARY(Sqrt, [](double x) { return std::sqrt(x); })
UNARY(Rsqrt, reciprocal_root)
UNARY(Reciprocal, reciprocal)
UNARY(Exp, [](double x) { return std::exp(x); })
UNARY(Log, [](double x) { return std::log(x); })
UNARY(Tanh, [](double x) { return std::tanh(x); })
UNARY(Abs, [](double x) { return std::fabs(x); })
UNARY(Neg, negate)
UNARY(Relu, rectify)
UNARY(Sigmoid, sigmoid)
UNARY(Silu, silu)
UNARY(Sin, [](double x) { return std::sin(x); })
UNARY(Cos, [](double x) { return std::cos(x); })
UNARY(Gelu, gelu)
UNARY(LogicalNot, nothing)
UNARY(IsFinite, is_finite)

/* With a factor for the second operand. */
#define SUM(name, f)                                                                                                  \
    OPERATOR(aclnn##name, (const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out),    \
             (self, other, alpha, out))                                                                               \
    {                                                                                                                 \
        double k = number(alpha);                                                                                     \
        each(out, self, other, [k](double a, double b) { return f(a, b, k); });                                       \
    }                                                                                                                 \
    OPERATOR(aclnnInplace##name, (aclTensor * self, const aclTensor *other, const aclScalar *alpha),                  \
             (self, other, alpha))                                                                                    \
    {                                                                                                                 \
        aclnn##name##_compute(self, other, alpha, self);                                                              \
    }                                                                                                                 \
    OPERATOR(aclnn##name##s, (const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out), \
             (self, other, alpha, out))                                                                               \
    {                                                                                                                 \
        double b = number(other), k = number(alpha);                                                                  \
        each(out, self, [=](double a) { return f(a, b, k); });                                                        \
    }                                                                                                                 \
    OPERATOR(aclnnInplace##name##s, (aclTensor * self, const aclScalar *other, const aclScalar *alpha),               \
             (self, other, alpha))                                                                                    \
    {                                                                                                                 \
        aclnn##name##s_compute(self, other, alpha, self);                                                             \
    }                                                                                                                 \
    OPERATOR(aclnnForeach##name##ListV2,                                                                              \
             (const aclTensorList *x, const aclTensorList *y, const aclScalar *alpha, aclTensorList *out),            \
             (x, y, alpha, out))                                                                                      \
    {                                                                                                                 \
        for (uint64_t i = 0; i < x->size; i++)                                                                        \
            aclnn##name##_compute(x->values[i], y->values[i], alpha, const_cast<aclTensor *>(out->values[i]));        \
    }                                                                                                                 \
    OPERATOR(aclnnForeach##name##ScalarV2, (const aclTensorList *x, const aclScalar *s, aclTensorList *out),          \
             (x, s, out))                                                                                             \
    {                                                                                                                 \
        double b = number(s);                                                                                         \
        for (uint64_t i = 0; i < x->size; i++)                                                                        \
            each(out->values[i], x->values[i], [b](double a) { return f(a, b, 1); });                                 \
    }
SUM(Add, add)
SUM(Sub, subtract)

#define PRODUCT(name, f)                                                                                           \
    OPERATOR(aclnn##name, (const aclTensor *self, const aclTensor *other, aclTensor *out), (self, other, out))     \
    {                                                                                                              \
        each(out, self, other, f);                                                                                 \
    }                                                                                                              \
    OPERATOR(aclnnInplace##name, (aclTensor * self, const aclTensor *other), (self, other))                        \
    {                                                                                                              \
        each(self, self, other, f);                                                                                \
    }                                                                                                              \
    OPERATOR(aclnn##name##s, (const aclTensor *self, const aclScalar *other, aclTensor *out), (self, other, out))  \
    {                                                                                                              \
        double b = number(other);                                                                                  \
        each(out, self, [b](double a) { return f(a, b); });                                                        \
    }                                                                                                              \
    OPERATOR(aclnnInplace##name##s, (aclTensor * self, const aclScalar *other), (self, other))                     \
    {                                                                                                              \
        aclnn##name##s_compute(self, other, self);                                                                 \
    }                                                                                                              \
    OPERATOR(aclnnForeach##name##List, (const aclTensorList *x, const aclTensorList *y, aclTensorList *out),       \
             (x, y, out))                                                                                          \
    {                                                                                                              \
        for (uint64_t i = 0; i < x->size; i++)                                                                     \
            each(out->values[i], x->values[i], y->values[i], f);                                                   \
    }                                                                                                              \
    OPERATOR(aclnnForeach##name##ScalarV2, (const aclTensorList *x, const aclScalar *s, aclTensorList *out),       \
             (x, s, out))                                                                                          \
    {                                                                                                              \
        for (uint64_t i = 0; i < x->size; i++)                                                                     \
            aclnn##name##s_compute(x->values[i], s, const_cast<aclTensor *>(out->values[i]));                      \
    }                                                                                                              \
    OPERATOR(aclnnForeach##name##ScalarList, (const aclTensorList *x, const aclScalarList *s, aclTensorList *out), \
             (x, s, out))                                                                                          \
    {                                                                                                              \
        for (uint64_t i = 0; i < x->size; i++)                                                                     \
            aclnn##name##s_compute(x->values[i], s->values[i], const_cast<aclTensor *>(out->values[i]));           \
    }
PRODUCT(Mul, multiply)
PRODUCT(Div, divide)

#define BINARY(name, f)                                                                                        \
    OPERATOR(aclnn##name, (const aclTensor *self, const aclTensor *other, aclTensor *out), (self, other, out)) \
    {                                                                                                          \
        each(out, self, other, f);                                                                             \
    }
#define WITH_SCALAR(name, f)                                                                                   \
    OPERATOR(aclnn##name, (const aclTensor *self, const aclScalar *other, aclTensor *out), (self, other, out)) \
    {                                                                                                          \
        double b = number(other);                                                                              \
        each(out, self, [b](double a) { return f(a, b); });                                                    \
    }
BINARY(Maximum, larger)
BINARY(Minimum, smaller)
BINARY(LogicalAnd, both)
BINARY(LogicalOr, either)
BINARY(EqTensor, equal)
BINARY(NeTensor, unequal)
BINARY(GtTensor, greater)
BINARY(LtTensor, less)
BINARY(GeTensor, at_least)
BINARY(LeTensor, at_most)
BINARY(PowTensorTensor, power)
WITH_SCALAR(EqScalar, equal)
WITH_SCALAR(NeScalar, unequal)
WITH_SCALAR(GtScalar, greater)
WITH_SCALAR(LtScalar, less)
WITH_SCALAR(GeScalar, at_least)
WITH_SCALAR(LeScalar, at_most)
WITH_SCALAR(PowTensorScalar, power)
WITH_SCALAR(ClampMin, larger)
WITH_SCALAR(ClampMax, smaller)

OPERATOR(aclnnClamp, (const aclTensor *self, const aclScalar *low, const aclScalar *high, aclTensor *out),
         (self, low, high, out))
{
    double from = low ? number(low) : -INFINITY, to = high ? number(high) : INFINITY;
    each(out, self, [=](double x) { return smaller(larger(x, from), to); });
}

OPERATOR(aclnnSWhere, (const aclTensor *condition, const aclTensor *self, const aclTensor *other, aclTensor *out),
         (condition, self, other, out))
{
    each(out, condition, self, other, [](double c, double a, double b) { return c != 0 ? a : b; });
}

/* ------------------------------------------------------------------ slopes: the gradient of the input from that of the output */

#define SLOPE(name, f)                                                                                         \
    OPERATOR(aclnn##name, (const aclTensor *grad, const aclTensor *known, aclTensor *out), (grad, known, out)) \
    {                                                                                                          \
        each(out, grad, known, [](double g, double x) { return g * (f); });                                    \
    }
SLOPE(TanhBackward, 1 - x * x)
SLOPE(SigmoidBackward, x * (1 - x))
SLOPE(GeluBackward, gelu_slope(x))
SLOPE(SiluBackward, silu_slope(x))

OPERATOR(aclnnGeluV2, (const aclTensor *self, int64_t tanh, aclTensor *out), (self, tanh, out))
{
    each(out, self, tanh ? gelu_tanh : gelu);
}

/* `approximate` is "none" or "tanh"; its text is gone when the operator runs. */
extern "C" VNPU_API aclnnStatus aclnnGeluBackwardV2GetWorkspaceSize(const aclTensor *grad, const aclTensor *self,
                                                                    const char *approximate, aclTensor *out,
                                                                    uint64_t *size, aclOpExecutor **executor)
{
    auto slope = approximate && *approximate == 't' ? gelu_tanh_slope : gelu_slope;
    auto compute = [=] { each(out, grad, self, [slope](double g, double x) { return g * slope(x); }); };
    return prepare("aclnnGeluBackwardV2", compute, size, executor);
}

extern "C" VNPU_API aclnnStatus aclnnGeluBackwardV2(void *, uint64_t, aclOpExecutor *executor, aclrtStream stream)
{
    return launch("aclnnGeluBackwardV2", executor, stream);
}

OPERATOR(aclnnThresholdBackward,
         (const aclTensor *grad, const aclTensor *self, const aclScalar *threshold, aclTensor *out),
         (grad, self, threshold, out))
{
    double t = number(threshold);
    each(out, grad, self, [t](double g, double x) { return x > t ? g : 0; });
}

/* ------------------------------------------------------------------ steps of optimizers */

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
        double spread = amsgrad ? top[i] = larger(top[i], second[i]) : second[i];
        w[i] = w[i] * (1 - lr * decay) - lr / c1 * first[i] / (std::sqrt(spread / c2) + epsilon);
    }
    write(var, w);
    write(m, first);
    write(v, second);
    if (amsgrad)
        write(highest, top);
}
