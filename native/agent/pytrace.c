/*
 * pytrace.c - the trace of Python functions: a profile function in C, which CPython calls at each call and return; from 3.12 on
 * callbacks of sys.monitoring, which need no frame object and cost half.
 *
 * It runs with the GIL held, so its table needs no lock. A function is known by the address of its code object (of a C
 * function: of its method definition) and sent as a number; its text goes ahead once per connection. Python's C API is
 * looked up when the trace begins, so that the library loads in every process; there is no Python header here, the few
 * facts that are used are the same in CPython 3.8 to 3.14 with a GIL.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "msmemscope.h"
#include "pytrace.h"
#include "ring.h"
#include "symbols.h"

/* What a profile function is told (cpython/pystate.h). */
enum { WHAT_CALL = 0, WHAT_RETURN = 3, WHAT_C_CALL = 4, WHAT_C_EXCEPTION = 5, WHAT_C_RETURN = 6 };

enum {
    TABLE_SLOTS = 1 << 16,
    TABLE_MOST = TABLE_SLOTS / 4 * 3, /* functions; later ones are nameless */
    OPEN_MOST = 128,                  /* frames that were running when the trace began, per thread */
    TYPE_OFFSET = 8,                  /* ob_type in PyObject */
    METHOD_OFFSET = 16,               /* m_ml in PyCFunctionObject */
    DESCRIPTOR_OFFSET = 40,           /* d_method in PyMethodDescrObject */
    CODE_OFFSET = 32,                 /* f_code in the frame object of 3.8 to 3.10 */
    INNER_OFFSET = 24,                /* f_frame in that of 3.11 */
    INNER_CODE_OFFSET = 32,           /* f_code in _PyInterpreterFrame of 3.11 */
};

enum { ID_IGNORED = UINT32_MAX, ID_NAMELESS = 0 };

typedef int profile_fn(object *, object *, int, object *);

static struct {
    void (*set_profile)(profile_fn *, object *);
    void (*set_profile_all)(profile_fn *, object *); /* 3.12 */
    object *(*get_code)(object *);                   /* 3.9; a new reference */
    object *(*get_frame)(void);
    object *(*get_attribute)(object *, const char *);
    object *(*get_item)(object *, const char *);
    object *(*to_text)(object *);
    const char *(*as_utf8)(object *);
    long (*as_long)(object *);
    void (*take)(object *);
    void (*drop)(object *);
    void (*save_error)(object **, object **, object **);
    void (*restore_error)(object *, object *, object *);
    void *(*main_interpreter)(void);
    void *(*first_thread)(void *);
    void *(*next_thread)(void *);
    void *(*swap_thread)(void *);
} py;

static struct slot {
    const void *key;
    uint32_t id;
} *table;
static uint32_t table_used, last_id, table_generation;
static const void *function_type, *descriptor_type; /* of C functions and methods, for sys.monitoring */
static const void *module_call;                     /* the code of torch.nn.Module.__call__ */
static char package[PATH_MAX];                      /* what lies below is not traced: it is this tool */
static uint32_t epoch; /* counts traces; a thread of an older one has not told its open frames */

static bool resolve(void)
{
    static const char *const names[] = {
        "PyEval_SetProfile",
        "PyEval_SetProfileAllThreads",
        "PyFrame_GetCode",
        "PyEval_GetFrame",
        "PyObject_GetAttrString",
        "PyMapping_GetItemString",
        "PyObject_Str",
        "PyUnicode_AsUTF8",
        "PyLong_AsLong",
        "Py_IncRef",
        "Py_DecRef",
        "PyErr_Fetch",
        "PyErr_Restore",
        "PyInterpreterState_Main",
        "PyInterpreterState_ThreadHead",
        "PyThreadState_Next",
        "PyThreadState_Swap",
    };
    _Static_assert(sizeof py == sizeof names, "one name for each function");
    void *found[sizeof names / sizeof *names];
    bool complete = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = find_symbol(names[i], NULL);
        complete = complete && (found[i] || i == 1 || i == 2); /* those of later versions */
    }
    memcpy(&py, found, sizeof py);
    return complete;
}

static bool make_table(void)
{
    if (!table) {
        table = mmap(NULL, TABLE_SLOTS * sizeof *table, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (table == MAP_FAILED)
            table = NULL;
    }
    return table != NULL;
}

static inline struct slot *find_slot(const void *key)
{
    size_t i = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15ULL >> 48;
    while (table[i].key && table[i].key != key)
        i = (i + 1) % TABLE_SLOTS;
    return &table[i];
}

/* Text of an attribute; "" when there is none. The result lives as long as *owner. */
static const char *text_of(object *of, const char *attribute, object **owner)
{
    *owner = py.get_attribute(of, attribute);
    const char *text = *owner ? py.as_utf8(*owner) : NULL;
    return text ? text : "";
}

static uint32_t name_code(object *code, char *text, size_t room)
{
    object *file_owner, *name_owner, *line_owner = py.get_attribute(code, "co_firstlineno");
    const char *file = text_of(code, "co_filename", &file_owner), *name = text_of(code, "co_name", &name_owner);
    bool ours = package[0] && strncmp(file, package, strlen(package)) == 0;
    snprintf(text, room, "%s(%ld): %s", file, line_owner ? py.as_long(line_owner) : 0, name);
    object *owners[] = {file_owner, name_owner, line_owner};
    for (int i = 0; i < 3; i++)
        if (owners[i])
            py.drop(owners[i]);
    return ours ? ID_IGNORED : ID_NAMELESS;
}

/* str() of a C function, without the address of what it is bound to. */
static void name_c_function(object *function, char *text, size_t room)
{
    object *owner = py.to_text(function);
    const char *whole = owner ? py.as_utf8(owner) : NULL;
    whole = whole ? whole : "";
    const char *address = strstr(whole, " at 0x");
    snprintf(text, room, "%.*s%s", (int)(address ? address - whole : (long)strlen(whole)), whole, address ? ">" : "");
    if (owner)
        py.drop(owner);
}

static void name_module(object *type, char *text, size_t room)
{
    object *owner;
    snprintf(text, room, "nn.Module: %s", text_of(type, "__name__", &owner));
    if (owner)
        py.drop(owner);
}

enum what { CODE, C_FUNCTION, MODULE };

/* Gives a function its number, ahead of which goes its text. `from` is the object that tells the text. */
static __attribute__((noinline)) uint32_t introduce(struct slot *slot, enum what what, const void *key, object *from)
{
    if (table_used >= TABLE_MOST)
        return ID_NAMELESS;
    char text[MS_TEXT_MAX + 1];
    object *type, *value, *trace;
    uint32_t id = ID_NAMELESS;
    py.save_error(&type, &value, &trace);
    if (what == CODE)
        id = name_code(from, text, sizeof text);
    else if (what == C_FUNCTION)
        name_c_function(from, text, sizeof text);
    else
        name_module(from, text, sizeof text);
    py.restore_error(type, value, trace);
    if (id != ID_IGNORED) {
        id = ++last_id;
        ms_put_text(MS_PY_NAME, MS_DEVICE_NONE, id, text);
    }
    if (what != C_FUNCTION)
        py.take(from); /* its address must not come to mean another */
    *slot = (struct slot){key, id};
    table_used++;
    return id;
}

static inline uint32_t identify(enum what what, const void *key, object *from)
{
    struct slot *slot = find_slot(key);
    return __builtin_expect(slot->key != NULL, 1) ? slot->id : introduce(slot, what, key, from);
}

static inline void put_call(enum ms_type type, uint32_t id)
{
    if (self.device_age++ % 64 == 0)
        self.device = ms_current_device();
    struct ms_head *r = device_wanted(self.device) ? reserve(type, MS_HOST, self.device, sizeof *r) : NULL;
    if (!r)
        return;
    r->stack = id;
    publish(r);
}

/* How the code object of a frame is found: the API function costs as much as all the rest, so layouts are tried first. */
static enum { BY_FUNCTION, IN_FRAME, BEHIND_FRAME } code_place;

static inline object *code_at(object *frame, int place)
{
    if (place == IN_FRAME)
        return *(object **)((char *)frame + CODE_OFFSET);
    return *(object **)(*(char **)((char *)frame + INNER_OFFSET) + INNER_CODE_OFFSET);
}

static inline object *code_of(object *frame)
{
    if (code_place != BY_FUNCTION)
        return code_at(frame, code_place);
    object *code = py.get_code(frame);
    py.drop(code); /* the frame keeps it */
    return code;
}

/* A call of a torch module is known by the class of its module. */
static __attribute__((noinline)) uint32_t identify_module(object *frame)
{
    uint32_t id = ID_NAMELESS;
    object *type, *value, *trace;
    py.save_error(&type, &value, &trace);
    object *locals = py.get_attribute(frame, "f_locals");
    object *module = locals ? py.get_item(locals, "self") : NULL;
    if (module) {
        object *class = *(object **)((char *)module + TYPE_OFFSET);
        id = identify(MODULE, class, class);
        py.drop(module);
    }
    if (locals)
        py.drop(locals);
    py.restore_error(type, value, trace);
    return id;
}

static inline uint32_t identify_frame(object *frame)
{
    object *code = code_of(frame);
    return code == module_call ? identify_module(frame) : identify(CODE, code, code);
}

/* At a thread's first event: the frames that run already, outermost first. */
static __attribute__((noinline)) void tell_open_frames(object *frame, bool itself)
{
    object *open[OPEN_MOST];
    int count = 0;
    if (itself) {
        py.take(frame);
        open[count++] = frame;
    }
    object *type, *value, *trace;
    py.save_error(&type, &value, &trace);
    for (object *at = frame; count < OPEN_MOST;) {
        object *back = py.get_attribute(at, "f_back");
        object *code = back ? py.get_attribute(back, "f_code") : NULL; /* None, behind the outermost, has none */
        if (!code) {
            if (back)
                py.drop(back);
            break;
        }
        py.drop(code);
        open[count++] = at = back;
    }
    py.restore_error(type, value, trace);
    while (count > 0) {
        object *at = open[--count];
        uint32_t id = identify_frame(at);
        if (id != ID_IGNORED)
            put_call(MS_PY_OPEN, id);
        py.drop(at);
    }
}

/* Begins an event of the trace; `begins`: the frame's own function is what begins. False: nothing to record, no leave. */
static inline bool enter_trace(object *frame, bool begins)
{
    if (enter_for(MS_TRACE) == MS_SKIP)
        return false;
    if (__builtin_expect(table_generation != agent.generation, 0)) { /* another collector knows none of the names */
        memset(table, 0, TABLE_SLOTS * sizeof *table);
        table_used = 0;
        table_generation = agent.generation;
    }
    if (__builtin_expect(self.trace_epoch != epoch, 0)) {
        self.trace_epoch = epoch;
        frame = frame ? frame : py.get_frame();
        if (frame)
            tell_open_frames(frame, !begins);
    }
    return true;
}

static int on_profile(object *unused, object *frame, int what, object *arg)
{
    (void)unused;
    if (!enter_trace(frame, what == WHAT_CALL))
        return 0;
    if (what == WHAT_CALL || what == WHAT_RETURN) {
        uint32_t id = identify_frame(frame);
        if (id != ID_IGNORED)
            put_call(what == WHAT_CALL ? MS_PY_CALL : MS_PY_RETURN, id);
    } else if (what == WHAT_C_CALL || what == WHAT_C_RETURN || what == WHAT_C_EXCEPTION) {
        object *caller = code_of(frame);
        const void *method = arg ? *(void **)((char *)arg + METHOD_OFFSET) : NULL;
        if (method && identify(CODE, caller, caller) != ID_IGNORED)
            put_call(what == WHAT_C_CALL ? MS_PY_CALL : MS_PY_RETURN, identify(C_FUNCTION, method, arg));
    }
    leave();
    return 0;
}

static object *none; /* what callbacks of sys.monitoring return; where there is that, nobody counts its references */

static object *put_monitored(object *const *args, enum ms_type type, bool begins)
{
    if (!enter_trace(NULL, begins))
        return none;
    object *code = args[0];
    uint32_t id;
    if (__builtin_expect(code == module_call, 0) && type == MS_PY_CALL) {
        object *frame = py.get_frame();
        id = frame ? identify_module(frame) : ID_NAMELESS;
    } else {
        id = identify(CODE, code, code);
    }
    if (id != ID_IGNORED)
        put_call(type, id);
    leave();
    return none;
}

object *monitor_start(object *unused, object *const *args, long count)
{
    (void)unused;
    return count < 1 ? none : put_monitored(args, MS_PY_CALL, true);
}

object *monitor_return(object *unused, object *const *args, long count)
{
    (void)unused;
    return count < 1 ? none : put_monitored(args, MS_PY_RETURN, false);
}

/* What tells one C function from another, NULL for a callable of another kind. */
static const void *method_of(object *callable)
{
    const void *type = *(void **)((char *)callable + TYPE_OFFSET);
    size_t offset = type == function_type ? METHOD_OFFSET : type == descriptor_type ? DESCRIPTOR_OFFSET : 0;
    return offset ? *(void **)((char *)callable + offset) : NULL;
}

static object *put_monitored_c(object *const *args, long count, enum ms_type type)
{
    const void *method = count < 3 ? NULL : method_of(args[2]);
    if (!method || !enter_trace(NULL, false))
        return none;
    if (identify(CODE, args[0], args[0]) != ID_IGNORED)
        put_call(type, identify(C_FUNCTION, method, args[2]));
    leave();
    return none;
}

object *monitor_call(object *unused, object *const *args, long count)
{
    (void)unused;
    return put_monitored_c(args, count, MS_PY_CALL);
}

object *monitor_c_return(object *unused, object *const *args, long count)
{
    (void)unused;
    return put_monitored_c(args, count, MS_PY_RETURN);
}

/* Sets the profile function of every thread that exists. The GIL is held. */
static void set_everywhere(profile_fn *function)
{
    if (py.set_profile_all) {
        py.set_profile_all(function, NULL);
        return;
    }
    void *current = NULL;
    for (void *t = py.first_thread(py.main_interpreter()); t; t = py.next_thread(t)) {
        void *before = py.swap_thread(t);
        current = current ? current : before;
        py.set_profile(function, NULL);
    }
    if (current)
        py.swap_thread(current);
}

MS_EXPORT int ms_py_trace(const struct ms_py_trace *how)
{
    if (!py.set_profile && !resolve())
        return -2;
    if (!enter())
        return -1;
    int saved = errno;
    bool ready = make_table();
    errno = saved;
    leave();
    if (!ready)
        return -2;
    module_call = how->module_code;
    function_type = how->function_type;
    descriptor_type = how->descriptor_type;
    none = (object *)how->none;
    if (how->layout >= 11)
        code_place =
            how->layout == 11 && code_at((object *)how->frame, BEHIND_FRAME) == how->code ? BEHIND_FRAME : BY_FUNCTION;
    else
        code_place = code_at((object *)how->frame, IN_FRAME) == how->code ? IN_FRAME : BY_FUNCTION;
    if (code_place == BY_FUNCTION && !py.get_code)
        return -2;
    snprintf(package, sizeof package, "%s", how->ignored_directory);
    epoch++;
    if (!how->monitored)
        set_everywhere(on_profile);
    return 0;
}

MS_EXPORT void ms_py_trace_thread(void)
{
    if (table)
        py.set_profile(on_profile, NULL);
}

MS_EXPORT void ms_py_trace_stop(int by_monitoring)
{
    if (!table)
        return;
    if (!by_monitoring)
        set_everywhere(NULL);
    if (!enter())
        return;
    int saved = errno;
    struct ms_text *r = ms_reserve(MS_PY_STOP, MS_HOST, MS_DEVICE_NONE, sizeof *r);
    if (r) {
        r->h.flags = 0; /* closes what is open also when the recording paused before */
        ms_publish(&r->h);
    }
    errno = saved;
    leave();
}
