/*
 * pyframes.h - the Python frames of the calling thread, without the GIL and without running a line of the interpreter.
 *
 * Shared by every hook that wants Python stacks. CPython 3.8 to 3.14, release builds; pyframes/layout.c has the layouts and
 * how they are checked before they are believed. Other interpreters and versions give no frames and a reason.
 *
 * Why this is safe, at any moment and on any thread:
 * - A thread reads only its own frames. Its chain is changed by nobody else, each change is one pointer store that comes
 *   after the frame is complete, and a frame owns its code object, which owns its texts. So it does not matter who has the GIL.
 * - The one who may take a frame away from a living thread is the interpreter in its end (Py_FinalizeEx frees the states of
 *   the threads that are left over). It needs the GIL for that and is the main thread; whoever has the GIL, and the main
 *   thread itself, therefore read directly. Any other thread reads by system calls that fail where a plain load would
 *   crash (10 us for 20 frames), and throws away what it read when the interpreter has begun to end meanwhile.
 * - Layouts are tried out with the same failing reads on the first chain that is met.
 *
 * No function here allocates, locks, or changes errno, but ms_py_attach, see there. None of this state needs care at fork.
 */
#ifndef MSMEMSCOPE_PYFRAMES_H
#define MSMEMSCOPE_PYFRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ms_py_frame {
    const void *code;  /* the code object */
    uint32_t offset;   /* of the current instruction, bytes from the code's first one */
    uint32_t identity; /* of its texts: tells a code object from a later one at the same address */
};

enum { MS_PY_TEXT = 512 }; /* room for a text, bytes with the terminator; a longer one loses its beginning */

struct ms_py_text {
    uint32_t line; /* of the instruction; the function's first one when the compiler gave it none */
    char file[MS_PY_TEXT];
    char function[MS_PY_TEXT]; /* both UTF-8 */
};

/*
 * Looks for an interpreter among the loaded libraries; `find` answers the address of a symbol or NULL. True when there is
 * one, also when it cannot be read: then there is no need to call again. Call it before the first walk and when libraries have been loaded since; it does what `find` does (take
 * the loader's locks), so not from a place where that is no good.
 */
bool ms_py_attach(void *(*find)(const char *name));

/*
 * The frames of this thread, innermost first, at most `most`. 0: it runs no Python, or none that can be read. Costs about
 * 10 ns and 3 ns for each frame.
 */
int ms_py_walk(struct ms_py_frame *frames, int most);

/* What a frame that this thread has just walked is called. False: it cannot be read. */
bool ms_py_describe(const struct ms_py_frame *frame, struct ms_py_text *text);

/* Why an interpreter that is there cannot be read; NULL when all is well. For one line in a log. */
const char *ms_py_problem(void);

#endif
