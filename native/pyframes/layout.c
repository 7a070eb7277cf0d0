/*
 * layout.c - finding an interpreter, and where its objects have their parts.
 *
 * Up to 3.12 the layout of a version is a constant of ours (x86-64 and aarch64 have the same). From 3.13 on the interpreter
 * publishes the offsets (struct _Py_DebugOffsets at the start of _PyRuntime); of that table we know the order of the fields.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { HEAD = 16 }; /* of an object: count of references, type; the size of a variable one follows */

#define OBJECTS                                                                                                  \
    .object_type = 8, .bytes_size = HEAD, .bytes_data = HEAD + 16, .text_length = HEAD, .text_state = HEAD + 16, \
    .text_hash = HEAD + 8, .text_shift = 2
#define FRAME_OBJECTS /* 3.8 to 3.10: a chain of PyFrameObject */                                            \
    .thread_frame = 24, .thread_chain = -1, .frame_code = 32, .frame_previous = 24, .frame_owner = -1,       \
    .code_file = 104, .code_name = 112, .code_lines = 120, .code_first_line = 40, OBJECTS, .text_ascii = 48, \
    .text_wide = 72
#define CODE_OBJECTS /* from 3.11 on the instructions are in the code object */                       \
    .thread_frame = 56, .frame_instr = 56, .instr_pointer = true, .code_file = 112, .code_name = 120, \
    .code_lines = 136, .line_format = LINES_311, OBJECTS

static const struct {
    uint8_t minor;
    struct layout layout;
} known[] = {
    {8, {FRAME_OBJECTS, .frame_instr = 104, .instr_scale = 1, .line_format = LINES_LNOTAB}},
    {9, {FRAME_OBJECTS, .frame_instr = 104, .instr_scale = 1, .line_format = LINES_LNOTAB}},
    {10, {FRAME_OBJECTS, .frame_instr = 96, .instr_scale = 2, .line_format = LINES_310}},
    {11,
     {CODE_OBJECTS, .thread_chain = 8, .frame_code = 32, .frame_previous = 48, .frame_owner = 69, .code_first_line = 72,
      .code_start = 184, .text_ascii = 48, .text_wide = 72}},
    {12,
     {CODE_OBJECTS, .thread_chain = 0, .frame_code = 0, .frame_previous = 8, .frame_owner = 70, .code_first_line = 68,
      .code_version = 92, .code_start = 192, .text_ascii = 40, .text_wide = 56}},
};

/* Places in _Py_DebugOffsets, in words of 8 bytes. */
struct published {
    uint8_t minor;
    uint8_t thread_frame, frame, code, object, bytes, text; /* of the groups, the first of which is the size */
};
static const struct published published[] = {
    {13, .thread_frame = 23, .frame = 28, .code = 34, .object = 44, .bytes = 64, .text = 67},
    {14, .thread_frame = 26, .frame = 31, .code = 39, .object = 50, .bytes = 74, .text = 77},
};

struct python ms_python;

static const char *problem;
/* What the first chain has shown. */
static enum { UNTRIED, HOLDS, FAILS } tried;

static bool read_published(const struct published *p, const uint64_t *words, struct layout *l)
{
    if (memcmp(words, "xdebugpy", 8) != 0)
        return false;
    const uint64_t *frame = words + p->frame, *code = words + p->code, *text = words + p->text;
    *l = (struct layout){
        .thread_frame = (uint32_t)words[p->thread_frame],
        .thread_chain = -1,
        .frame_previous = (uint32_t)frame[1],
        .frame_code = (uint32_t)frame[2],
        .frame_instr = (uint32_t)frame[3],
        .frame_owner = (int32_t)frame[5],
        .instr_pointer = true,
        .code_file = (uint32_t)code[1],
        .code_name = (uint32_t)code[2],
        .code_lines = (uint32_t)code[4],
        .code_first_line = (uint32_t)code[5],
        .code_version = (uint32_t)code[5] + 24, /* not published; it follows five numbers behind the first line */
        .code_start = (uint32_t)code[9],
        .line_format = LINES_311,
        .object_type = (uint32_t)words[p->object + 1],
        .bytes_size = (uint32_t)words[p->bytes + 1],
        .bytes_data = (uint32_t)words[p->bytes + 2],
        .text_state = (uint32_t)text[1],
        .text_length = (uint32_t)text[2],
        .text_ascii = (uint32_t)text[3],
        .text_wide = (uint32_t)text[3] + 16,   /* the cached UTF-8, length and pointer */
        .text_shift = p->minor >= 14 ? 16 : 2, /* `interned` before it has 16 bits or 2 */
    };
    return true;
}

static bool choose_layout(int minor, const void *runtime, struct layout *l)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].minor == minor) {
            *l = known[i].layout;
            return true;
        }
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        if (published[i].minor == minor)
            return runtime && read_published(&published[i], runtime, l);
    return false;
}

static const char *attach(void *(*find)(const char *))
{
    const char *(*version)(void) = (const char *(*)(void))find("Py_GetVersion");
    char *end;
    if (strtol(version(), &end, 10) != 3 || *end != '.' ||
        !choose_layout((int)strtol(end + 1, NULL, 10), find("_PyRuntime"), &ms_python.layout))
        return "its version is none of CPython 3.8 to 3.14";
    void *attached = find("_PyThreadState_UncheckedGet"), *ending = find("_Py_IsFinalizing");
    if (!attached)
        attached = find("PyThreadState_GetUnchecked"); /* 3.13 */
    if (!ending)
        ending = find("Py_IsFinalizing");
    ms_python.attached = (void *(*)(void))attached;
    ms_python.ending = (int (*)(void))ending;
    ms_python.code_type = find("PyCode_Type");
    ms_python.text_type = find("PyUnicode_Type");
    ms_python.bytes_type = find("PyBytes_Type");
    if (!attached || !ending || !ms_python.code_type || !ms_python.text_type || !ms_python.bytes_type)
        return "it does not export what is needed";
    __atomic_store_n(&ms_python.ready, true, __ATOMIC_RELEASE);
    return NULL;
}

bool ms_py_attach(void *(*find)(const char *name))
{
    static bool busy;
    if (ms_python.this_thread)
        return true;
    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE))
        return false;
    void *this_thread = find("PyGILState_GetThisThreadState");
    if (this_thread) {
        ms_python.this_thread = (void *(*)(void))this_thread;
        set_problem(attach(find));
    }
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    return this_thread != NULL;
}

void set_problem(const char *why)
{
    __atomic_store_n(&problem, why, __ATOMIC_RELEASE);
}

const char *ms_py_problem(void)
{
    return __atomic_load_n(&problem, __ATOMIC_ACQUIRE);
}

/* Everything that is going to be read, of one frame. */
static bool frame_holds(struct memory *m, uintptr_t frame)
{
    const struct layout *l = &ms_python.layout;
    uintptr_t code = look_pointer(m, frame + l->frame_code) & ~(uintptr_t)7;
    return look_pointer(m, code + l->object_type) == (uintptr_t)ms_python.code_type &&
           is_text(m, look_pointer(m, code + l->code_file)) && is_text(m, look_pointer(m, code + l->code_name)) &&
           look_pointer(m, look_pointer(m, code + l->code_lines) + l->object_type) == (uintptr_t)ms_python.bytes_type &&
           look_u32(m, code + l->code_first_line) < 100000000 && instruction_offset(m, l, frame, code) < (1u << 28) &&
           !failed(m);
}

bool layout_holds(const void *first)
{
    enum { FRAMES_MOST = 64 };
    int state = __atomic_load_n(&tried, __ATOMIC_RELAXED);
    if (state != UNTRIED)
        return state == HOLDS;
    const struct layout *l = &ms_python.layout;
    struct memory m = {.failed = false};
    uintptr_t frame = (uintptr_t)first;
    bool holds = true;
    int frames = 0;
    for (; frame && holds && frames < FRAMES_MOST; frame = look_pointer(&m, frame + l->frame_previous)) {
        const uint8_t *owner = l->frame_owner >= 0 ? look(&m, frame + (uint32_t)l->frame_owner, 1) : NULL;
        if (owner && *owner >= OWNER_INTERPRETER)
            continue;
        holds = frame_holds(&m, frame);
        frames++;
    }
    holds = holds && !m.failed;
    if (ms_python.ending() || (holds && frames == 0))
        return false; /* says nothing about the layout */
    __atomic_store_n(&tried, holds ? HOLDS : FAILS, __ATOMIC_RELAXED);
    if (!holds)
        set_problem("its objects are not laid out as in a release build of its version");
    return holds;
}
