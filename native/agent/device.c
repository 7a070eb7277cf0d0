/*
 * device.c - which card: the thread's current one, and the physical id of a logical one (abi.md 2.5).
 */
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "symbols.h"

enum { VISIBLE_MAX = 64 };

static uint16_t visible[VISIBLE_MAX]; /* physical card by logical one */
static int visible_count = -1;        /* -1: no list, ids are physical */

/* Reads "2, 0,5" into `cards`. Returns how many there are, or -1 when the list is not one of small numbers. */
static int parse_cards(const char *text, uint16_t *cards)
{
    for (int count = 0; count < VISIBLE_MAX;) {
        while (isblank((unsigned char)*text))
            text++;
        if (!isdigit((unsigned char)*text))
            return -1;
        uint32_t card = 0;
        while (isdigit((unsigned char)*text) && card < MS_DEVICE_NONE)
            card = card * 10 + (uint32_t)(*text++ - '0');
        while (isblank((unsigned char)*text))
            text++;
        if (card >= MS_DEVICE_NONE || (*text != ',' && *text != 0))
            return -1;
        cards[count++] = (uint16_t)card;
        if (*text++ == 0)
            return count;
    }
    return -1;
}

/* While connecting, so before anybody asks. A list with a bad token counts as none (contract.md, appendix D). */
void read_visible_devices(void)
{
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    visible_count = text ? parse_cards(text, visible) : -1;
    if (text && visible_count < 0)
        ms_log(MS_LOG_WARN, "Invalid format for ASCEND_RT_VISIBLE_DEVICES:%s", text);
}

uint16_t ms_physical_device(int logical)
{
    if (logical < 0 || (visible_count >= 0 ? logical >= visible_count : logical >= MS_DEVICE_NONE))
        return MS_DEVICE_NONE;
    return visible_count >= 0 ? visible[logical] : (uint16_t)logical;
}

typedef int get_device_fn(int32_t *device);

static get_device_fn *find_get_device(void)
{
    static get_device_fn *found;
    static unsigned long long loads_seen; /* nothing to find before another library is loaded */
    get_device_fn *get = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    unsigned long long loads = get ? 0 : library_loads();
    if (get || loads == __atomic_load_n(&loads_seen, __ATOMIC_RELAXED))
        return get;
    get = (get_device_fn *)find_symbol("aclrtGetDeviceImpl", NULL);
    if (!get)
        get = (get_device_fn *)find_symbol("rtGetDevice", NULL);
    if (get)
        __atomic_store_n(&found, get, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&loads_seen, loads, __ATOMIC_RELAXED);
    return get;
}

uint16_t ms_current_device(void)
{
    int saved = errno;
    int32_t device = -1;
    get_device_fn *get = find_get_device();
    int failed = get ? get(&device) : -1;
    errno = saved;
    return failed ? MS_DEVICE_NONE : ms_physical_device(device);
}

bool ms_device_wanted(uint16_t device)
{
    return device_wanted(device);
}
