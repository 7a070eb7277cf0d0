/*
 * runner.h - the inside of the Ascend Transformer Boost library as far as tools meet it: runners of operators, their tensors,
 * and the kernels that they launch. Layouts are those of the real library, for both C++ ABIs; ATB_OLD_TAIL is the one of
 * before CANN 8.3.
 */
#ifndef VNPU_ATB_RUNNER_H
#define VNPU_ATB_RUNNER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#ifdef ATB_OLDER /* a library that does not have what tools ask */
#define ATB_ASKED __attribute__((visibility("hidden")))
#else
#define ATB_ASKED
#endif

namespace Mki
{

template <typename T, size_t N = 48> class SVector
{
  public:
    void push_back(const T &value)
    {
        storage_[size_++] = value;
    }
    size_t size() const
    {
        return size_;
    }
    T &at(size_t i)
    {
        return storage_[i];
    }

  private:
    T storage_[N + 1] = {};
    size_t size_ = 0;
};

struct TensorDesc {
    int32_t dtype = -1;
    int32_t format = -1;
    SVector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t offset = 0;
};

struct Tensor {
    TensorDesc desc;
    void *data = nullptr;
    size_t dataSize = 0; /* bytes */
    void *hostData = nullptr;
};

class LaunchParam
{
  public:
    ATB_ASKED SVector<Tensor> &GetInTensors();
    ATB_ASKED SVector<Tensor> &GetOutTensors();
    void Add(bool out, const Tensor &tensor);

  private:
    SVector<Tensor> in_, out_;
};

} // namespace Mki

namespace atb
{

using Status = int32_t;

struct Dims {
    int64_t dims[8] = {};
    uint64_t dimNum = 0;
};

struct TensorDesc {
    int32_t dtype = -1;
    int32_t format = -1;
    Dims shape;
};

struct Tensor {
    TensorDesc desc;
    void *deviceData = nullptr;
    void *hostData = nullptr;
    uint64_t dataSize = 0; /* bytes */
};

template <typename T> class SVector
{
  public:
    SVector() = default;
    SVector(const SVector &) = delete;
    ~SVector()
    {
        delete[] heap_;
    }
    void push_back(const T &value)
    {
        if (size_ == capacity_) {
            T *more = new T[2 * capacity_];
            for (size_t i = 0; i < size_; i++)
                more[i] = at(i);
            delete[] heap_;
            heap_ = more;
            capacity_ *= 2;
        }
        at(size_++) = value;
    }
    size_t size() const
    {
        return size_;
    }
    T &at(size_t i)
    {
        return heap_ ? heap_[i] : storage_[i];
    }

  private:
    size_t capacity_ = 64;
    size_t size_ = 0;
    T storage_[65] = {};
    T *heap_ = nullptr;
};

class Context;

struct RunnerVariantPack {
    SVector<Tensor> inTensors;
    SVector<Tensor> outTensors;
    SVector<bool> isInTensorCanFree;
    SVector<bool> isOutTensorNeedMalloc;
    uint8_t *hostTilingBuffer = nullptr;
    uint8_t *tilingBuffer = nullptr;
    uint64_t tilingBufferSize = 0;
    uint8_t *workspaceBuffer = nullptr;
    uint64_t workspaceBufferSize = 0;
    uint8_t *intermediateBuffer = nullptr;
    uint64_t intermediateBufferSize = 0;
#ifndef ATB_OLD_TAIL
    uint8_t *argsDeviceBuffer = nullptr;
    uint8_t *argsHostBuffer = nullptr;
#endif
    Context *context = nullptr;
};

static_assert(sizeof(SVector<Tensor>) == 6784 && offsetof(RunnerVariantPack, workspaceBuffer) == 13784, "atb");
static_assert(sizeof(Mki::Tensor) == 464 && sizeof(Mki::SVector<Mki::Tensor>) == 22744, "Mki");

/* Whether and what to save of tensors. A tool may put functions of its own before these. */
class Probe
{
  public:
    static bool IsTensorNeedSave(const std::vector<int64_t> &ids, const std::string &opType);
    static bool IsExecuteCountInRange(uint64_t executeCount);
    static bool IsSaveTensorBefore();
    static bool IsSaveTensorAfter();
    static bool IsSaveTensorDesc();
};

class StoreUtil
{
  public:
    static void SaveLaunchParam(void *stream, const Mki::LaunchParam &param, const std::string &dirPath);
};

class Runner
{
  public:
    explicit Runner(const std::string &name);
    virtual ~Runner();
    Status Execute(RunnerVariantPack &pack);
    ATB_ASKED std::string GetOperationName() const;
    ATB_ASKED std::string GetSaveTensorDir() const;
    void *GetExecuteStream(Context *context) const;
    bool IsSaveTensor() const;
    void SetSaveTensorDir(const std::string &dir, uint64_t executeCount);

  protected:
    virtual Status ExecuteImpl(RunnerVariantPack &pack) = 0;
    std::string name_, dir_;
    uint64_t executeCount_ = 0;
};

} // namespace atb

#endif
