/*
 * stars.h - records of the STARS channel, which tell when tasks begin and end on a card. Layouts: abi.md 4.2.
 */
#ifndef MSMEMSCOPE_STARS_H
#define MSMEMSCOPE_STARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a record; they also name its layout. */
enum stars_layout {
    STARS_A2 = 64, /* A2, A3 */
    STARS_A5 = 32, /* A5, A6: no stream id */
};

struct stars_event {
    uint64_t count;  /* of the card's counter */
    uint32_t stream; /* MS_STREAM_NONE on A5 */
    uint32_t task;
    bool end;
};

/* By the name of the chip, which may be NULL. */
enum stars_layout stars_layout(const char *soc);

/* Takes a record apart. False: neither begin nor end of a task. `expanded`: stream ids have 15 bits. */
bool stars_parse(const unsigned char *record, enum stars_layout layout, bool expanded, struct stars_event *event);

#endif
