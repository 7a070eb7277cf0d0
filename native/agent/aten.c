/*
 * aten.c - operators of PyTorch and the tensors they touch. The Python module calls these functions; programs that carry a
 * collector of their own send the same as mstx marks (abi.md 3.7).
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msmemscope.h"

MS_EXPORT int ms_aten_begin(const char *name)
{
    int result = put_named(MS_ATEN_START, name);
    ms_watch_aten(name, false);
    return result;
}

MS_EXPORT int ms_aten_end(const char *name)
{
    int result = put_named(MS_ATEN_END, name);
    ms_watch_aten(name, true);
    return result;
}

MS_EXPORT int ms_aten_access(const char *text, uint64_t address, uint64_t size, int kind)
{
    if (address == 0)
        return 0;
    if (kind == MS_ACCESS_WRITE)
        ms_watch_written(address, size);
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return life_state() == LIFE_READY ? 0 : -1;
    int saved = errno;
    size_t length = text_length(text);
    struct ms_access *r = ms_reserve(MS_ATEN_ACCESS, MS_PTA, ms_current_device(), sizeof *r + length);
    if (r) {
        r->addr = address;
        r->size = size;
        r->kind = kind < MS_ACCESS_UNKNOWN || kind > MS_ACCESS_WRITE ? MS_ACCESS_UNKNOWN : (uint32_t)kind;
        r->length = (uint32_t)length;
        memcpy(r + 1, text, length);
        ms_publish(&r->h);
    }
    errno = saved;
    ms_leave();
    return 0;
}

/* The text behind "key=", up to a semicolon or the end; its length in *length. NULL: no such key. */
static const char *field(const char *message, const char *key, size_t *length)
{
    const char *at = strstr(message, key);
    if (!at)
        return NULL;
    at += strlen(key);
    *length = strcspn(at, ";");
    return at;
}

static bool is_true(const char *message, const char *key)
{
    size_t length;
    const char *value = field(message, key, &length);
    return value && length == 4 && strncmp(value, "True", 4) == 0;
}

static void access_mark(const char *message)
{
    size_t name_length = 0, shape_length = 0, dtype_length = 0, unused;
    const char *address = field(message, "ptr=", &unused), *size = field(message, "tensor_size=", &unused);
    const char *name = field(message, ";name=", &name_length), *shape = field(message, ";shape=", &shape_length);
    const char *dtype = field(message, ";dtype=", &dtype_length);
    char text[MS_TEXT_MAX + 1];
    if (!address || !size || !name || !shape || !dtype ||
        name_length + shape_length + dtype_length + sizeof "\ndtype:,shape:" > sizeof text)
        return;
    snprintf(text, sizeof text, "%.*s\ndtype:%.*s,shape:%.*s", (int)name_length, name, (int)dtype_length, dtype,
             (int)shape_length, shape);
    int kind = is_true(message, ";is_write=")  ? MS_ACCESS_WRITE
               : is_true(message, ";is_read=") ? MS_ACCESS_READ
                                               : MS_ACCESS_UNKNOWN;
    ms_aten_access(text, strtoull(address, NULL, 10), strtoull(size, NULL, 10), kind);
}

MS_EXPORT void ms_aten_mark(const char *message)
{
    int saved = errno;
    if (strncmp(message, "b: name=", 8) == 0)
        ms_aten_begin(message + 8);
    else if (strncmp(message, "e: name=", 8) == 0)
        ms_aten_end(message + 8);
    else if (strncmp(message, "ac:", 3) == 0)
        access_mark(message + 3);
    errno = saved;
}
