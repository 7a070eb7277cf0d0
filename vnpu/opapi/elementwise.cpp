/* elementwise.cpp - operators that go element by element, with their forms in place, with scalars and for lists of tensors. */
#include <cmath>

#include "each.h"

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
UNARY(Ceil, [](double x) { return std::ceil(x); })
UNARY(Floor, [](double x) { return std::floor(x); })
UNARY(Round, [](double x) { return std::nearbyint(x); })
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
BINARY(BitwiseAndTensor, [](double a, double b) { return (double)((int64_t)a & (int64_t)b); })
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

OPERATOR(aclnnInplaceLogicalAnd, (aclTensor * self, const aclTensor *other), (self, other))
{
    each(self, self, other, both);
}

OPERATOR(aclnnInplaceLogicalOr, (aclTensor * self, const aclTensor *other), (self, other))
{
    each(self, self, other, either);
}

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
