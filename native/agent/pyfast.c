/*
 * pyfast.c - built-in functions of Python over the C API of the agent: a call through them costs a tenth of one through ctypes. There
 * is no Python header here; a method definition, its calling conventions and the API functions used are the same in CPython 3.8 to 3.14.
 */
#include "state.h"

#include <errno.h>
#include <string.h>

#include "msmemscope.h"
#include "pytrace.h"
#include "symbols.h"

enum {
    METH_NOARGS = 0x4,
    METH_O = 0x8,
    METH_FASTCALL = 0x80,
    SLOT_OFFSET = 16, /* of the only entry of __slots__, behind the two words of every object; the caller checks it */
};

static struct {
    object *(*new_function)(struct py_method *, object *, object *);
    object *(*new_method)(object *, struct py_method *);
    const char *(*as_utf8)(object *);
    unsigned long long (*as_u64)(object *);
    void (*clear_error)(void);
    void (*take)(object *);
    object *none;
} py;

/* Every function of this file returns None: an error of recording is no error of the program. */
static object *none(void)
{
    py.take(py.none);
    return py.none;
}

static const char *text(object *of)
{
    const char *utf8 = py.as_utf8(of);
    if (!utf8)
        py.clear_error();
    return utf8 ? utf8 : "";
}

static object *begin_range(object *unused, object *name)
{
    (void)unused;
    ms_py_begin(text(name));
    return none();
}

static object *end_range(object *unused, object *name)
{
    (void)unused;
    ms_py_end(text(name));
    return none();
}

static const char *range_name(object *range)
{
    object *name = *(object **)((char *)range + SLOT_OFFSET);
    return name ? text(name) : "";
}

/* __enter__ of RecordFunction, which has its name in its slot. */
static object *enter_range(object *range, object *unused)
{
    (void)unused;
    ms_py_begin(range_name(range));
    py.take(range);
    return range;
}

/* __exit__(type, value, traceback); None lets an exception pass. */
static object *exit_range(object *range, object *const *unused, long count)
{
    (void)unused;
    (void)count;
    ms_py_end(range_name(range));
    return none();
}

static object *begin_operator(object *unused, object *name)
{
    (void)unused;
    ms_aten_begin(text(name));
    return none();
}

static object *end_operator(object *unused, object *name)
{
    (void)unused;
    ms_aten_end(text(name));
    return none();
}

/* access(name, attributes, address, bytes, kind) */
static object *access_tensor(object *unused, object *const *args, long count)
{
    (void)unused;
    char whole[MS_TEXT_MAX + 1];
    if (count != 5)
        return none();
    const char *parts[] = {text(args[0]), "\n", text(args[1])};
    size_t length = 0;
    for (int i = 0; i < 3; i++) {
        size_t part = strnlen(parts[i], sizeof whole - 1 - length);
        memcpy(whole + length, parts[i], part);
        length += part;
    }
    whole[length] = 0;
    unsigned long long address = py.as_u64(args[2]), bytes = py.as_u64(args[3]), kind = py.as_u64(args[4]);
    py.clear_error();
    ms_aten_access(whole, address, bytes, (int)kind);
    return none();
}

static struct py_method methods[] = {
    {"begin_range", (void *)begin_range, METH_O, NULL},
    {"end_range", (void *)end_range, METH_O, NULL},
    {"begin_operator", (void *)begin_operator, METH_O, NULL},
    {"end_operator", (void *)end_operator, METH_O, NULL},
    {"access", (void *)access_tensor, METH_FASTCALL, NULL},
    {"on_start", (void *)monitor_start, METH_FASTCALL, NULL},
    {"on_return", (void *)monitor_return, METH_FASTCALL, NULL},
    {"on_call", (void *)monitor_call, METH_FASTCALL, NULL},
    {"on_c_return", (void *)monitor_c_return, METH_FASTCALL, NULL},
};

static struct py_method range_methods[] = {
    {"__enter__", (void *)enter_range, METH_NOARGS, NULL},
    {"__exit__", (void *)exit_range, METH_FASTCALL, NULL},
};

/* Looks the functions of Python up. */
static bool resolve(void *none_object)
{
    int saved = errno;
    py.none = none_object;
    py.new_function = find_symbol("PyCFunction_NewEx", NULL);
    py.new_method = find_symbol("PyDescr_NewMethod", NULL);
    py.as_utf8 = find_symbol("PyUnicode_AsUTF8", NULL);
    py.as_u64 = find_symbol("PyLong_AsUnsignedLongLong", NULL);
    py.clear_error = find_symbol("PyErr_Clear", NULL);
    py.take = find_symbol("Py_IncRef", NULL);
    errno = saved;
    return py.new_function && py.new_method && py.as_utf8 && py.as_u64 && py.clear_error && py.take;
}

MS_EXPORT void *ms_py_function(const char *name, void *none_object)
{
    if (resolve(none_object))
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
            if (strcmp(methods[i].name, name) == 0)
                return py.new_function(&methods[i], NULL, NULL);
    if (py.take)
        none();
    return py.take ? none_object : NULL;
}

MS_EXPORT void *ms_py_range_method(const char *name, void *class, void *none_object)
{
    if (resolve(none_object))
        for (size_t i = 0; i < sizeof range_methods / sizeof *range_methods; i++)
            if (strcmp(range_methods[i].name, name) == 0)
                return py.new_method(class, &range_methods[i]);
    if (py.take)
        none();
    return py.take ? none_object : NULL;
}
