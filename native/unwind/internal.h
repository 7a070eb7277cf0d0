/*
 * internal.h - what the unwinder's own files share: the rule.
 *
 * How to get from a frame to its caller, in one word, so that it can be read and written in one piece. From the top:
 *
 *     cfa offset:18 | fp offset:14 | ra offset:14 | check:9 | signal:1 | ra base:2 | fp base:2 | deref:1 | cfa base:1 | kind:2
 *
 * Offsets are signed and count words of 8 bytes. CFA, the caller's stack pointer, = base + offset, or the word there
 * (deref). The caller's frame pointer and the return address lie at base + offset. `check` are the low bits of the
 * address that the rule is for.
 */
#ifndef MSMEMSCOPE_UNWIND_INTERNAL_H
#define MSMEMSCOPE_UNWIND_INTERNAL_H

#include "ms_unwind.h"

enum {
    RULE_KIND = 3,  /* mask */
    RULE_OTHER = 0, /* all fields are to be looked at */
    RULE_PLAIN =
        1, /* nearly all code: no deref, no signal, ra at the CFA (x86-64: the word below), fp there or the same */
    RULE_END = 2, /* the thread's first function */
    RULE_CUT = 3, /* no way to go on */

    RULE_CFA_FP = 1 << 2, /* else SP */
    RULE_CFA_DEREF = 1 << 3,

    RULE_FP_SHIFT = 4, /* 0: the caller's is the same */
    RULE_RA_SHIFT = 6,
    RULE_AT_CFA = 1,
    RULE_AT_SP = 2,
    RULE_AT_FP = 3,

    RULE_SIGNAL = 1 << 8, /* the frame that a signal handler returns to: the next address is no return address */

    RULE_CHECK_SHIFT = 9,
    RULE_CHECK_BITS = 9,
    RULE_RA_OFFSET_SHIFT = 18,
    RULE_FP_OFFSET_SHIFT = 32,
    RULE_CFA_OFFSET_SHIFT = 46,
};

/* cfi.c: the rule for the instruction at `pc`, without `check`. */
uint64_t find_rule(const void *eh_frame_hdr, uintptr_t pc);

/* The step by frame pointer. */
uint64_t frame_pointer_rule(void);

/* modules.c: the number of the library at `pc`, 0 for none, and its .eh_frame_hdr. */
unsigned find_module(uintptr_t pc, const void **eh_frame_hdr);

/* Marks what is not loaded any more. True when there was something. */
bool forget_modules(void);

/* bounds.c: how far the stack goes that `sp` is on: every word from sp to the result can be read. */
uintptr_t stack_end(uintptr_t sp);

#endif
