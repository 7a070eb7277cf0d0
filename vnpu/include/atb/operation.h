/*
 * operation.h - operators of the virtual NPU's libatb.so. They are made of names: an operator has kernels, or operators inside of it.
 */
#ifndef VNPU_ATB_OPERATION_H
#define VNPU_ATB_OPERATION_H

#include <memory>

#include "atb/runner.h"

namespace atb
{

struct Operation {
    std::string name;
    std::vector<std::string> kernels;
    std::vector<Operation> children;
};

/*
 * Executes an operator on the current card. Its kernels fill the output tensors with the byte (16 * executeCount + index), the ones
 * of the last child stay. `index` is the operator's place in the graph. 0, or what AscendCL returned.
 */
Status Execute(const Operation &operation, RunnerVariantPack &pack, uint64_t executeCount, size_t index);

/* How many times this library has saved the tensors of a kernel. */
uint64_t Saved();

} // namespace atb

#endif
