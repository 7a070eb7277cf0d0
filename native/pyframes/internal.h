/*
 * internal.h - what the files of pyframes share.
 */
#ifndef MSMEMSCOPE_PYFRAMES_INTERNAL_H
#define MSMEMSCOPE_PYFRAMES_INTERNAL_H

#include "pyframes.h"

/* Where things are in the objects of one version; offsets in bytes. */
struct layout {
    uint32_t thread_frame; /* PyThreadState: the innermost frame, or with `thread_chain` a struct that points to it */
    int32_t thread_chain;  /* offset of the frame in that struct; -1: there is none */
    uint32_t frame_code, frame_previous, frame_instr;
    int32_t frame_owner; /* one byte; -1: there is none */
    bool instr_pointer;  /* frame_instr is a pointer into the code, else a 32-bit index */
    uint8_t instr_scale; /* bytes per unit of that index */
    uint32_t code_file, code_name, code_lines, code_first_line;
    uint32_t code_start;   /* of the instructions in the code object; with instr_pointer only */
    uint32_t code_version; /* of a number that no two code objects share; 0: there is none */
    uint8_t line_format;   /* enum line_format */
    uint32_t object_type;  /* of any object */
    uint32_t bytes_size, bytes_data;
    uint32_t text_hash;
    uint32_t text_length, text_state, text_ascii, text_wide; /* the last two: size of the head before the characters */
    uint8_t text_shift;                                      /* of `kind` in the state word */
};

enum line_format { LINES_LNOTAB, LINES_310, LINES_311 };

/* The interpreter. Complete before `ready` is set. */
struct python {
    bool ready;
    struct layout layout;
    void *(*this_thread)(void); /* PyGILState_GetThisThreadState: the thread's state, whether it has the GIL or not */
    void *(*attached)(void);    /* the state that has the GIL; from 3.12 on the thread's own, NULL without the GIL */
    int (*ending)(void);
    const void *code_type, *text_type, *bytes_type;
};

/* Owner of a frame: from here on the interpreter itself (3.12, 3.13: the C stack), which puts such frames between calls. */
enum { OWNER_INTERPRETER = 3 };

extern struct python ms_python;

/* layout.c: whether the layout is right; tried on the first chain that starts with `frame`, of this thread. */
bool layout_holds(const void *frame);

/* layout.c: what ms_py_problem says from now on. */
void set_problem(const char *why);

/* memory.c: reads by system calls. Functions that take one read by plain loads where it is NULL. */
struct memory {
    bool failed; /* some read was of memory that is not there */
    uintptr_t at;
    uint32_t length;
    unsigned char window[1024]; /* copy of [at, at + length) */
};

/* What look() does where plain loads are no good. */
const void *look_checked(struct memory *m, uintptr_t at, uint32_t size);
/* A copy by system calls. False: not all of it is there. */
bool copy_checked(void *to, uintptr_t at, size_t size);

/* `size` bytes at an address, 1 to 64; NULL when they are not there, and from then on. Valid until the next call. */
static inline const void *look(struct memory *m, uintptr_t at, uint32_t size)
{
    return m ? look_checked(m, at, size) : (const void *)at;
}

static inline bool failed(const struct memory *m)
{
    return m && m->failed;
}

static inline uintptr_t look_pointer(struct memory *m, uintptr_t at)
{
    if (!m)
        return *(const uintptr_t *)at; /* and no look at what `at` is: this is most of a walk */
    const uintptr_t *p = look_checked(m, at, sizeof *p);
    return p ? *p : 0;
}

static inline uint32_t look_u32(struct memory *m, uintptr_t at)
{
    if (!m)
        return *(const uint32_t *)at;
    const uint32_t *p = look_checked(m, at, sizeof *p);
    return p ? *p : 0;
}

/* Bytes from the code's first instruction to the one that a frame is at. */
static inline uint32_t instruction_offset(struct memory *m, const struct layout *l, uintptr_t frame, uintptr_t code)
{
    uint32_t offset = l->instr_pointer ? (uint32_t)(look_pointer(m, frame + l->frame_instr) - code - l->code_start)
                                       : look_u32(m, frame + l->frame_instr) * l->instr_scale;
    return offset >= (uint32_t)-4 ? 0 : offset; /* a frame that has not executed anything yet stands before its code */
}

/* text.c */
bool is_text(struct memory *m, uintptr_t object);
bool read_text(struct memory *m, uintptr_t object, char *to); /* MS_PY_TEXT bytes */
uint32_t line_of(struct memory *m, uintptr_t code, uint32_t offset);

#endif
