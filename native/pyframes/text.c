/*
 * text.c - strings and line tables of the interpreter.
 */
#include <string.h>

#include "internal.h"

/* The state word of a string: kind (bytes per character) 3 bits, compact, ascii. */
static uint32_t state_of(struct memory *m, uintptr_t object)
{
    return look_u32(m, object + ms_python.layout.text_state) >> ms_python.layout.text_shift;
}

/* Strings made by the compiler are compact: the characters follow the head. */
bool is_text(struct memory *m, uintptr_t object)
{
    if (look_pointer(m, object + ms_python.layout.object_type) != (uintptr_t)ms_python.text_type)
        return false;
    uint32_t state = state_of(m, object), kind = state & 7;
    bool compact = state >> 3 & 1, ascii = state >> 4 & 1;
    return compact && (kind == 1 || (!ascii && (kind == 2 || kind == 4)));
}

static size_t utf8(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    for (size_t i = more; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(more == 1 ? 0xc0 | c : more == 2 ? 0xe0 | c : 0xf0 | c);
    return more + 1;
}

static uint32_t character(struct memory *m, uintptr_t data, uint32_t kind, uint64_t index)
{
    const void *p = look(m, data + index * kind, kind);
    uint32_t c = 0;
    if (p)
        memcpy(&c, p, kind);
    return c;
}

bool read_text(struct memory *m, uintptr_t object, char *to)
{
    if (!is_text(m, object))
        return false;
    uint32_t state = state_of(m, object), kind = state & 7;
    bool ascii = state >> 4 & 1;
    uint64_t length = look_pointer(m, object + ms_python.layout.text_length);
    uintptr_t data = object + (ascii ? ms_python.layout.text_ascii : ms_python.layout.text_wide);
    if (length > (1u << 30))
        return false;
    /* What does not fit is cut off in front: the end of a path says more. */
    uint64_t first = length;
    size_t room = MS_PY_TEXT - 1;
    for (char scratch[4]; first > 0; first--) {
        size_t bytes = utf8(character(m, data, kind, first - 1), scratch);
        if (bytes > room)
            break;
        room -= bytes;
    }
    for (; first < length; first++)
        to += utf8(character(m, data, kind, first), to);
    *to = 0;
    return !failed(m);
}

/* The bytes of a table, one after the other. */
struct table {
    struct memory *m;
    uintptr_t next, end;
};

static bool more(const struct table *t)
{
    return t->next < t->end && !failed(t->m);
}

static uint8_t next_byte(struct table *t)
{
    if (!more(t))
        return 0;
    const uint8_t *p = look(t->m, t->next++, 1);
    return p ? *p : 0;
}

/* Python 3.8, 3.9 (PEP 3 era "lnotab"): pairs of steps, address (unsigned) and line (signed). */
static int64_t line_lnotab(struct table *t, int64_t line, uint32_t offset)
{
    for (uint64_t at = 0; more(t);) {
        at += next_byte(t);
        if (at > offset)
            break;
        line += (int8_t)next_byte(t);
    }
    return line;
}

/* Python 3.10 (PEP 626): pairs of the length of a range and the step to its line; -128: no line. */
static int64_t line_310(struct table *t, int64_t line, uint32_t offset)
{
    for (uint64_t end = 0; more(t);) {
        end += next_byte(t);
        int8_t step = (int8_t)next_byte(t);
        if (step != -128)
            line += step;
        if (end > offset)
            return step == -128 ? -1 : line;
    }
    return -1;
}

/* Integers of the 3.11 table: groups of 6 bits, lowest first, 0x40 on all but the last; signed ones keep the sign in bit 0. */
static int64_t signed_varint(struct table *t)
{
    uint64_t value = 0;
    uint8_t byte;
    unsigned shift = 0;
    do {
        byte = next_byte(t);
        value |= (uint64_t)(byte & 0x3f) << shift;
        shift += 6;
    } while (byte & 0x40 && shift < 60);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/*
 * Python 3.11 on (PEP 657, "The location table"): entries that begin with a byte 0x80 | kind << 3 | length - 1 in units of
 * 2 bytes; of the rest only the step of the line is of interest here.
 */
static int64_t line_311(struct table *t, int64_t line, uint32_t offset)
{
    enum { ONE_LINE_0 = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    for (uint64_t end = 0; more(t);) {
        uint8_t head = next_byte(t);
        uint8_t kind = head >> 3 & 15;
        end += 2 * ((head & 7) + 1u);
        if (kind >= ONE_LINE_0 && kind < NO_COLUMNS)
            line += kind - ONE_LINE_0;
        else if (kind == NO_COLUMNS || kind == LONG)
            line += signed_varint(t);
        if (end > offset)
            return kind == NONE ? -1 : line;
        for (const uint8_t *p; more(t) && (p = look(t->m, t->next, 1)) && !(*p & 0x80);)
            t->next++;
    }
    return -1;
}

uint32_t line_of(struct memory *m, uintptr_t code, uint32_t offset)
{
    const struct layout *l = &ms_python.layout;
    uint32_t first = look_u32(m, code + l->code_first_line);
    uintptr_t bytes = look_pointer(m, code + l->code_lines);
    if (!bytes || look_pointer(m, bytes + l->object_type) != (uintptr_t)ms_python.bytes_type)
        return first;
    struct table t = {m, bytes + l->bytes_data, bytes + l->bytes_data + look_pointer(m, bytes + l->bytes_size)};
    int64_t line = l->line_format == LINES_LNOTAB ? line_lnotab(&t, first, offset)
                   : l->line_format == LINES_310  ? line_310(&t, first, offset)
                                                  : line_311(&t, first, offset);
    return line >= 0 && line <= INT32_MAX ? (uint32_t)line : first;
}
