/*
 * tensor.h - the values of tensors as doubles in row-major order, whatever their type and strides, and the frame of an operator.
 * Slow and simple: every operator reads its inputs whole, computes, and writes its output.
 */
#ifndef VNPU_OPAPI_TENSOR_H
#define VNPU_OPAPI_TENSOR_H

#include <cstdint>
#include <exception>
#include <vector>

#include "../common/export.h"
#include "../nnop/objects.h"
#include "../nnop/operator.h"

namespace vnpu
{
using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

Shape shape(const aclTensor *tensor);
int64_t count(const Shape &shape);
inline int64_t count(const aclTensor *tensor)
{
    return count(shape(tensor));
}
/* The shape that tensors of both shapes broadcast to. */
Shape broadcast(const Shape &a, const Shape &b);

/* Throw Unsupported when the type is one that has no values here. */
struct Unsupported : std::exception {};
Values read(const aclTensor *tensor);
Values read(const aclTensor *tensor, const Shape &broadcast);
void write(const aclTensor *tensor, const Values &values);
double number(const aclScalar *scalar);

/* Dimension `dim`, which may count from the end, as 0 to dims - 1. */
int64_t positive(int64_t dim, int64_t dims);
/* A tensor as outer x size x inner around one of its dimensions. */
struct Around {
    int64_t outer = 1, size = 1, inner = 1;
    Around(const Shape &shape, int64_t dim);
};

template <class Compute>
aclnnStatus prepare(const char *name, Compute compute, uint64_t *size, aclOpExecutor **executor)
{
    struct Call : aclOpExecutor {
        Compute compute;
        explicit Call(Compute c)
            : aclOpExecutor{[](aclOpExecutor *e) { static_cast<Call *>(e)->compute(); },
                            [](aclOpExecutor *e) { delete static_cast<Call *>(e); }},
              compute(c)
        {
        }
    };
    if (!size || !executor)
        return ACL_ERROR_INVALID_PARAM;
    *executor = new Call(compute);
    return vnpu_operator_workspace(name, size);
}

/* Launches the kernel, computes and ends the executor. */
aclnnStatus launch(const char *name, aclOpExecutor *executor, aclrtStream stream);
} // namespace vnpu

#define VNPU_UNPACK(...) __VA_ARGS__
/* OPERATOR(aclnnX, (parameters), (arguments)) { … }: both functions of an operator, the body of which computes it. */
#define OPERATOR(name, parameters, arguments)                                                           \
    static void name##_compute parameters;                                                              \
    extern "C" VNPU_API aclnnStatus name##GetWorkspaceSize(VNPU_UNPACK parameters, uint64_t *size_,     \
                                                           aclOpExecutor **executor_)                   \
    {                                                                                                   \
        return vnpu::prepare(#name, [=] { name##_compute arguments; }, size_, executor_);               \
    }                                                                                                   \
    extern "C" VNPU_API aclnnStatus name(void *, uint64_t, aclOpExecutor *executor, aclrtStream stream) \
    {                                                                                                   \
        return vnpu::launch(#name, executor, stream);                                                   \
    }                                                                                                   \
    static void name##_compute parameters

#endif
