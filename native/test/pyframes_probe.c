/*
 * pyframes_probe.c - a library for test_pyframes.py: the Python frames of its caller as text. By ctypes.CDLL the caller has
 * given the GIL back, by ctypes.PyDLL it has it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../pyframes/internal.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST = 1000 };

static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* "file(line): function\n" for each frame. Returns the number of frames. */
EXPORT int probe_stack(int most, char *to, int size)
{
    struct ms_py_frame frames[MOST];
    struct ms_py_text text;
    ms_py_attach(find);
    int count = ms_py_walk(frames, most), used = 0;
    for (int i = 0; i < count && used < size; i++) {
        if (!ms_py_describe(&frames[i], &text))
            return -1 - i;
        used += snprintf(to + used, (size_t)(size - used), "%s(%u): %s\n", text.file, text.line, text.function);
    }
    return count;
}

EXPORT const char *probe_problem(void)
{
    return ms_py_problem();
}

/* The line of an instruction, by offset in bytes, of a code object. */
EXPORT unsigned probe_line(const void *code, unsigned offset, int checked)
{
    struct memory m = {.failed = false};
    return line_of(checked ? &m : NULL, (uintptr_t)code, offset);
}

/* Both identities of a frame, of its code object now. */
EXPORT unsigned probe_identity(void)
{
    struct ms_py_frame frame;
    return ms_py_walk(&frame, 1) == 1 ? frame.identity : 0;
}

/* ns for one walk, the best of some rounds. */
EXPORT double probe_cost(int most, int walks)
{
    static struct ms_py_frame frames[MOST];
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (int i = 0; i < walks; i++)
            ms_py_walk(frames, most);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / walks;
        if (ns < best)
            best = ns;
    }
    return best;
}

/* Walks until the process ends. */
EXPORT void probe_forever(void)
{
    struct ms_py_frame frames[64];
    struct ms_py_text text;
    for (;;) {
        int count = ms_py_walk(frames, 64);
        if (count > 0)
            ms_py_describe(&frames[count - 1], &text);
    }
}
