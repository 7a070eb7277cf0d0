/*
 * fake.h - a stack of real functions for the hooks to find, in libraries of the real names that the tests load by
 * ASCEND_HOME_PATH. Two editions: "inner" has what today's driver exports, "plain" only the public names (and rtGetDevice).
 */
#ifndef MSMEMSCOPE_TEST_FAKE_H
#define MSMEMSCOPE_TEST_FAKE_H

#include <stddef.h>
#include <stdint.h>

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

/* Sets ASCEND_HOME_PATH to an edition, "inner", "plain" or "none". */
void use_stack(const char *edition);

#endif
