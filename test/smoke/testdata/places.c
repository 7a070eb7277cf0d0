/*
 * places.c - ways to call AscendCL with the header of mssanitizer, in C and in C++. Each leaks as many bytes as the number of the line
 * that the report should tell.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define POLICY ACL_MEM_MALLOC_NORMAL_ONLY
#define CHECK(call)      \
    do {                 \
        if ((call) != 0) \
            exit(99);    \
    } while (0)

static void *block;

/* A wrapper that is a function has a place of its own; one that is a macro has that of its caller. */
static void function(void)
{
    CHECK(aclrtMalloc(&block, __LINE__, POLICY));
}
#define MACRO(bytes) CHECK(aclrtMallocCached(&block, (bytes), POLICY))

/* A pointer to the function is that of AscendCL, and compares as such. */
typedef aclError malloc_fn(void **, size_t, aclrtMemMallocPolicy);
static malloc_fn *volatile pointer = aclrtMalloc;

struct table {
    malloc_fn *allocate;
};

#ifdef __cplusplus
/* Hands on the place of its caller, by default arguments. */
static void wrapper(size_t bytes, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    CHECK(sanitizerRtMalloc(&block, bytes, POLICY, file, line));
}
enum { FORWARDED = __LINE__ + 3 };
template<typename... A> static void forwarded(A... arguments)
{
    CHECK(aclrtMalloc(arguments...));
}
#else
#define wrapper(bytes) CHECK(sanitizerRtMalloc(&block, bytes, POLICY, __FILE__, __LINE__))
#endif

int main(void)
{
    struct table table = {pointer};
    CHECK(aclrtSetDevice(0));
    if (pointer != (malloc_fn *)aclrtMalloc || table.allocate != pointer)
        exit(98);
    function();
    MACRO(__LINE__);
    wrapper(__LINE__);
    CHECK(aclrtMallocHost(&block, __LINE__));
    CHECK(aclrtMallocAlign32(&block, __LINE__, POLICY));
#ifdef __cplusplus
    float *typed;
    CHECK(aclrtMalloc(&typed, __LINE__, POLICY)); /* a pointer to something */
    CHECK(::aclrtMallocWithCfg(&block, __LINE__, POLICY, nullptr));
    forwarded(&block, size_t(FORWARDED), POLICY);
#endif
    CHECK(table.allocate(&block, 1, POLICY)); /* by the pointer: not told */
    return 0;
}
