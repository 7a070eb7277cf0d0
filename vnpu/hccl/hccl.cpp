/*
 * hccl.cpp - libhccl.so: collective communication between the processes of one machine, over a file in shared memory that all
 * ranks of a communicator map. The launching thread waits for the other ranks and returns when the data are there.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../opapi/tensor.h"
#include "ascend_hal.h"
#include "hccl/hccl.h"
#include "runtime/rt.h"

using namespace vnpu;

namespace
{
constexpr size_t PIECE = 1 << 20; /* bytes of each rank that are on their way at a time */
constexpr time_t WAIT_S = 120;    /* for the other ranks, which may be gone */

struct Shared {
    std::atomic<uint32_t> arrived, round;
    alignas(4096) char slots[];
};

struct Communicator {
    Shared *shared;
    size_t bytes; /* of the mapping */
    uint32_t ranks, rank;
    char name[64];
    void *buffers[2]; /* for what comes and goes: HCCL has some on the card, nobody uses these */

    char *slot(uint32_t of) const
    {
        return shared->slots + of * PIECE;
    }

    /* Waits until all ranks are here; false when they do not come. */
    bool meet() const
    {
        uint32_t round = shared->round;
        if (++shared->arrived == ranks) {
            shared->arrived = 0;
            shared->round++;
            syscall(SYS_futex, &shared->round, FUTEX_WAKE, ranks, nullptr, nullptr, 0);
            return true;
        }
        time_t begin = time(nullptr);
        while (shared->round == round) {
            const timespec second = {1, 0};
            syscall(SYS_futex, &shared->round, FUTEX_WAIT, round, &second, nullptr, 0);
            if (time(nullptr) - begin > WAIT_S)
                return false;
        }
        return true;
    }
};

/* Puts `bytes` into the slot of this rank, piece by piece, and calls `use` with the place and size of each when all have. */
template <class Use> HcclResult exchange(const Communicator &c, const void *mine, size_t bytes, Use use)
{
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = std::min(PIECE, bytes - at);
        if (mine)
            memcpy(c.slot(c.rank), static_cast<const char *>(mine) + at, n);
        if (!c.meet())
            return HCCL_E_TIMEOUT;
        use(at, n);
        if (!c.meet())
            return HCCL_E_TIMEOUT;
    }
    return HCCL_SUCCESS;
}

aclDataType type_of(HcclDataType type)
{
    static const aclDataType types[] = {ACL_INT8,   ACL_INT16, ACL_INT32,  ACL_FLOAT16, ACL_FLOAT,  ACL_INT64,
                                        ACL_UINT64, ACL_UINT8, ACL_UINT16, ACL_UINT32,  ACL_DOUBLE, ACL_BF16};
    return type >= 0 && type < (int)(sizeof types / sizeof *types) ? types[type] : ACL_DT_UNDEFINED;
}

double reduce(HcclReduceOp op, double a, double b)
{
    switch (op) {
    case HCCL_REDUCE_PROD:
        return a * b;
    case HCCL_REDUCE_MAX:
        return std::max(a, b);
    case HCCL_REDUCE_MIN:
        return std::min(a, b);
    default:
        return a + b;
    }
}

/* What all ranks have in their slots, in the order of ranks, so that all come to the same result. */
void reduce_slots(const Communicator &c, aclDataType type, HcclReduceOp op, size_t bytes, void *out)
{
    aclTensor tensor = {};
    tensor.type = type;
    tensor.dims = 1;
    tensor.sizes[0] = (int64_t)(bytes / vnpu_element_size(type));
    tensor.strides[0] = 1;
    Values sum;
    for (uint32_t r = 0; r < c.ranks; r++) {
        tensor.data = c.slot(r);
        Values x = read(&tensor);
        for (size_t i = 0; r && i < x.size(); i++)
            x[i] = reduce(op, sum[i], x[i]);
        sum = std::move(x);
    }
    tensor.data = out;
    write(&tensor, sum);
}

/* Launches the kernel and runs `move` with the bytes of `count` elements. */
template <class Move>
HcclResult run(const char *name, HcclComm comm, HcclDataType type, uint64_t count, aclrtStream stream, Move move)
{
    size_t element = vnpu_element_size(type_of(type));
    if (!comm)
        return HCCL_E_PTR;
    if (!element)
        return HCCL_E_NOT_SUPPORT;
    if (vnpu_operator_launch(name, stream))
        return HCCL_E_RUNTIME;
    return move(*static_cast<Communicator *>(comm), count * element);
}

HcclResult missing(const char *name)
{
    fprintf(stderr, "vnpu: there is no %s: it fails\n", name);
    return HCCL_E_NOT_SUPPORT;
}
} // namespace

extern "C" {
/* The path of the file, which nobody has made yet. */
VNPU_API HcclResult HcclGetRootInfo(HcclRootInfo *info)
{
    static std::atomic<unsigned> number;
    if (!info)
        return HCCL_E_PTR;
    memset(info, 0, sizeof *info);
    snprintf(info->internal, sizeof info->internal, "/dev/shm/vnpu-hccl-%ld-%u", (long)getpid(), number++);
    return HCCL_SUCCESS;
}

VNPU_API HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, HcclComm *comm)
{
    if (!info || !comm)
        return HCCL_E_PTR;
    if (!ranks || rank >= ranks || !memchr(info->internal, 0, sizeof info->internal))
        return HCCL_E_PARA;
    size_t bytes = sizeof(Shared) + ranks * PIECE;
    int file = open(info->internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *shared = file >= 0 && !ftruncate(file, (off_t)bytes)
                       ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (file >= 0)
        close(file);
    if (shared == MAP_FAILED)
        return HCCL_E_SYSCALL;
    auto *made = new Communicator{static_cast<Shared *>(shared), bytes, ranks, rank, {}, {}};
    snprintf(made->name, sizeof made->name, "%s", strrchr(info->internal, '-'));
    const char *mib = getenv("HCCL_BUFFSIZE");
    for (void *&buffer : made->buffers)
        if (rtMalloc(&buffer, (uint64_t)(mib ? std::max(atoi(mib), 1) : 200) << 20, RT_MEMORY_HBM, HCCL_MODULE_ID)) {
            HcclCommDestroy(made);
            return HCCL_E_MEMORY;
        }
    bool all = made->meet();
    if (rank == 0)
        unlink(info->internal);
    if (!all) {
        HcclCommDestroy(made);
        return HCCL_E_TIMEOUT;
    }
    *comm = made;
    return HCCL_SUCCESS;
}

/* Nothing of the configuration changes what we do. */
VNPU_API HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *info, uint32_t rank,
                                               const void *config, HcclComm *comm)
{
    (void)config;
    return HcclCommInitRootInfo(ranks, info, rank, comm);
}

VNPU_API HcclResult HcclCommDestroy(HcclComm comm)
{
    auto *c = static_cast<Communicator *>(comm);
    if (!c)
        return HCCL_E_PTR;
    for (void *buffer : c->buffers)
        if (buffer)
            rtFree(buffer);
    munmap(c->shared, c->bytes);
    delete c;
    return HCCL_SUCCESS;
}

VNPU_API HcclResult HcclGetCommName(HcclComm comm, char *name)
{
    strcpy(name, static_cast<Communicator *>(comm)->name);
    return HCCL_SUCCESS;
}

VNPU_API HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *error)
{
    (void)comm;
    *error = HCCL_SUCCESS;
    return HCCL_SUCCESS;
}

VNPU_API HcclResult HcclAllReduce(void *from, void *to, uint64_t count, HcclDataType type, HcclReduceOp op,
                                  HcclComm comm, aclrtStream stream)
{
    return run("hcom_allReduce", comm, type, count, stream, [=](const Communicator &c, size_t bytes) {
        return exchange(c, from, bytes, [&](size_t at, size_t n) {
            reduce_slots(c, type_of(type), op, n, static_cast<char *>(to) + at);
        });
    });
}

VNPU_API HcclResult HcclReduceScatter(void *from, void *to, uint64_t count, HcclDataType type, HcclReduceOp op,
                                      HcclComm comm, aclrtStream stream)
{
    return run("hcom_reduceScatter", comm, type, count, stream, [=](const Communicator &c, size_t bytes) {
        HcclResult result = HCCL_SUCCESS;
        for (uint32_t r = 0; r < c.ranks && !result; r++)
            result = exchange(c, static_cast<char *>(from) + r * bytes, bytes, [&](size_t at, size_t n) {
                if (r == c.rank)
                    reduce_slots(c, type_of(type), op, n, static_cast<char *>(to) + at);
            });
        return result;
    });
}

VNPU_API HcclResult HcclAllGather(void *from, void *to, uint64_t count, HcclDataType type, HcclComm comm,
                                  aclrtStream stream)
{
    return run("hcom_allGather", comm, type, count, stream, [=](const Communicator &c, size_t bytes) {
        return exchange(c, from, bytes, [&](size_t at, size_t n) {
            for (uint32_t r = 0; r < c.ranks; r++)
                memcpy(static_cast<char *>(to) + r * bytes + at, c.slot(r), n);
        });
    });
}

VNPU_API HcclResult HcclBroadcast(void *data, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                                  aclrtStream stream)
{
    return run("hcom_broadcast", comm, type, count, stream, [=](const Communicator &c, size_t bytes) {
        return exchange(c, root == c.rank ? data : nullptr, bytes, [&](size_t at, size_t n) {
            if (root != c.rank)
                memcpy(static_cast<char *>(data) + at, c.slot(root), n);
        });
    });
}

VNPU_API HcclResult HcclSend(void *, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream)
{
    return missing("HcclSend");
}

VNPU_API HcclResult HcclRecv(void *, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream)
{
    return missing("HcclRecv");
}

VNPU_API HcclResult HcclCommInitAll(uint32_t, int32_t *, HcclComm *)
{
    return missing("HcclCommInitAll");
}
}
