/*
 * walk.c - from the thread's state along its frames.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/*
 * Whether plain loads are safe on this thread: pyframes.h has the reason. The main thread of the process is the one that
 * ends the interpreter.
 */
static bool may_load(const void *thread)
{
    static __thread uint8_t main_thread __attribute__((tls_model("initial-exec"))); /* 1 yes, 2 no, 0 not asked yet */
    if (ms_python.attached() == thread)
        return true;
    if (main_thread == 0)
        main_thread = syscall(SYS_gettid) == getpid() ? 1 : 2;
    return main_thread == 1;
}

/* The innermost frame of this thread. */
static inline __attribute__((always_inline)) uintptr_t newest(struct memory *m, const void *thread)
{
    const struct layout *l = &ms_python.layout;
    uintptr_t frame = look_pointer(m, (uintptr_t)thread + l->thread_frame);
    if (l->thread_chain >= 0 && frame)
        frame = look_pointer(m, frame + (uint32_t)l->thread_chain);
    return frame;
}

/* Tells code objects at one address, one after the other, apart. Before 3.12 that is only as good as a mix of what they own. */
static inline __attribute__((always_inline)) uint32_t identity(struct memory *m, const struct layout *l, uintptr_t code)
{
    if (l->code_version)
        return look_u32(m, code + l->code_version);
    const uint64_t spread = 0x9e3779b97f4a7c15;
    uintptr_t file = look_pointer(m, code + l->code_file);
    uint64_t mix = file + 3 * look_pointer(m, code + l->code_name) + 5 * look_pointer(m, code + l->code_lines) +
                   ((uint64_t)look_u32(m, code + l->code_first_line) << 32) +
                   look_pointer(m, file + l->text_hash); /* where it has been computed */
    return (uint32_t)(mix * spread >> 32);
}

static inline __attribute__((always_inline)) int walk(struct memory *m, const void *thread, struct ms_py_frame *frames,
                                                      int most)
{
    const struct layout l = ms_python.layout; /* a copy, which what is stored in `frames` cannot change */
    int count = 0;
    uintptr_t frame = newest(m, thread);
    /* The limit on frames that are none of Python's, too, matters for memory that is not the interpreter's any more. */
    for (int seen = 4 * most + 16; frame && count < most && seen > 0; seen--) {
        const uint8_t *owner = l.frame_owner >= 0 ? look(m, frame + (uint32_t)l.frame_owner, 1) : NULL;
        if (!owner || *owner < OWNER_INTERPRETER) {
            uintptr_t code = look_pointer(m, frame + l.frame_code) & ~(uintptr_t)7; /* 3.14 tags it in the low bits */
            frames[count].code = (const void *)code;
            frames[count].offset = instruction_offset(m, &l, frame, code);
            frames[count++].identity = code ? identity(m, &l, code) : 0;
        }
        frame = look_pointer(m, frame + l.frame_previous);
    }
    return count;
}

/* Frames of a thread that has no right to plain loads. */
static __attribute__((noinline)) int walk_checked(const void *thread, struct ms_py_frame *frames, int most)
{
    struct memory m = {.failed = false};
    int count = walk(&m, thread, frames, most);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return m.failed || ms_python.ending() ? 0 : count;
}

int ms_py_walk(struct ms_py_frame *frames, int most)
{
    static bool tested;
    if (!__atomic_load_n(&ms_python.ready, __ATOMIC_ACQUIRE))
        return 0;
    const void *thread = ms_python.this_thread();
    if (!thread)
        return 0;
    if (!__atomic_load_n(&tested, __ATOMIC_RELAXED)) {
        struct memory m = {.failed = false};
        const void *first = (const void *)newest(&m, thread);
        if (m.failed && !ms_python.ending()) /* a living thread's state is there */
            set_problem("the kernel does not let the process read its own memory");
        if (m.failed || !layout_holds(first))
            return 0;
        __atomic_store_n(&tested, true, __ATOMIC_RELAXED);
    }
    if (!may_load(thread))
        return walk_checked(thread, frames, most);
    return walk(NULL, thread, frames, most);
}

bool ms_py_describe(const struct ms_py_frame *frame, struct ms_py_text *text)
{
    const struct layout *l = &ms_python.layout;
    uintptr_t code = (uintptr_t)frame->code;
    struct memory checked = {.failed = false}, *m = may_load(ms_python.this_thread()) ? NULL : &checked;
    if (look_pointer(m, code + l->object_type) != (uintptr_t)ms_python.code_type)
        return false;
    bool ok = read_text(m, look_pointer(m, code + l->code_file), text->file) &&
              read_text(m, look_pointer(m, code + l->code_name), text->function);
    text->line = ok ? line_of(m, code, frame->offset) : 0;
    return ok && !failed(m) && (!m || !ms_python.ending());
}
