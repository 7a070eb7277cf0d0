/*
 * atb.cpp - libatb.so: operators that launch kernels, which are memsets, and the questions that tools answer on the way.
 */
#include "atb/operation.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include "acl/acl.h"

namespace Mki
{

SVector<Tensor> &LaunchParam::GetInTensors()
{
    return in_;
}

SVector<Tensor> &LaunchParam::GetOutTensors()
{
    return out_;
}

void LaunchParam::Add(bool out, const Tensor &tensor)
{
    (out ? out_ : in_).push_back(tensor);
}

} // namespace Mki

namespace atb
{

static uint64_t saved;

static bool save()
{
    return std::getenv("VNPU_ATB_SAVE") != nullptr;
}

bool Probe::IsTensorNeedSave(const std::vector<int64_t> &, const std::string &)
{
    return save();
}

bool Probe::IsExecuteCountInRange(uint64_t)
{
    return save();
}

bool Probe::IsSaveTensorBefore()
{
    return save();
}

bool Probe::IsSaveTensorAfter()
{
    return save();
}

bool Probe::IsSaveTensorDesc()
{
    return save();
}

void StoreUtil::SaveLaunchParam(void *, const Mki::LaunchParam &, const std::string &)
{
    saved++;
}

uint64_t Saved()
{
    return saved;
}

Runner::Runner(const std::string &name) : name_(name) {}

Runner::~Runner() = default;

Status Runner::Execute(RunnerVariantPack &pack)
{
    if (IsSaveTensor())
        saved++;
    return ExecuteImpl(pack);
}

std::string Runner::GetOperationName() const
{
    return name_;
}

std::string Runner::GetSaveTensorDir() const
{
    return dir_;
}

void *Runner::GetExecuteStream(Context *) const
{
    return nullptr;
}

bool Runner::IsSaveTensor() const
{
    return Probe::IsExecuteCountInRange(executeCount_) && Probe::IsTensorNeedSave({}, name_);
}

void Runner::SetSaveTensorDir(const std::string &dir, uint64_t executeCount)
{
    dir_ = dir;
    executeCount_ = executeCount;
}

namespace
{

Mki::Tensor kernel_tensor(const Tensor &from)
{
    Mki::Tensor to;
    to.desc.dtype = from.desc.dtype;
    to.desc.format = from.desc.format;
    for (uint64_t i = 0; i < from.desc.shape.dimNum; i++)
        to.desc.dims.push_back(from.desc.shape.dims[i]);
    to.data = from.deviceData;
    to.dataSize = from.dataSize;
    return to;
}

class OperationRunner : public Runner
{
  public:
    OperationRunner(const Operation &operation, uint8_t fill)
        : Runner(operation.name), operation_(operation), fill_(fill),
          save_(Probe::IsTensorNeedSave({0}, operation.name))
    {
    }

  protected:
    Status ExecuteImpl(RunnerVariantPack &pack) override
    {
        for (size_t i = 0; i < operation_.children.size(); i++) {
            OperationRunner child(operation_.children[i], fill_);
            child.SetSaveTensorDir(dir_ + "/" + std::to_string(i) + "_" + operation_.children[i].name, executeCount_);
            if (Status error = child.Execute(pack))
                return error;
        }
        for (size_t i = 0; i < operation_.kernels.size(); i++)
            if (Status error = Launch(dir_ + "/" + std::to_string(i) + "_" + operation_.kernels[i], pack))
                return error;
        return 0;
    }

  private:
    Status Launch(const std::string &dir, RunnerVariantPack &pack)
    {
        auto param = std::make_unique<Mki::LaunchParam>();
        for (size_t i = 0; i < std::min<size_t>(pack.inTensors.size(), 48); i++)
            param->Add(false, kernel_tensor(pack.inTensors.at(i)));
        for (size_t i = 0; i < pack.outTensors.size(); i++)
            param->Add(true, kernel_tensor(pack.outTensors.at(i)));
        bool save = save_ && Probe::IsExecuteCountInRange(executeCount_);
        if (save && Probe::IsSaveTensorBefore())
            StoreUtil::SaveLaunchParam(nullptr, *param, dir + "/before");
        for (size_t i = 0; i < pack.outTensors.size(); i++) {
            const Tensor &t = pack.outTensors.at(i);
            if (aclError error = aclrtMemset(t.deviceData, t.dataSize, fill_, t.dataSize))
                return error;
        }
        if (save && Probe::IsSaveTensorAfter())
            StoreUtil::SaveLaunchParam(nullptr, *param, dir + "/after");
        return 0;
    }

    const Operation &operation_;
    uint8_t fill_;
    bool save_;
};

} // namespace

Status Execute(const Operation &operation, RunnerVariantPack &pack, uint64_t executeCount, size_t index)
{
    int32_t device = 0;
    if (aclError error = aclrtGetDevice(&device))
        return error;
    OperationRunner runner(operation, static_cast<uint8_t>(16 * executeCount + index));
    runner.SetSaveTensorDir(std::to_string(device) + "_" + std::to_string(getpid()) + "/" +
                                std::to_string(executeCount) + "/" + std::to_string(index) + "_" + operation.name,
                            executeCount);
    return runner.Execute(pack);
}

} // namespace atb
