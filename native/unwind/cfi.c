/*
 * cfi.c - from an address to its rule: .eh_frame_hdr, FDE, CIE, call frame instructions.
 * Formats: LSB Core 5.0 "Exception Frames", DWARF 5 section 6.4, and the vendor instructions of the AArch64 DWARF ABI.
 *
 * Only what a walk needs is followed: CFA, frame pointer, return address. A rule that does not fit the word of internal.h
 * (other registers, free expressions) becomes RULE_CUT.
 */
#include <stddef.h>
#include <string.h>

#include "internal.h"

#if defined(__x86_64__)
enum { REG_FP = 6, REG_SP = 7, REG_RA = 16 };
#elif defined(__aarch64__)
enum { REG_FP = 29, REG_SP = 31, REG_RA = 30 };
#endif

/* A base of internal.h and an offset in bytes; or nowhere, or not expressible. */
struct place {
    uint8_t base; /* RULE_AT_*; 0: the register keeps its value */
    bool undefined;
    bool odd; /* a rule that we have no word for */
    int64_t offset;
};

struct row {
    bool cfa_fp, cfa_deref, cfa_odd;
    int64_t cfa_offset;
    struct place fp, ra;
};

enum { ROWS = 8 }; /* DW_CFA_remember_state nests as deep as compilers care to; deeper is odd */

struct cursor {
    const uint8_t *at, *end;
};

static uint64_t fixed(struct cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < bytes) {
        c->at = c->end;
        return 0;
    }
    memcpy(&value, c->at, bytes);
    c->at += bytes;
    return value;
}

static uint64_t uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static int64_t sleb(struct cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    while (c->at < c->end) {
        byte = *c->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            break;
    }
    if (shift < 64 && (byte & 0x40))
        value |= ~0ULL << shift;
    return (int64_t)value;
}

/* An address in a DW_EH_PE encoding; 0 for those that no FDE uses (text-, data-, function-relative, indirect). */
static uintptr_t encoded(struct cursor *c, uint8_t encoding)
{
    uintptr_t here = (uintptr_t)c->at, value;
    switch (encoding & 0x0f) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        value = (uintptr_t)fixed(c, 8);
        break;
    case 0x02:
        value = (uint16_t)fixed(c, 2);
        break;
    case 0x03:
        value = (uint32_t)fixed(c, 4);
        break;
    case 0x0a:
        value = (uintptr_t)(int64_t)(int16_t)fixed(c, 2);
        break;
    case 0x0b:
        value = (uintptr_t)(int64_t)(int32_t)fixed(c, 4);
        break;
    default:
        return 0;
    }
    if ((encoding & 0x70) == 0x10)
        value += here;
    else if ((encoding & 0xf0) != 0)
        return 0;
    return value;
}

/* Expressions that we know: a register plus an offset, and with `deref` the word there. Only SP and FP. */
static bool simple_expression(struct cursor *c, bool want_deref, uint8_t *base, int64_t *offset)
{
    uint64_t length = uleb(c);
    if (length > (uint64_t)(c->end - c->at))
        length = (uint64_t)(c->end - c->at);
    struct cursor e = {c->at, c->at + length};
    c->at += length;
    uint8_t op = (uint8_t)fixed(&e, 1);
    if (op < 0x70 || op > 0x8f) /* DW_OP_breg0 ... 31 */
        return false;
    *offset = sleb(&e);
    *base = op - 0x70 == REG_SP ? RULE_AT_SP : op - 0x70 == REG_FP ? RULE_AT_FP : 0;
    if (want_deref && fixed(&e, 1) != 0x06)
        return false;
    return *base != 0 && e.at == e.end;
}

struct program {
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of addresses in the FDE */
    bool signal;
    bool augmented; /* the FDE has data before its instructions */
};

static struct place *place_of(struct row *row, uint64_t reg)
{
    return reg == REG_FP ? &row->fp : reg == REG_RA ? &row->ra : NULL;
}

static void set_place(struct row *row, uint64_t reg, struct place value)
{
    struct place *p = place_of(row, reg);
    if (p)
        *p = value;
}

static void set_cfa(struct row *row, uint64_t reg)
{
    row->cfa_odd = reg != REG_SP && reg != REG_FP;
    row->cfa_fp = reg == REG_FP;
    row->cfa_deref = false;
}

/* Runs instructions until `pc` is passed (the FDE's; for a CIE's they all count). `at` is where they begin. */
static void run(struct cursor c, const struct program *p, uintptr_t at, uintptr_t pc, const struct row *initial,
                struct row *row)
{
    struct row saved[ROWS];
    unsigned depth = 0;
    while (c.at < c.end && at <= pc) {
        uint8_t op = *c.at++;
        uint64_t reg;
        switch (op & 0xc0) {
        case 0x40: /* advance_loc */
            at += (op & 0x3f) * p->code_align;
            continue;
        case 0x80: /* offset */
            set_place(row, op & 0x3f, (struct place){.base = RULE_AT_CFA, .offset = (int64_t)uleb(&c) * p->data_align});
            continue;
        case 0xc0: { /* restore */
            struct place *to = place_of(row, op & 0x3f);
            if (to && initial)
                *to = (op & 0x3f) == REG_FP ? initial->fp : initial->ra;
            continue;
        }
        }
        switch (op) {
        case 0x00: /* nop */
            break;
        case 0x01: /* set_loc */
            at = encoded(&c, p->encoding);
            break;
        case 0x02: /* advance_loc1 */
            at += fixed(&c, 1) * p->code_align;
            break;
        case 0x03:
            at += fixed(&c, 2) * p->code_align;
            break;
        case 0x04:
            at += fixed(&c, 4) * p->code_align;
            break;
        case 0x05: /* offset_extended */
            reg = uleb(&c);
            set_place(row, reg, (struct place){.base = RULE_AT_CFA, .offset = (int64_t)uleb(&c) * p->data_align});
            break;
        case 0x11: /* offset_extended_sf */
            reg = uleb(&c);
            set_place(row, reg, (struct place){.base = RULE_AT_CFA, .offset = sleb(&c) * p->data_align});
            break;
        case 0x2f: /* GNU_negative_offset_extended */
            reg = uleb(&c);
            set_place(row, reg, (struct place){.base = RULE_AT_CFA, .offset = -((int64_t)uleb(&c) * p->data_align)});
            break;
        case 0x06: { /* restore_extended */
            reg = uleb(&c);
            struct place *to = place_of(row, reg);
            if (to && initial)
                *to = reg == REG_FP ? initial->fp : initial->ra;
            break;
        }
        case 0x07: /* undefined */
            set_place(row, uleb(&c), (struct place){.undefined = true});
            break;
        case 0x08: /* same_value */
            set_place(row, uleb(&c), (struct place){0});
            break;
        case 0x09: /* register */
            reg = uleb(&c);
            uleb(&c);
            set_place(row, reg, (struct place){.odd = true});
            break;
        case 0x0a: /* remember_state */
            if (depth < ROWS)
                saved[depth] = *row;
            depth++;
            break;
        case 0x0b: /* restore_state */
            if (depth > ROWS)
                row->cfa_odd = true;
            else if (depth > 0)
                *row = saved[depth - 1];
            depth -= depth > 0;
            break;
        case 0x0c: /* def_cfa */
            set_cfa(row, uleb(&c));
            row->cfa_offset = (int64_t)uleb(&c);
            break;
        case 0x12: /* def_cfa_sf */
            set_cfa(row, uleb(&c));
            row->cfa_offset = sleb(&c) * p->data_align;
            break;
        case 0x0d: /* def_cfa_register */
            set_cfa(row, uleb(&c));
            break;
        case 0x0e: /* def_cfa_offset */
            row->cfa_offset = (int64_t)uleb(&c);
            break;
        case 0x13: /* def_cfa_offset_sf */
            row->cfa_offset = sleb(&c) * p->data_align;
            break;
        case 0x0f: { /* def_cfa_expression */
            uint8_t base = 0;
            row->cfa_odd = !simple_expression(&c, true, &base, &row->cfa_offset);
            row->cfa_fp = base == RULE_AT_FP;
            row->cfa_deref = true;
            break;
        }
        case 0x10: { /* expression */
            struct place value = {0};
            reg = uleb(&c);
            value.odd = !simple_expression(&c, false, &value.base, &value.offset);
            set_place(row, reg, value);
            break;
        }
        case 0x14: /* val_offset */
        case 0x15: /* val_offset_sf */
            reg = uleb(&c);
            uleb(&c);
            set_place(row, reg, (struct place){.odd = true});
            break;
        case 0x16: { /* val_expression */
            reg = uleb(&c);
            uint64_t length = uleb(&c);
            c.at += length < (uint64_t)(c.end - c.at) ? length : (uint64_t)(c.end - c.at);
            set_place(row, reg, (struct place){.odd = true});
            break;
        }
        case 0x2c: /* AARCH64_negate_ra_state_with_pc */
        case 0x2d: /* AARCH64_negate_ra_state: the signature is cut off every return address anyway */
            break;
        case 0x2e: /* GNU_args_size */
            uleb(&c);
            break;
        default: /* one that we cannot even skip */
            row->cfa_odd = true;
            return;
        }
    }
}

/* Reads a CIE: its instructions stay behind `c`. */
static bool read_cie(const uint8_t *cie, struct program *p, struct cursor *c)
{
    uint32_t length;
    memcpy(&length, cie, sizeof length);
    if (length == 0xffffffff || length == 0)
        return false; /* 64-bit DWARF in .eh_frame: nobody emits it */
    *c = (struct cursor){cie + 8, cie + 4 + length};
    uint8_t version = (uint8_t)fixed(c, 1);
    const char *augmentation = (const char *)c->at;
    c->at += strnlen(augmentation, (size_t)(c->end - c->at)) + 1;
    if (c->at >= c->end || (version != 1 && version != 3))
        return false;
    p->code_align = uleb(c);
    p->data_align = sleb(c);
    uint64_t ra = version == 1 ? fixed(c, 1) : uleb(c);
    p->encoding = 0;
    p->signal = false;
    p->augmented = augmentation[0] == 'z';
    if (ra != REG_RA)
        return false;
    if (augmentation[0] == 0)
        return true;
    if (augmentation[0] != 'z')
        return false;
    uint64_t bytes = uleb(c);
    if (bytes > (uint64_t)(c->end - c->at))
        return false;
    struct cursor data = {c->at, c->at + bytes};
    c->at += bytes;
    for (const char *a = augmentation + 1; *a; a++) {
        if (*a == 'R')
            p->encoding = (uint8_t)fixed(&data, 1);
        else if (*a == 'P')
            encoded(&data, (uint8_t)fixed(&data, 1) & 0x7f);
        else if (*a == 'L')
            fixed(&data, 1);
        else if (*a == 'S')
            p->signal = true;
        else if (*a != 'B' && *a != 'G')
            break; /* unknown: what follows cannot be read, and we have what we need or not */
    }
    return true;
}

/* The FDE that may cover pc, by the sorted table of the header; NULL without one. */
static const uint8_t *find_fde(const uint8_t *hdr, uintptr_t pc)
{
    /* version 1; any pointer to .eh_frame; count udata4; table datarel sdata4: what every linker writes */
    if (hdr[0] != 1 || hdr[2] != 0x03 || hdr[3] != 0x3b)
        return NULL;
    struct cursor c = {hdr + 4, hdr + 16};
    if (hdr[1] != 0xff)
        encoded(&c, hdr[1]);
    uint32_t count = (uint32_t)fixed(&c, 4);
    const int32_t (*table)[2] = (const void *)c.at;
    int64_t wanted = (int64_t)(pc - (uintptr_t)hdr);
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table[middle][0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? hdr + table[low - 1][1] : NULL;
}

static bool fits(int64_t offset, unsigned bits)
{
    int64_t words = offset / 8, half = 1LL << (bits - 1);
    return offset % 8 == 0 && words >= -half && words < half;
}

static uint64_t field(int64_t offset, unsigned bits, unsigned shift)
{
    return ((uint64_t)(offset / 8) & ((1ULL << bits) - 1)) << shift;
}

static bool plain(const struct row *row)
{
#if defined(__x86_64__)
    if (row->ra.offset != -8)
        return false;
#endif
    return !row->cfa_deref && row->ra.base == RULE_AT_CFA && (row->fp.base == 0 || row->fp.base == RULE_AT_CFA);
}

static uint64_t encode(const struct row *row, bool signal)
{
    if (row->ra.undefined)
        return RULE_END;
    /* A return address in a register has a frame only while it calls nobody: nothing that we meet. */
    if (row->cfa_odd || row->fp.odd || row->ra.odd || row->ra.base == 0 || !fits(row->cfa_offset, 18) ||
        !fits(row->fp.offset, 14) || !fits(row->ra.offset, 14))
        return RULE_CUT;
    return field(row->cfa_offset, 18, RULE_CFA_OFFSET_SHIFT) | field(row->fp.offset, 14, RULE_FP_OFFSET_SHIFT) |
           field(row->ra.offset, 14, RULE_RA_OFFSET_SHIFT) | (signal ? RULE_SIGNAL : 0) |
           (uint64_t)row->ra.base << RULE_RA_SHIFT | (uint64_t)row->fp.base << RULE_FP_SHIFT |
           (row->cfa_deref ? RULE_CFA_DEREF : 0) | (row->cfa_fp ? RULE_CFA_FP : 0) |
           (plain(row) && !signal ? RULE_PLAIN : RULE_OTHER);
}

uint64_t frame_pointer_rule(void)
{
    struct row row = {.cfa_fp = true, .cfa_offset = 16};
    row.fp = (struct place){.base = RULE_AT_CFA, .offset = -16};
    row.ra = (struct place){.base = RULE_AT_CFA, .offset = -8};
    return encode(&row, false);
}

uint64_t find_rule(const void *eh_frame_hdr, uintptr_t pc)
{
    const uint8_t *fde = find_fde(eh_frame_hdr, pc);
    if (!fde)
        return frame_pointer_rule();
    uint32_t length, back;
    memcpy(&length, fde, sizeof length);
    memcpy(&back, fde + 4, sizeof back);
    if (length == 0xffffffff || length == 0 || back == 0)
        return RULE_CUT;
    struct program p;
    struct cursor cie, c = {fde + 8, fde + 4 + length};
    if (!read_cie(fde + 4 - back, &p, &cie))
        return RULE_CUT;
    uintptr_t begin = encoded(&c, p.encoding);
    uintptr_t range = encoded(&c, p.encoding & 0x0f);
    if (pc - begin >= range)
        return frame_pointer_rule(); /* as of V8's embedded builtins, which keep one */
    if (p.augmented) {
        uint64_t bytes = uleb(&c);
        c.at += bytes < (uint64_t)(c.end - c.at) ? bytes : (uint64_t)(c.end - c.at);
    }
    struct row row = {0};
    run(cie, &p, begin, (uintptr_t)-1, NULL, &row);
    struct row initial = row;
    run(c, &p, begin, pc, &initial, &row);
    return encode(&row, p.signal);
}
