#include "stars.h"

#include <string.h>

#include "wire.h"

enum { FUNC_BEGIN = 0, FUNC_END = 1, SQE_PLACE_HOLDER = 3, SQE_EVENT_RECORD = 4 };

enum stars_layout stars_layout(const char *soc)
{
    return soc && (strstr(soc, "950") || strstr(soc, "960")) ? STARS_A5 : STARS_A2;
}

static uint32_t read32(const unsigned char *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* The hardware moves bits between the two fields in several ways; the highest bits of the stream's field say which. */
static void unpack(uint32_t s, uint32_t t, bool expanded, uint32_t sqe_type, struct stars_event *event)
{
    event->task = t;
    if (expanded) {
        event->stream = s & 0x7fff;
        if ((s & 0x8000) && sqe_type != SQE_PLACE_HOLDER && sqe_type != SQE_EVENT_RECORD) {
            event->stream = t & 0x7fff;
            event->task = (t & 0x8000) | (s & 0x7fff);
        }
        return;
    }
    event->stream = s % 2048;
    if (s & 0x1000) {
        event->task = (t & 0x1fff) | (s & 0xe000);
    } else if (s & 0x2000) {
        event->stream = (t & 0x0fff) % 2048;
        event->task = (s & 0x0fff) | (t & 0xf000);
    }
}

bool stars_parse(const unsigned char *record, enum stars_layout layout, bool expanded, struct stars_event *event)
{
    uint32_t head = read32(record), ids = read32(record + 4);
    uint32_t function = head & 0x3f, sqe_type = head >> 10 & 0x3f;
    if (function != FUNC_BEGIN && function != FUNC_END)
        return false;
    event->end = function == FUNC_END;
    event->count = read32(record + 8) | (uint64_t)read32(record + 12) << 32;
    if (layout == STARS_A5) {
        event->stream = MS_STREAM_NONE;
        event->task = ids;
    } else {
        unpack(ids & 0xffff, ids >> 16, expanded, sqe_type, event);
    }
    return true;
}
