/*
 * pytrace.c - the trace of Python functions: a profile function in C, which CPython calls at each call and return.
 *
 * It runs with the GIL held, so its table needs no lock. A function is known by the address of its code object (of a C
 * function: of its method definition) and sent as a number; its text goes ahead once per connection. Python's C API is
 * looked up when the trace begins, so that the library loads in every process; there is no Python header here, the few
 * facts that are used are the same in CPython 3.8 to 3.14 with a GIL.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "msmemscope.h"
#include "symbols.h"

/* What a profile function is told (cpython/pystate.h). */
enum { WHAT_CALL = 0, WHAT_RETURN = 3, WHAT_C_CALL = 4, WHAT_C_EXCEPTION = 5, WHAT_C_RETURN = 6 };

enum {
    TABLE_SLOTS = 1 << 16,
    TABLE_MOST = TABLE_SLOTS / 4 * 3, /* functions; later ones are nameless */
    OPEN_MOST = 128,                  /* frames that were running when the trace began, per thread */
    TYPE_OFFSET = 8,                  /* ob_type in PyObject */
    METHOD_OFFSET = 16,               /* m_ml in PyCFunctionObject */
    CODE_OFFSET_38 = 32,              /* f_code in the frame of 3.8, which has no PyFrame_GetCode */
};

enum { ID_IGNORED = UINT32_MAX, ID_NAMELESS = 0 };

typedef void object;
typedef int profile_fn(object *, object *, int, object *);

static struct {
    void (*set_profile)(profile_fn *, object *);
    void (*set_profile_all)(profile_fn *, object *); /* 3.12 */
    object *(*get_code)(object *);                   /* 3.9; a new reference */
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
static const void *module_call; /* the code of torch.nn.Module.__call__ */
static char package[PATH_MAX];  /* what lies below is not traced: it is this tool */
static uint32_t epoch;          /* counts traces; a thread of an older one has not told its open frames */

static bool resolve(void)
{
    static const char *const names[] = {
        "PyEval_SetProfile",
        "PyEval_SetProfileAllThreads",
        "PyFrame_GetCode",
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
        complete = complete && (found[i] || i == 1 || i == 2);
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

static struct slot *find_slot(const void *key)
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

/* The number of a function; its text goes ahead when it has none yet. `from` is the object that tells the text. */
static uint32_t identify(enum what what, const void *key, object *from)
{
    struct slot *slot = find_slot(key);
    if (__builtin_expect(slot->key != NULL, 1))
        return slot->id;
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

static void put_call(enum ms_type type, uint32_t id)
{
    if (self.device_age++ % 64 == 0)
        self.device = ms_current_device();
    struct ms_call *r = ms_reserve(type, MS_HOST, self.device, sizeof *r);
    if (!r)
        return;
    r->name = id;
    ms_publish(&r->h);
}

static object *code_of(object *frame)
{
    if (py.get_code) {
        object *code = py.get_code(frame);
        py.drop(code); /* the frame keeps it */
        return code;
    }
    return *(object **)((char *)frame + CODE_OFFSET_38);
}

/* A call of a torch module is known by the class of its module. */
static uint32_t identify_module(object *frame)
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

static uint32_t identify_frame(object *frame)
{
    object *code = code_of(frame);
    return code == module_call ? identify_module(frame) : identify(CODE, code, code);
}

/* At a thread's first event: the frames that run already, outermost first. */
static void tell_open_frames(object *frame, bool itself)
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

static int on_profile(object *unused, object *frame, int what, object *arg)
{
    (void)unused;
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return 0;
    if (table_generation != agent.generation) { /* another collector knows none of the names */
        memset(table, 0, TABLE_SLOTS * sizeof *table);
        table_used = 0;
        table_generation = agent.generation;
    }
    if (self.trace_epoch != epoch) {
        self.trace_epoch = epoch;
        tell_open_frames(frame, what != WHAT_CALL);
    }
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
    ms_leave();
    return 0;
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

MS_EXPORT int ms_py_trace(const void *module_code, const char *ignored_directory)
{
    if (!py.set_profile && !resolve())
        return -2;
    if (!enter())
        return -1;
    int saved = errno;
    bool ready = make_table();
    errno = saved;
    ms_leave();
    if (!ready)
        return -2;
    module_call = module_code;
    snprintf(package, sizeof package, "%s", ignored_directory);
    epoch++;
    set_everywhere(on_profile);
    return 0;
}

MS_EXPORT void ms_py_trace_thread(void)
{
    if (table)
        py.set_profile(on_profile, NULL);
}

MS_EXPORT void ms_py_trace_stop(void)
{
    if (!table)
        return;
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
    ms_leave();
}
