/*
 * share.h - what a process lets the others know of its memory on the cards: a file VNPU_STATE_DIR/<pid> with one struct share.
 */
#ifndef VNPU_SHARE_H
#define VNPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHARE_CARDS = 64 };

struct share {
    uint32_t cards;
    uint32_t reserved;
    uint64_t total;             /* bytes of each card */
    uint64_t used[SHARE_CARDS]; /* bytes that this process holds */
};

/* Begins to tell, if VNPU_STATE_DIR is set. False: the directory cannot be written to. */
bool share_open(uint32_t cards, uint64_t bytes);

/* More bytes of a card are taken; fewer, as a negative number in two's complement. */
void share_add(uint32_t card, uint64_t bytes);

#endif
