/*
 * account.h - a program's own account of its heap: every call of the C allocation family, also those that libraries make,
 * in a file that outlives the program. test/property/heap.py reads it; all is little endian.
 *
 * The program's own malloc and so on (account.c) are found before the hook's and call those. A block's records are in the
 * order in which its address was in use: a free is noted before the call, an allocation after it.
 */
#ifndef MSMEMSCOPE_HOSTHEAP_TEST_ACCOUNT_H
#define MSMEMSCOPE_HOSTHEAP_TEST_ACCOUNT_H

#include <stdint.h>

enum { ACCOUNT_THREADS = 8192, ACCOUNT_RECORDS = 4 << 20 }; /* seconds of a program that goes on until it is killed */

enum account_kind {
    ACCOUNT_ALLOC = 1,
    ACCOUNT_FREE = 2,
    ACCOUNT_BACK = 3,   /* a realloc has failed: the block is there as before */
    ACCOUNT_START = 4,  /* of the program, before any library's; allocations that a library makes begin behind it */
    ACCOUNT_MAIN = 5,   /* the first function of the program */
    ACCOUNT_OPENED = 6, /* a window */
    ACCOUNT_CLOSED = 7,
};

struct account_record {
    uint8_t kind;  /* stored last */
    uint8_t entry; /* enum account_entry of the call */
    uint16_t thread;
    uint32_t path; /* of the caller, 0: somebody else's */
    uint64_t address;
    uint64_t size;
    uint64_t usable; /* of a free: malloc_usable_size */
    uint64_t stamp;  /* CLOCK_REALTIME, ns */
};

/* What a thread is about to do, for the case that it dies in it. */
struct account_pending {
    uint8_t kind; /* ACCOUNT_ALLOC, ACCOUNT_FREE; realloc: ACCOUNT_BACK; 0: nothing */
    uint8_t entry;
    uint16_t unused;
    uint32_t path;
    uint64_t address;
    uint64_t size;
};

struct account {
    uint64_t count; /* of records; the last of each thread may be incomplete */
    uint64_t pid;
    struct account_pending pending[ACCOUNT_THREADS];
    struct account_record records[ACCOUNT_RECORDS];
};

enum account_entry { MALLOC, CALLOC, REALLOC, REALLOCARRAY, POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, VALLOC, PVALLOC };

/* The account begins: from here on calls are noted. Before it they are not, which the program sees to be none of its own. */
void account_open(const char *path);
void account_mark(enum account_kind kind);
/* Not noted in this thread, between true and false: the hook's own. */
void account_pause(int on);
extern __thread uint32_t account_path;

#endif
