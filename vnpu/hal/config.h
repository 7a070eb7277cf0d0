/*
 * config.h - the virtual NPU's environment, read once, at the first call of the process into the driver.
 *
 * vnpu/README.md documents the variables. A bad value is never guessed at: one line on standard error names the variable
 * and what it accepts, and every call into the driver fails from then on.
 */
#ifndef VNPU_CONFIG_H
#define VNPU_CONFIG_H

#include <stdint.h>

enum { MAX_DEVICES = 64 };

struct config {
    uint32_t devices;
    uint64_t hbm_bytes; /* of each device */
    char soc[32];
    uint64_t clock_ppm;      /* how much too fast the cards' counters run, millionths */
    uint64_t stream_expand;  /* 1: stream ids have 15 bits, not 11 */
    uint64_t fail_alloc_nth; /* 1-based; 0 = never */
    int fail_alloc_code;
    uint64_t fail_free_nth;
    int fail_free_code;
};

/* The configuration, or NULL when the environment is bad. */
const struct config *config(void);

/* Counts one allocation or free of this process; returns the code that it has to fail with, or 0. */
int config_fail_alloc(const struct config *cfg);
int config_fail_free(const struct config *cfg);

#endif
