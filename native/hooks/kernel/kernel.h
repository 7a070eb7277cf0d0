/*
 * kernel.h - what the files of the kernel hooks share. names.c is the host side (abi.md 4.1), channel.c the card's (4.2).
 *
 * Launches are told by the runtime through libprofapi.so, from inside of the real call; the hooks of the launch functions only
 * see to it that somebody listens.
 */
#ifndef MSMEMSCOPE_KERNEL_H
#define MSMEMSCOPE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ms_unwind.h"

/* Before anything that makes the runtime name its kernels; called once is enough. */
void kernel_expect(void);

/* Around a launch: the current card's channel is open from here on, and what is watched is dumped, if anybody wants that. */
void kernel_before_launch(void);
void kernel_after_launch(void);

/* The launch that this thread is in. */
struct kernel_launch {
    uint32_t depth; /* launch functions that call one another */
    uint16_t device;
    bool watched;
    uint64_t name; /* of the first kernel that it has launched; 0: none so far */
    struct ms_regs caller;
};
extern __thread struct kernel_launch kernel_launch __attribute__((tls_model("initial-exec")));

/* names.c, between ms_enter and ms_leave. Registers with libprofapi.so; false when that cannot be. `last_chance`: say so then. */
bool names_listen(bool last_chance);
/* Makes the runtime tell about launches on a card, or no more. False when it cannot. */
bool names_switch(uint16_t card, bool on);
/* The id of a kernel's name. */
uint64_t names_id(const char *text, size_t length);
/* Whether stream ids have 15 bits. */
bool names_expanded(void);

/* channel.c, between ms_enter and ms_leave. */
void channel_open(uint16_t card);
/* Everything that the cards have to say is published when this returns, unless that takes unreasonably long. */
void channel_close_all(void);

#endif
