#define _GNU_SOURCE
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/export.h"
#include "arena.h"
#include "ascend_hal.h"
#include "share.h"

static struct config cfg = {
    .devices = 2,
    .hbm_bytes = 64ULL << 30,
    .soc = "Ascend910B3",
    .fail_alloc_code = DRV_ERROR_OUT_OF_MEMORY,
    .fail_free_code = DRV_ERROR_INNER_ERR,
};
static const struct config *answer; /* &cfg once it is good */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t allocs, frees; /* calls so far, counted only while an injection is asked for */

/* Digits, and a K, M, G or T (powers of 1024) where `suffix` allows it; false on anything else and on overflow. */
static bool parse_number(const char *text, bool suffix, uint64_t *value)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (suffix && *end) {
        const char *units = "KMGT";
        const char *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit)
            return false;
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (number > UINT64_MAX >> shift)
            return false;
        number <<= shift;
        end++;
    }
    *value = number;
    return !*end;
}

static bool refuse(const char *name, const char *text, const char *accepted)
{
    fprintf(stderr, "vnpu: %s=\"%s\" is not valid: it must be %s\n", name, text, accepted);
    return false;
}

static bool number_variable(const char *name, bool suffix, uint64_t min, uint64_t max, const char *accepted,
                            uint64_t *value)
{
    const char *text = getenv(name);
    if (!text)
        return true;
    uint64_t number;
    if (!parse_number(text, suffix, &number) || number < min || number > max)
        return refuse(name, text, accepted);
    *value = number;
    return true;
}

static bool soc_variable(void)
{
    const char *text = getenv("VNPU_SOC");
    if (!text)
        return true;
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof cfg.soc ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != length)
        return refuse("VNPU_SOC", text, "1 to 31 letters, digits, '_' or '-', such as Ascend910B3");
    memcpy(cfg.soc, text, length + 1);
    return true;
}

static void new_process(void)
{
    allocs = frees = 0; /* the Nth call of *this* process fails */
}

static void read_environment(void)
{
    static const char code[] = "a driver error code from 1 to 65535";
    static const char nth[] = "a whole number from 1";
    uint64_t devices = cfg.devices, alloc_code = (uint64_t)cfg.fail_alloc_code,
             free_code = (uint64_t)cfg.fail_free_code;
    bool good = number_variable("VNPU_DEVICES", false, 1, MAX_DEVICES, "a whole number from 1 to 64", &devices) &&
                number_variable("VNPU_HBM_BYTES", true, 2 << 20, 1ULL << 40,
                                "bytes from 2M to 1T, with K, M, G or T for powers of 1024", &cfg.hbm_bytes) &&
                number_variable("VNPU_FAIL_ALLOC_NTH", false, 1, UINT64_MAX, nth, &cfg.fail_alloc_nth) &&
                number_variable("VNPU_FAIL_ALLOC_CODE", false, 1, 65535, code, &alloc_code) &&
                number_variable("VNPU_FAIL_FREE_NTH", false, 1, UINT64_MAX, nth, &cfg.fail_free_nth) &&
                number_variable("VNPU_FAIL_FREE_CODE", false, 1, 65535, code, &free_code) &&
                number_variable("VNPU_CLOCK_PPM", false, 0, 1000, "a whole number from 0 to 1000", &cfg.clock_ppm) &&
                number_variable("VNPU_STREAM_EXPAND", false, 0, 1, "0 or 1", &cfg.stream_expand) && soc_variable();
    if (good && !share_open((uint32_t)devices, cfg.hbm_bytes))
        good = refuse("VNPU_STATE_DIR", getenv("VNPU_STATE_DIR"), "a directory that can be written to");
    if (!good)
        return;
    cfg.devices = (uint32_t)devices;
    cfg.fail_alloc_code = (int)alloc_code;
    cfg.fail_free_code = (int)free_code;
    pthread_atfork(NULL, NULL, new_process);
    arenas_init(cfg.devices);
    __atomic_store_n(&answer, &cfg, __ATOMIC_RELEASE);
}

const struct config *config(void)
{
    const struct config *ready = __atomic_load_n(&answer, __ATOMIC_ACQUIRE);
    if (LIKELY(ready))
        return ready;
    pthread_once(&once, read_environment);
    return __atomic_load_n(&answer, __ATOMIC_ACQUIRE);
}

int config_fail_alloc(const struct config *c)
{
    if (LIKELY(!c->fail_alloc_nth))
        return 0;
    return __atomic_add_fetch(&allocs, 1, __ATOMIC_RELAXED) == c->fail_alloc_nth ? c->fail_alloc_code : 0;
}

int config_fail_free(const struct config *c)
{
    if (LIKELY(!c->fail_free_nth))
        return 0;
    return __atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED) == c->fail_free_nth ? c->fail_free_code : 0;
}
