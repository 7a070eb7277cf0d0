/*
 * atb_abi.h - objects of ATB as they lie in memory (abi.md 1.7), with the names of its own headers. Both C++ ABIs agree on all of
 * them; they differ in std::string only, whose first word is the address of a terminated text in both.
 *
 * Behind `intermediateBufferSize` versions of ATB differ: nothing here reads on.
 */
#ifndef MSMEMSCOPE_ATB_ABI_H
#define MSMEMSCOPE_ATB_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { ATB_INLINE = 64, ATB_DIMS = 8, MKI_INLINE = 48 };

struct atb_tensor {
    int32_t dtype;
    int32_t format;
    int64_t dims[ATB_DIMS];
    uint64_t dim_count;
    void *device_data;
    void *host_data;
    uint64_t data_size; /* bytes */
};

/* atb::SVector<atb::Tensor> */
struct atb_tensors {
    size_t capacity;
    size_t size;
    struct atb_tensor inside[ATB_INLINE + 1];
    struct atb_tensor *heap; /* in place of `inside` when there are more */
};

struct atb_flags {
    unsigned char unread[96];
};

struct atb_variant_pack {
    struct atb_tensors in;
    struct atb_tensors out;
    struct atb_flags in_can_free;
    struct atb_flags out_need_malloc;
    void *host_tiling;
    void *tiling;
    uint64_t tiling_size;
    void *workspace;
    uint64_t workspace_size; /* bytes */
    void *intermediate;
    uint64_t intermediate_size; /* bytes */
};

struct mki_dims {
    int64_t dims[MKI_INLINE + 1];
    size_t size;
};

struct mki_tensor {
    int32_t dtype;
    int32_t format;
    struct mki_dims dims;
    void *strides[3]; /* std::vector<int64_t> */
    int64_t offset;
    void *data;
    size_t data_size; /* bytes */
    void *host_data;
};

/* Mki::SVector<Mki::Tensor> */
struct mki_tensors {
    struct mki_tensor inside[MKI_INLINE + 1];
    size_t size;
};

_Static_assert(sizeof(struct atb_tensor) == 104 && offsetof(struct atb_tensor, device_data) == 80, "atb::Tensor");
_Static_assert(sizeof(struct atb_tensors) == 6784 && offsetof(struct atb_tensors, heap) == 6776, "atb::SVector");
_Static_assert(offsetof(struct atb_variant_pack, workspace) == 13784 && sizeof(struct atb_variant_pack) == 13816,
               "atb::RunnerVariantPack");
_Static_assert(sizeof(struct mki_tensor) == 464 && offsetof(struct mki_tensor, data) == 440, "Mki::Tensor");
_Static_assert(offsetof(struct mki_tensors, size) == 22736, "Mki::SVector");

/* A function of C++ by the name that the linker knows. */
#define CXX_NAME(symbol) __asm__(symbol)

#endif
