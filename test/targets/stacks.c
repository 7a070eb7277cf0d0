/*
 * stacks - allocates through a known chain of calls, and tells for every block: its size, then "function line" of each call,
 * innermost first. With "wait" it goes on when something comes on standard input.
 */
#include <unistd.h>

#include "target.h"

#define NOINLINE __attribute__((noinline))

enum { DEEP = 30 };

static int chain[DEEP + 8], depth; /* lines */
static const char *names[DEEP + 8];

#define CALL(call)                                            \
    do {                                                      \
        chain[depth] = __LINE__;                              \
        names[depth++] = __func__;                            \
        call;                                                 \
        depth--;                                              \
        __asm__ volatile("" ::: "memory"); /* no tail call */ \
    } while (0)

static NOINLINE void inner(uint64_t bytes)
{
    void *block;
    drvError_t error;
    CALL(error = halMemAlloc(&block, bytes, MEM_DEV | MEM_TYPE_HBM | (uint64_t)APP_MODULE_ID << MEM_MODULE_ID_BIT));
    if (error)
        die("halMemAlloc", error);
    printf("%llu", (unsigned long long)bytes);
    for (int i = depth; i >= 0; i--)
        printf(" %s %d", names[i], chain[i]);
    printf("\n");
}

static NOINLINE void down(int n, uint64_t bytes)
{
    if (n == 0)
        CALL(inner(bytes));
    else
        CALL(down(n - 1, bytes));
}

static NOINLINE void outer(uint64_t bytes)
{
    CALL(down(3, bytes));
    CALL(down(DEEP, bytes + 1));
    for (volatile int i = 0; i < 3; i++)
        CALL(inner(bytes + 2));
}

int main(int argc, char **argv)
{
    (void)argv;
    CALL(outer(4096));
    if (argc > 1) {
        char byte;
        fflush(stdout);
        if (read(0, &byte, 1) < 0)
            die("read", 0);
    }
    CALL(outer(1 << 20));
    return 0;
}
