/*
 * atb - runs a small language model on ATB and tells the rows that it expects (told.h).
 *
 * usage: atb STEPS [op] [access] [kernel]    so many steps of the model, and what of them is told
 *
 * The last line is the fill of the last output, and how many tensors the library has saved by itself. Each tensor is made and
 * freed by AscendCL, whose rows are not told.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl/acl.h"
#include "atb/operation.h"
#include "told.h"

namespace
{

bool tell_op, tell_access, tell_kernel;

void check(const char *what, int error)
{
    if (error) {
        fprintf(stderr, "%s failed: %d\n", what, error);
        exit(99);
    }
}

enum { FLOAT16 = 1, INT32 = 3, INT64 = 9, BF16 = 27, ND = 2, FRACTAL_NZ = 29 };

/* As rows have texts. */
std::string cut(const std::string &text)
{
    return text.substr(0, 254);
}

const char *dtype(int32_t number)
{
    switch (number) {
    case FLOAT16:
        return "FLOAT16";
    case INT32:
        return "INT32";
    case INT64:
        return "INT64";
    case BF16:
        return "BF16";
    }
    abort();
}

atb::Tensor tensor(int32_t type, int32_t format, std::vector<int64_t> dims)
{
    atb::Tensor t;
    t.desc.dtype = type;
    t.desc.format = format;
    t.dataSize = type == INT64 ? 8 : type == INT32 ? 4 : 2;
    for (int64_t d : dims) {
        t.desc.shape.dims[t.desc.shape.dimNum++] = d;
        t.dataSize *= static_cast<uint64_t>(d);
    }
    check("aclrtMalloc", aclrtMalloc(&t.deviceData, t.dataSize, ACL_MEM_MALLOC_NORMAL_ONLY));
    return t;
}

void tell_tensors(uint64_t before, atb::SVector<atb::Tensor> &tensors, const char *how, const std::string &name,
                  bool mki)
{
    for (size_t i = 0; i < tensors.size() && !(mki && i == 48); i++) {
        const atb::Tensor &t = tensors.at(i);
        if (!t.deviceData)
            continue;
        std::string shape;
        for (uint64_t d = 0; d < t.desc.shape.dimNum; d++)
            shape += std::to_string(t.desc.shape.dims[d]) + ",";
        std::string row = std::string("ACCESS\t") + how + "\t" + cut(name) + "\t0";
        told(before, row.c_str(), t.deviceData, "size:%llu,type:ATB,dtype:%s%s,format:%s%s,shape:[%s]",
             static_cast<unsigned long long>(t.dataSize), mki ? "TENSOR_DTYPE_" : "ACL_", dtype(t.desc.dtype),
             mki ? "TENSOR_FORMAT_" : "ACL_FORMAT_", t.desc.format == ND ? "ND" : "FRACTAL_NZ", shape.c_str());
    }
}

void tell_both(uint64_t before, atb::RunnerVariantPack &pack, const std::string &name, bool mki)
{
    if (!tell_access)
        return;
    tell_tensors(before, pack.inTensors, "UNKNOWN", name, mki);
    tell_tensors(before, pack.outTensors, "WRITE", name, mki);
}

void tell_point(uint64_t before, const char *type, const atb::Operation &op, const std::string &path,
                atb::RunnerVariantPack &pack)
{
    std::string row = std::string("OP_LAUNCH\t") + type + "\t" + cut(op.name) + "\t0";
    if (tell_op)
        told(before, row.c_str(), nullptr, "path:%s,workspace_ptr:0x%llx,workspace_size:%llu", cut(path).c_str(),
             reinterpret_cast<unsigned long long>(pack.workspaceBuffer),
             static_cast<unsigned long long>(pack.workspaceBufferSize + pack.intermediateBufferSize));
    tell_both(before, pack, op.name, false);
}

/* What the dump has of an operator, in order. */
void tell(uint64_t before, const atb::Operation &op, const std::string &path, atb::RunnerVariantPack &pack)
{
    tell_point(before, "ATB_START", op, path, pack);
    for (size_t i = 0; i < op.children.size(); i++)
        tell(before, op.children[i], path + "/" + std::to_string(i) + "_" + op.children[i].name, pack);
    for (size_t i = 0; tell_kernel && i < op.kernels.size(); i++)
        for (const char *side : {"before", "after"}) {
            std::string name = std::to_string(i) + "_" + op.kernels[i];
            std::string row =
                std::string("KERNEL_LAUNCH\tKERNEL_") + (*side == 'b' ? "START" : "END") + "\t" + name + "\t0";
            told(before, row.c_str(), nullptr, "path:%s", cut(path + "/" + name + "/" + side).c_str());
            tell_both(before, pack, name, true);
        }
    tell_point(before, "ATB_END", op, path, pack);
}

const atb::Operation mlp = {"MlpOperation",
                            {},
                            {{"LinearOperation", {"MatMulKernel"}, {}},
                             {"ActivationOperation", {"SwishKernel"}, {}},
                             {"LinearOperation", {"MatMulKernel"}, {}}}};

/* One layer, and what is before and behind all of them. */
const std::vector<atb::Operation> model = {
    {"WordEmbeddingOperation", {"GatherKernel"}, {}},
    {"RmsNormOperation", {"RmsNormKernel"}, {}},
    {"LinearOperation", {"MatMulKernel", "AddBiasKernel"}, {}},
    {"RopeOperation", {"RopeKernel"}, {}},
    {"SelfAttentionOperation", {"FlashAttentionKernel", "PagedAttentionKernel"}, {}},
    {"ElewiseOperation", {"AddKernel"}, {}},
    mlp,
    /* a name longer than what std::string keeps inside of itself, and longer than what a row has */
    {"LmHeadOperation" + std::string(300, 'x'), {"MatMulKernel"}, {}},
};

} // namespace

int main(int argc, char **argv)
{
    uint64_t steps = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
    for (int i = 2; i < argc; i++) {
        tell_op |= strcmp(argv[i], "op") == 0;
        tell_access |= strcmp(argv[i], "access") == 0;
        tell_kernel |= strcmp(argv[i], "kernel") == 0;
    }
    check("aclInit", aclInit(nullptr));
    check("aclrtSetDevice", aclrtSetDevice(0));
    atb::Tensor ids = tensor(INT64, ND, {8}), hidden = tensor(FLOAT16, ND, {8, 64}),
                out = tensor(BF16, FRACTAL_NZ, {1, 8, 8, 8});
    void *workspace;
    check("aclrtMalloc", aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    for (uint64_t step = 0; step < steps; step++)
        for (size_t i = 0; i < model.size(); i++) {
            atb::RunnerVariantPack pack;
            pack.context = reinterpret_cast<atb::Context *>(8); /* whoever looks into it dies */
            pack.workspaceBuffer = static_cast<uint8_t *>(workspace);
            pack.workspaceBufferSize = 4000;
            pack.intermediateBufferSize = 96;
            pack.inTensors.push_back(i == 0 ? ids : hidden);
            pack.inTensors.push_back(atb::Tensor()); /* one without memory, which no row tells of */
            for (size_t n = 0; i == 2 && n < 70; n++)
                pack.inTensors.push_back(hidden);
            pack.outTensors.push_back(i + 1 == model.size() ? out : hidden);
            uint64_t before = told_clock();
            check("Execute", atb::Execute(model[i], pack, step, i));
            tell(before, model[i],
                 "0_" + std::to_string(getpid()) + "/" + std::to_string(step) + "/" + std::to_string(i) + "_" +
                     model[i].name,
                 pack);
        }
    unsigned char last = 0;
    check("aclrtMemcpy", aclrtMemcpy(&last, 1, out.deviceData, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("last %d saved %llu\n", last, static_cast<unsigned long long>(atb::Saved()));
    for (void *block : {ids.deviceData, hidden.deviceData, out.deviceData, workspace})
        check("aclrtFree", aclrtFree(block));
    return 0;
}
