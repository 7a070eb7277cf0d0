/*
 * kernel.c - binaries and the kernels in them. A binary of the virtual NPU is a text: each line has the name of a kernel
 * and the microseconds that it takes.
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/slab.h"

enum { LINE_MOST = 4096, STUBS_MOST = 4096 };
static const int64_t most_us = 60LL * 1000 * 1000;

struct binary {
    uint32_t count;
    struct kernel **kernels;
};

static struct slab binaries = {.slot_bytes = sizeof(struct binary)};
static struct slab kernels = {.slot_bytes = sizeof(struct kernel)};

static struct {
    const void *stub;
    struct kernel *kernel;
} stubs[STUBS_MOST];
static int stub_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release);
}

static void forget(struct binary *binary)
{
    acquire();
    for (int i = 0; i < stub_count; i++)
        if (stubs[i].kernel->binary == binary)
            stubs[i--] = stubs[--stub_count];
    release();
    for (uint32_t i = 0; i < binary->count; i++) {
        free(binary->kernels[i]->name);
        slab_end(&kernels, binary->kernels[i]);
    }
    free(binary->kernels);
    slab_end(&binaries, binary);
}

/* Adds the kernel of one line; false when it is not one. */
static bool add_line(struct binary *binary, const char *line, size_t length)
{
    char text[LINE_MOST], *end;
    if (length >= sizeof text)
        return false;
    memcpy(text, line, length);
    text[length] = 0;
    char *blank = strrchr(text, ' ');
    if (!blank || blank == text || !blank[1])
        return false;
    errno = 0;
    long long us = strtoll(blank + 1, &end, 10);
    if (errno || *end || us < 0 || us > most_us)
        return false;
    *blank = 0;
    struct kernel **grown = realloc(binary->kernels, (binary->count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    binary->kernels = grown;
    struct kernel *kernel = slab_new(&kernels);
    if (!kernel)
        return false;
    *kernel = (struct kernel){binary, binary->count, us * 1000, 0, strdup(text)};
    binary->kernels[binary->count++] = kernel;
    return kernel->name;
}

static rtError_t load(const rtDevBinary_t *bin, void **handle)
{
    if (!bin || !bin->data || !handle)
        return ACL_ERROR_RT_PARAM_INVALID;
    struct binary *binary = slab_new(&binaries);
    if (!binary)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    const char *at = bin->data, *end = at + bin->length;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        if (length && !add_line(binary, at, length)) {
            fprintf(stderr,
                    "vnpu: \"%.*s\" in a binary is not valid: a line must be the name of a kernel, a blank and "
                    "microseconds from 0 to %lld\n",
                    (int)(length < 80 ? length : 80), at, (long long)most_us);
            forget(binary);
            return ACL_ERROR_RT_PARAM_INVALID;
        }
        at += length + 1;
    }
    *handle = binary;
    return RT_ERROR_NONE;
}

static rtError_t unload(void *handle)
{
    if (!slab_live(&binaries, handle))
        return ACL_ERROR_RT_PARAM_INVALID;
    forget(handle);
    return RT_ERROR_NONE;
}

static struct kernel *named(struct binary *binary, const char *name)
{
    for (uint32_t i = 0; i < binary->count; i++)
        if (strcmp(binary->kernels[i]->name, name) == 0)
            return binary->kernels[i];
    return NULL;
}

VNPU_API rtError_t rtBinaryLoad(const rtDevBinary_t *bin, rtBinHandle *binHandle)
{
    return load(bin, binHandle);
}

VNPU_API rtError_t rtBinaryUnLoad(rtBinHandle binHandle)
{
    return unload(binHandle);
}

VNPU_API rtError_t rtBinaryGetFunctionByName(const rtBinHandle binHandle, const char *kernelName,
                                             rtFuncHandle *funcHandle)
{
    if (!slab_live(&binaries, binHandle) || !kernelName || !funcHandle)
        return ACL_ERROR_RT_PARAM_INVALID;
    *funcHandle = named(binHandle, kernelName);
    return *funcHandle ? RT_ERROR_NONE : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl)
{
    return load(bin, hdl);
}

VNPU_API rtError_t rtDevBinaryUnRegister(void *hdl)
{
    return unload(hdl);
}

/* kernelInfoExt is the kernel's name in the binary; stubName is for messages. */
VNPU_API rtError_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char *stubName,
                                      const void *kernelInfoExt, uint32_t funcMode)
{
    (void)stubName, (void)funcMode;
    if (!slab_live(&binaries, binHandle) || !stubFunc || !kernelInfoExt)
        return ACL_ERROR_RT_PARAM_INVALID;
    struct kernel *kernel = named(binHandle, kernelInfoExt);
    if (!kernel)
        return ACL_ERROR_RT_PARAM_INVALID;
    rtError_t result = ACL_ERROR_RT_MEMORY_ALLOCATION;
    acquire();
    if (stub_count < STUBS_MOST) {
        stubs[stub_count].stub = stubFunc;
        stubs[stub_count++].kernel = kernel;
        result = RT_ERROR_NONE;
    }
    release();
    return result;
}

struct kernel *kernel_of_handle(rtFuncHandle handle)
{
    return slab_live(&kernels, handle) ? handle : NULL;
}

struct kernel *kernel_of_stub(const void *stubFunc)
{
    struct kernel *kernel = NULL;
    acquire();
    for (int i = 0; i < stub_count && !kernel; i++)
        if (stubs[i].stub == stubFunc)
            kernel = stubs[i].kernel;
    release();
    return kernel;
}

struct kernel *kernel_at(void *binary, uint64_t place)
{
    if (!slab_live(&binaries, binary) || place >= ((struct binary *)binary)->count)
        return NULL;
    return ((struct binary *)binary)->kernels[place];
}
