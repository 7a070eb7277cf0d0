/*
 * trace.c - records with text, and steering: start, stop, step.
 */
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "msmemscope.h"

size_t text_length(const char *text)
{
    size_t length = text ? strnlen(text, MS_TEXT_MAX + 1) : 0;
    if (length > MS_TEXT_MAX)
        for (length = MS_TEXT_MAX; length > 0 && (text[length] & 0xC0) == 0x80; length--) /* amid a UTF-8 character */
            ;
    return length;
}

void ms_put_text(enum ms_type type, uint16_t device, uint64_t value, const char *text)
{
    size_t length = text_length(text);
    struct ms_text *r = ms_reserve(type, MS_HOST, device, sizeof *r + length);
    if (!r)
        return;
    r->value = value;
    r->length = (uint32_t)length;
    memcpy(r + 1, text ? text : "", length);
    ms_publish(&r->h);
}

int put_named(enum ms_type type, const char *name)
{
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return life_state() == LIFE_READY ? 0 : -1;
    int saved = errno;
    ms_put_text(type, ms_current_device(), 0, name);
    errno = saved;
    ms_leave();
    return 0;
}

void ms_log(enum ms_log_level level, const char *format, ...)
{
    if (level < agent.config.log_level)
        return;
    int saved = errno;
    char line[MS_TEXT_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ms_put_text(MS_LOG, MS_DEVICE_NONE, level, line);
    errno = saved;
}

/* START_TRACE and STOP_TRACE: shown although the one is published before tracing begins and the other after it ended. */
static void put_boundary(enum ms_type type)
{
    struct ms_text *r = ms_reserve(type, MS_HOST, MS_DEVICE_NONE, sizeof *r);
    if (!r)
        return;
    r->h.flags = 0;
    ms_publish(&r->h);
}

/* Two threads that steer take turns, so that boundaries alternate. */
static void take_turn(uint32_t *steering)
{
    while (__atomic_exchange_n(steering, 1, __ATOMIC_ACQUIRE))
        futex_wait(steering, 1, (int64_t)NS_PER_MS);
}

static int steer(bool tracing)
{
    if (!enter())
        return -1;
    int saved = errno;
    struct ms_ring *ring = agent.ring;
    uint32_t *steering = &agent.life->steering;
    take_turn(steering);
    if ((__atomic_load_n(&ring->tracing, __ATOMIC_RELAXED) != 0) != tracing) {
        /* Normal records lie between the two boundaries: see ms_reserve. */
        if (tracing)
            put_boundary(MS_START_TRACE);
        __atomic_store_n(&ring->tracing, tracing, __ATOMIC_SEQ_CST);
        if (!tracing)
            put_boundary(MS_STOP_TRACE);
    }
    agent.inherited = tracing ? MS_TRACING_ON : MS_TRACING_OFF;
    __atomic_store_n(steering, 0, __ATOMIC_RELEASE);
    futex_wake_all(steering);
    errno = saved;
    ms_leave();
    return 0;
}

MS_EXPORT int ms_start(void)
{
    return steer(true);
}

MS_EXPORT int ms_stop(void)
{
    return steer(false);
}

MS_EXPORT int ms_step(void)
{
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return life_state() == LIFE_READY ? 0 : -1;
    uint64_t step = __atomic_add_fetch(&agent.life->steps, 1, __ATOMIC_RELAXED);
    ms_put_text(MS_STEP, ms_current_device(), step, NULL);
    ms_leave();
    return 0;
}
