/*
 * pytrace.h - what pytrace.c and pyfast.c share. CPython's own layouts, without its headers.
 */
#ifndef MSMEMSCOPE_AGENT_PYTRACE_H
#define MSMEMSCOPE_AGENT_PYTRACE_H

typedef void object;

/* PyMethodDef */
struct py_method {
    const char *name;
    void *function; /* its prototype is that of the flags */
    int flags;
    const char *doc;
};

/* Callbacks of sys.monitoring (3.12): a function begins or goes on; it returns, yields or is unwound; a call, a C function's end. */
object *monitor_start(object *self, object *const *args, long count);
object *monitor_return(object *self, object *const *args, long count);
object *monitor_call(object *self, object *const *args, long count);
object *monitor_c_return(object *self, object *const *args, long count);

#endif
