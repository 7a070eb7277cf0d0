/*
 * acl/acl.h of mssanitizer: the acl/acl.h of CANN, and calls that tell where memory was allocated.
 *
 * Put the folder "include" above this file before CANN's in the include path, link libascend_acl_hook.so beside
 * libascendcl.so, and build again. Each call of an allocating function then goes to the function below that bears the
 * name sanitizerRt..., with the place of the call. It does the same and returns the same. Run without mssanitizer, it is
 * the function of AscendCL and nothing else. Pointers to the functions (&aclrtMalloc) stay what they are.
 *
 * A wrapper that wants the place of its own caller takes it and hands it on:
 *
 *     void *allocate(size_t bytes, const char *file = __builtin_FILE(), int line = __builtin_LINE())
 *     {
 *         void *block = nullptr;
 *         sanitizerRtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST, file, line);
 *         return block;
 *     }
 *
 * or, in C, is a macro. In C++ the last two arguments may be left out: then they are the place of the call.
 */
#pragma GCC system_header /* of #include_next, and of what comes after it, no warnings */
#include_next <acl/acl.h>

#ifndef MSSANITIZER_ACL_H
#define MSSANITIZER_ACL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MSSANITIZER_PLACE const char *filename = __builtin_FILE(), int lineno = __builtin_LINE()
extern "C" {
#else
#define MSSANITIZER_PLACE const char *filename, int lineno
#endif

/* Arguments, sizes in bytes and results are those of the functions without "sanitizer"; `cfg` is an aclrtMallocConfig. */
aclError sanitizerRtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy, MSSANITIZER_PLACE);
aclError sanitizerRtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy, MSSANITIZER_PLACE);
aclError sanitizerRtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy, MSSANITIZER_PLACE);
aclError sanitizerRtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, void *cfg,
                                  MSSANITIZER_PLACE);
aclError sanitizerRtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy, void *cfg,
                                           MSSANITIZER_PLACE);
aclError sanitizerRtMallocHost(void **hostPtr, size_t size, MSSANITIZER_PLACE);
aclError sanitizerRtMallocHostWithCfg(void **ptr, uint64_t size, void *cfg, MSSANITIZER_PLACE);
aclError sanitizerRtMallocPhysical(void **handle, size_t size, const void *prop, uint64_t flags, MSSANITIZER_PLACE);

#ifdef __cplusplus
}

/* Newer headers of CANN have aclrtMalloc for pointers to any type. */
template <typename T>
inline aclError sanitizerRtMalloc(T **devPtr, size_t size, aclrtMemMallocPolicy policy, MSSANITIZER_PLACE)
{
    return sanitizerRtMalloc(reinterpret_cast<void **>(devPtr), size, policy, filename, lineno);
}

template <typename T> inline aclError sanitizerRtMallocHost(T **hostPtr, size_t size, MSSANITIZER_PLACE)
{
    return sanitizerRtMallocHost(reinterpret_cast<void **>(hostPtr), size, filename, lineno);
}
#endif

#define aclrtMalloc(...) sanitizerRtMalloc(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocCached(...) sanitizerRtMallocCached(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocAlign32(...) sanitizerRtMallocAlign32(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocWithCfg(...) sanitizerRtMallocWithCfg(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocForTaskScheduler(...) sanitizerRtMallocForTaskScheduler(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocHost(...) sanitizerRtMallocHost(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocHostWithCfg(...) sanitizerRtMallocHostWithCfg(__VA_ARGS__, __FILE__, __LINE__)
#define aclrtMallocPhysical(...) sanitizerRtMallocPhysical(__VA_ARGS__, __FILE__, __LINE__)

#endif
