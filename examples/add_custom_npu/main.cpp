// main.cpp - the host side of a custom operator that adds two vectors, with a leak that docs/guide/cann-leaks.md finds by its line:
// leave that where it is.
//
// usage: add_custom_npu [fixed]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define CHECK_ACL(call)                                                                  \
    do {                                                                                 \
        aclError error = (call);                                                         \
        if (error != ACL_SUCCESS) {                                                      \
            fprintf(stderr, "%s:%d: %s failed: %d\n", __FILE__, __LINE__, #call, error); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

constexpr size_t COUNT = 8 * 2048;
constexpr size_t BYTES = COUNT * sizeof(uint16_t);

class DeviceBuffer
{
  public:
    explicit DeviceBuffer(const void *host)
    {
        CHECK_ACL(aclrtMalloc(&data, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_ACL(aclrtMemcpy(data, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    ~DeviceBuffer()
    {
        CHECK_ACL(aclrtFree(data));
    }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;

    void *data = nullptr;
};

// The virtual NPU runs no kernels. On a card add_custom<<<8, nullptr, stream>>>(x, y, z) would stand here.
static void add(const void *x, const void *, void *z)
{
    CHECK_ACL(aclrtMemcpy(z, BYTES, x, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE));
}

static void run(uint16_t *x, uint16_t *y, uint16_t *z, bool fixed)
{
    DeviceBuffer deviceX(x);
    DeviceBuffer deviceY(y);

    // Without "fixed" nobody frees this one.
    void *deviceZ = nullptr;

    CHECK_ACL(aclrtMalloc(&deviceZ, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    add(deviceX.data, deviceY.data, deviceZ);
    CHECK_ACL(aclrtMemcpy(z, BYTES, deviceZ, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    if (fixed)
        CHECK_ACL(aclrtFree(deviceZ));
}

int main(int argc, char **)
{
    CHECK_ACL(aclInit(nullptr));
    CHECK_ACL(aclrtSetDevice(0));
    void *host[3];
    for (void *&vector : host)
        CHECK_ACL(aclrtMallocHost(&vector, BYTES));
    uint16_t *x = static_cast<uint16_t *>(host[0]);
    uint16_t *y = static_cast<uint16_t *>(host[1]);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = y[i] = static_cast<uint16_t>(i);
    run(x, y, static_cast<uint16_t *>(host[2]), argc > 1);
    for (void *vector : host)
        CHECK_ACL(aclrtFreeHost(vector));
    CHECK_ACL(aclrtResetDevice(0));
    CHECK_ACL(aclFinalize());
    return 0;
}
