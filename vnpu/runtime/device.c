/* device.c - the thread's current device, and the devices that the process may see. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

enum { MAX_VISIBLE = 64 };

/* ASCEND_RT_VISIBLE_DEVICES: device i of this process is card visible[i]. Without the variable, card i. */
static uint32_t visible[MAX_VISIBLE];
static int32_t visible_count = -1; /* -1: the environment is bad, or the driver says no */
static rtError_t visible_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t users[MAX_VISIBLE]; /* rtSetDevice calls of the process that no rtDeviceReset has undone */

static _Thread_local int32_t thread_device = -1;

rtError_t rt_error(drvError_t error)
{
    switch (error) {
    case DRV_ERROR_NONE:
        return RT_ERROR_NONE;
    case DRV_ERROR_NO_DEVICE:
        return ACL_ERROR_RT_NO_DEVICE;
    case DRV_ERROR_INVALID_DEVICE:
        return ACL_ERROR_RT_INVALID_DEVICEID;
    case DRV_ERROR_INVALID_VALUE:
    case DRV_ERROR_PARA_ERROR:
        return ACL_ERROR_RT_PARAM_INVALID;
    case DRV_ERROR_INVALID_HANDLE:
        return ACL_ERROR_RT_INVALID_HANDLE;
    case DRV_ERROR_OUT_OF_MEMORY:
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case DRV_ERROR_NOT_SUPPORT:
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    default:
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* A comma list of different card numbers; false on anything else. */
static bool parse_visible(const char *text, uint32_t cards)
{
    int32_t count = 0;
    for (const char *p = skip_blanks(text);; p = skip_blanks(p + 1)) {
        if (!isdigit((unsigned char)*p))
            return false;
        char *end;
        unsigned long card = strtoul(p, &end, 10);
        if (card >= cards)
            return false;
        for (int32_t i = 0; i < count; i++)
            if (visible[i] == card)
                return false;
        visible[count++] = (uint32_t)card; /* different and below `cards`: no more than MAX_VISIBLE */
        p = skip_blanks(end);
        if (!*p)
            break;
        if (*p != ',')
            return false;
    }
    visible_count = count;
    return true;
}

static void read_visible(void)
{
    uint32_t cards;
    visible_error = rt_error(drvGetDevNum(&cards));
    if (visible_error)
        return;
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (!text || !*text) {
        for (uint32_t i = 0; i < cards; i++)
            visible[i] = i;
        visible_count = (int32_t)cards;
    } else if (!parse_visible(text, cards)) {
        visible_error = ACL_ERROR_RT_INVALID_DEVICEID;
        fprintf(
            stderr,
            "vnpu: ASCEND_RT_VISIBLE_DEVICES=\"%s\" is not valid: it must be a comma list of different card numbers "
            "from 0 to %u\n",
            text, cards - 1);
    }
}

static rtError_t devices(int32_t *count)
{
    pthread_once(&once, read_visible);
    *count = visible_count;
    return visible_error;
}

VNPU_API rtError_t rtGetDeviceCount(int32_t *count)
{
    return count ? devices(count) : ACL_ERROR_RT_PARAM_INVALID;
}

VNPU_API rtError_t rtSetDevice(int32_t device)
{
    uint32_t card;
    rtError_t error = card_of(device, &card);
    if (error)
        return error;
    __atomic_add_fetch(&users[device], 1, __ATOMIC_RELAXED);
    thread_device = device;
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtGetPrimaryCtxState(int32_t device, int32_t *active)
{
    uint32_t card;
    rtError_t error = card_of(device, &card);
    if (!error)
        *active = __atomic_load_n(&users[device], __ATOMIC_RELAXED) != 0;
    return error;
}

VNPU_API rtError_t rtGetDevice(int32_t *device)
{
    if (!device)
        return ACL_ERROR_RT_PARAM_INVALID;
    if (thread_device < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *device = thread_device;
    return RT_ERROR_NONE;
}

/* The last reset ends the streams and events of the device. Memory stays until it is freed or the process ends. */
VNPU_API rtError_t rtDeviceReset(int32_t device)
{
    uint32_t card;
    rtError_t error = card_of(device, &card);
    if (error)
        return error;
    uint32_t now = __atomic_load_n(&users[device], __ATOMIC_RELAXED);
    while (now && !__atomic_compare_exchange_n(&users[device], &now, now - 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    if (!now)
        return ACL_ERROR_RT_CONTEXT_NULL; /* was never set */
    if (now == 1) {
        wait_for_device(device, -1);
        end_streams(device);
        end_events(device);
    }
    if (thread_device == device)
        thread_device = -1;
    return RT_ERROR_NONE;
}

rtError_t card_of(int32_t device, uint32_t *card)
{
    int32_t count;
    rtError_t error = devices(&count);
    if (error)
        return error;
    if (device < 0 || device >= count)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    *card = visible[device];
    return RT_ERROR_NONE;
}

rtError_t current_card(uint32_t *card)
{
    if (thread_device < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *card = visible[thread_device];
    return RT_ERROR_NONE;
}

VNPU_API rtError_t rtDeviceSynchronizeWithTimeout(int32_t timeout)
{
    uint32_t card;
    rtError_t error = current_card(&card);
    return error ? error : wait_for_device(thread_device, timeout);
}

VNPU_API rtError_t rtDeviceSynchronize(void)
{
    return rtDeviceSynchronizeWithTimeout(-1);
}

VNPU_API rtError_t rtGetSocVersion(char *version, const uint32_t maxLen)
{
    return rt_error(halGetSocVersion(0, version, maxLen));
}
