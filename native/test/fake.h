/*
 * fake.h - a stack of real functions for the hooks to find, in libraries of the real names that the tests load by
 * ASCEND_HOME_PATH. Two editions: "inner" has what today's driver exports, "plain" only the public names (and rtGetDevice).
 */
#ifndef MSMEMSCOPE_TEST_FAKE_H
#define MSMEMSCOPE_TEST_FAKE_H

#include <stddef.h>
#include <stdint.h>

#include <stdbool.h>

/* Launches that reached a real function; the last of them. */
struct fake_launch {
    const char *name;
    uint64_t arguments[8];
    int count;       /* of all launches */
    bool only_count; /* several threads launch */
};

/* The driver's profiling channel and libprofapi.so. */
struct fake_profiling {
    const char *soc;
    int start_result;
    unsigned started, stopped; /* cards, a bit each */
    unsigned config_bytes;
    uint32_t config[11];
    int (*read)(unsigned card, char *buffer, unsigned bytes);
    long long frequency;
    int info_result;

    int register_result, command_result;
    void *callback[16];
    int commands;
    unsigned char command[5432];
    unsigned command_bytes;
    void (*on_launch)(void); /* inside of every real launch */
};

/* How the fakes behave and what they saw; in the test program. */
struct fake {
    int result;       /* of the memory and ACL calls */
    void *address;    /* what the next allocation gives */
    int calls;        /* of any fake */
    void *last_freed; /* argument of the last free or release */
    int device;       /* what the runtime says is set */
    int device_result;
    int device_calls;
    void (*on_free)(void); /* called by the real free */
    void (*on_load)(void); /* called when libascend_hal.so is loaded */
    struct fake_launch launch;
    struct fake_profiling profiling;
};

extern __attribute__((visibility("default"))) struct fake fake;

/* Prototypes of the hooks, abi.md 1.1 and 1.4. */
struct prop {
    uint32_t side, devid, module_id, pg_type, mem_type;
    uint64_t reserve;
};
int halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
int halMemFree(void *pp);
int halMemCreate(void **handle, size_t size, const struct prop *prop, uint64_t flag);
int halMemRelease(void *handle);
int aclInit(const char *path);
int aclFinalize(void);
int aclrtSetDevice(int32_t device);

/* abi.md 1.5, pointers as void *. */
int rtKernelLaunch(const void *stub, uint32_t dim, void *args, uint32_t bytes, void *desc, void *stream);
int rtKernelLaunchWithHandleV2(void *handle, uint64_t key, uint32_t dim, void *args, void *desc, void *stream,
                               const void *config);
int rtKernelLaunchWithFlagV2(const void *stub, uint32_t dim, void *args, void *desc, void *stream, uint32_t flags,
                             const void *config);
int rtAicpuKernelLaunchExWithArgs(uint32_t type, const char *name, uint32_t dim, const void *args, void *desc,
                                  void *stream, uint32_t flags);
int rtLaunchKernelByFuncHandle(void *function, uint32_t dim, void *args, void *stream);
int rtLaunchKernelByFuncHandleV2(void *function, uint32_t dim, void *args, void *stream, const void *config);
int aclrtLaunchKernelImpl(void *function, uint32_t dim, const void *args, size_t bytes, void *stream);
int aclrtLaunchKernelV2Impl(void *function, uint32_t dim, const void *args, size_t bytes, void *config, void *stream);
int aclrtLaunchKernelWithConfig(void *function, uint32_t dim, void *stream, void *config, void *args, void *reserve);
int aclrtLaunchKernelWithHostArgs(void *function, uint32_t dim, void *stream, void *config, void *args, size_t bytes,
                                  void *holders, size_t count);

/* Sets ASCEND_HOME_PATH to an edition, "inner", "plain" or "none". */
void use_stack(const char *edition);

#endif
