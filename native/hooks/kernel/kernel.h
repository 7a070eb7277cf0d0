/*
 * kernel.h - what the files of the kernel hooks share. names.c is the host side (abi.md 4.1), channel.c the card's (4.2).
 *
 * Launches are told by the runtime through libprofapi.so, from inside of the real call; the hooks of the launch functions only
 * see to it that somebody listens.
 */
#ifndef MSMEMSCOPE_KERNEL_H
#define MSMEMSCOPE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Before anything that makes the runtime name its kernels; called once is enough. */
void kernel_expect(void);

/* Before a launch: the current card's channel is open from here on, if anybody wants that. */
void kernel_before_launch(void);

/* names.c, between ms_enter and ms_leave. Registers with libprofapi.so; false when that cannot be. `last_chance`: say so then. */
bool names_listen(bool last_chance);
/* Makes the runtime tell about launches on a card, or no more. False when it cannot. */
bool names_switch(uint16_t card, bool on);
/* Whether stream ids have 15 bits. */
bool names_expanded(void);

/* channel.c, between ms_enter and ms_leave. */
void channel_open(uint16_t card);
/* Everything that the cards have to say is published when this returns, unless that takes unreasonably long. */
void channel_close_all(void);

#endif
