/*
 * target.h - what a test's target tells the test: its own account, in memory that both have.
 */
#ifndef MSMEMSCOPE_HOSTHEAP_TEST_TARGET_H
#define MSMEMSCOPE_HOSTHEAP_TEST_TARGET_H

#include <stdint.h>

enum { ACCOUNT_MOST = 1 << 20 };

struct account {
    uint32_t go;    /* set by the test: the target waits for it where a test wants that */
    uint32_t stage; /* set by the target */
    uint64_t count;
    struct {
        uint64_t address, size;
    } blocks[ACCOUNT_MOST]; /* that live at the end */
    uint64_t values[64];
};

#endif
