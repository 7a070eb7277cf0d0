/*
 * fuzz_messages.c - what strangers say to the hooks, at random: marks of operators, records of the STARS channel, lists of visible
 * cards, labels. Everything is in memory of just its size, so that the address sanitizer sees a byte too many.
 *
 *     fuzz_messages [SECONDS [SEED]]      mutants of good messages, the same ones for the same seed
 *
 * Built with -DLIBFUZZER -fsanitize=fuzzer it is a target of libFuzzer instead.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../hooks/kernel/stars.h"
#include "agent.h"
#include "child.h"
#include "collector.h"
#include "msmemscope.h"
#include "state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct collector c;

/* Reads what was recorded: lengths inside of their records. */
static void drain(void)
{
    struct client *client = collector_client(&c, 0);
    for (struct ms_head *h; (h = client_peek(client)); client_done(client)) {
        size_t bytes = record_bytes(h), text = 0, head = 0;
        switch (record_type(h)) {
        case MS_ATEN_ACCESS:
            head = sizeof(struct ms_access);
            text = ((struct ms_access *)h)->length;
            break;
        case MS_ATEN_START:
        case MS_ATEN_END:
        case MS_MARK:
        case MS_LABEL_PUSH:
        case MS_LABEL_POP:
        case MS_LABEL_ADDRESS:
            head = sizeof(struct ms_text);
            text = ((struct ms_text *)h)->length;
            break;
        default:
            break;
        }
        if (head + text > bytes || text > MS_TEXT_MAX)
            abort();
    }
    client_turn(client);
}

static void stars(const uint8_t *data, size_t size)
{
    struct stars_event event;
    unsigned char record[STARS_A2];
    for (int layout = STARS_A5; layout <= STARS_A2 && size >= (size_t)layout; layout += STARS_A2 - STARS_A5) {
        memcpy(record, data, (size_t)layout);
        for (int expanded = 0; expanded < 2; expanded++)
            if (stars_parse(record, (enum stars_layout)layout, expanded, &event) && layout == STARS_A2 &&
                event.stream >= (expanded ? 1u << 15 : 2048u))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!c.count) {
        collector_defaults(&c);
        collector_open(&c);
        collector_serve(&c);
        ms_start();
    }
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    ms_aten_mark(text);
    for (int level = -1; level <= MS_LABEL_USER_3 + 1; level++) {
        ms_label_push(level, text);
        ms_label_address(size, level, text);
        ms_label_pop(level, text);
    }
    if (!memchr(data, 0, size) && setenv("ASCEND_RT_VISIBLE_DEVICES", text, 1) == 0) {
        read_visible_devices();
        for (int card = -1; card < 70; card++)
            if (ms_physical_device(card) > MS_DEVICE_NONE)
                abort();
    }
    stars(data, size);
    free(text);
    drain();
    return 0;
}

#ifndef LIBFUZZER
static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (size_t)(state >> 33) % n;
}

int main(int argc, char **argv)
{
    static const char *const good[] = {
        "b: name=aten.add",
        "e: name=aten.add",
        "ac:ptr=4096;is_write=False;is_read=True;is_output=False;name=aten.add;shape=torch.Size([2, "
        "3]);dtype=torch.float32;"
        "tensor_size=24;device=npu:0",
        "0, 1,2 ,3,63",
        "activation\n\f\x7f\xe6\xb1\x89",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    };
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long runs = 0;
    for (; runs % 64 || time(NULL) < end; runs++) {
        const char *from = good[below(sizeof good / sizeof *good)];
        uint8_t text[3000];
        size_t size = strlen(from);
        memcpy(text, from, size);
        for (size_t n = below(6); n > 0; n--) {
            size_t at = below(size + 1), gone = below(5), new = below(64) ? below(5) : below(1200);
            gone = gone < size - at ? gone : size - at;
            if (size - gone + new > sizeof text)
                continue;
            memmove(text + at + new, text + at + gone, size - at - gone);
            for (size_t i = 0; i < new; i++)
                text[at + i] = (uint8_t)(below(2) ? below(256) : (size_t)";=,:0x9-"[below(8)]);
            size += new - gone;
        }
        LLVMFuzzerTestOneInput(text, size);
    }
    printf("%lu messages\n", runs);
    return runs < 100;
}
#endif
