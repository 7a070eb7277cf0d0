"""The agent's C API (native/include/msmemscope.h), as far as the module needs it: the only place that uses ctypes.

The agent is in the process when the program was started by ``msmemscope``, or after
``source msmemscope --load-api-env``. With ``--analysis=host-leaks`` or ``--load-api-env=host`` the library of the host
heap is there instead.
"""

import ctypes
import os
import sys

LABEL_MAX = 128  # bytes
_REPLY_BYTES = 1 << 16
_REFUSED_OPTIONS = 4  # MS_REFUSED_OPTIONS of the wire

MISSING = (
    "msmemscope does not record this process: start it with 'msmemscope python ...', "
    "or run 'source msmemscope --load-api-env' before"
)

NO_HEAP = (
    "the host heap of this process is not recorded: start it with 'msmemscope --analysis=host-leaks python ...', "
    "or run 'source msmemscope --load-api-env=host' before"
)

_int, _u64, _text, _size = ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t

# name: result, arguments
_FUNCTIONS = {
    "ms_start": (_int, []),
    "ms_stop": (_int, []),
    "ms_step": (_int, []),
    "ms_config": (_int, [_text, _size, ctypes.c_void_p, _size]),
    "ms_flush": (_int, [ctypes.c_void_p, _size]),
    "ms_options": (_int, [ctypes.c_void_p]),
    "ms_label_push": (_int, [_int, _text]),
    "ms_label_pop": (_int, [_int, _text]),
    "ms_label_address": (_int, [_u64, _int, _text]),
    "ms_snapshot": (_int, [_int, ctypes.c_void_p, _text]),
    "ms_py_begin": (_int, [_text]),
    "ms_py_end": (_int, [_text]),
    "ms_aten_begin": (_int, [_text]),
    "ms_aten_end": (_int, [_text]),
    "ms_aten_access": (_int, [_text, _u64, _u64, _int]),
    "ms_watch": (_int, [_u64, _u64, _text, _int]),
    "ms_unwatch": (_int, [_u64, _u64]),
    "ms_host_alloc": (_int, [_u64, _u64]),
    "ms_host_free": (_int, [_u64]),
    "ms_note": (_int, [_int, _text]),
}


class Options(ctypes.Structure):
    """struct ms_options: what the collection needs to know of the options in force."""

    _fields_ = [
        ("events", ctypes.c_uint32),
        ("level", ctypes.c_uint32),
        ("analysis", ctypes.c_uint32),
        ("cpu", ctypes.c_uint8),
        ("tracing", ctypes.c_uint8),
        ("watching", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8),
    ]


# Bits of Options (contract 1.6).
LAUNCH, ACCESS = 4, 8
LEVEL_OP = 1
DECOMPOSE, INEFFICIENT = 2, 4


def _load():
    library = ctypes.CDLL(None)
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        return None
    return library


def _load_heap():
    heap = ctypes.CDLL(None)
    try:
        heap.ms_host_start.argtypes = [_text, _size, ctypes.c_void_p, _size]
        heap.ms_host_check.argtypes = [_text, _size, ctypes.c_void_p, _size]
        heap.ms_host_stop.argtypes = [ctypes.c_void_p, _size]
        heap.ms_host_window.argtypes = []
    except AttributeError:
        return None
    return heap


library = _load()
heap = _load_heap()


def need():
    """Return the library.

    Raises:
        RuntimeError: the agent is not in this process.
    """
    if library is None:
        raise RuntimeError(MISSING)
    return library


def say(level, text, file=None, line=None):
    """Tell the user, and the log if something is recorded; `level` is Info, Warn or Error.

    `line` is what is printed, on standard output, where scripts know other words than ours (contract 7).
    """
    file = file or (sys.stdout if line or level == "Info" else sys.stderr)
    print(line or f"[msmemscope] {level}: {text}", file=file)
    if library is not None:
        library.ms_note({"Info": 1, "Warn": 2, "Error": 3}[level], text.encode("utf-8", "replace"))


def configure(options):
    """Set the options of this process, a list of (name, value) of the command line. Returns lines for the user.

    Raises:
        RuntimeError: nobody records this process.
        ValueError: the collector refuses an option.
    """
    message = _message(options)
    reply = ctypes.create_string_buffer(_REPLY_BYTES)
    result = need().ms_config(message, len(message), reply, _REPLY_BYTES)
    text = os.fsdecode(reply.value)
    if result == 1:
        raise ValueError(text)
    if result != 0:
        raise RuntimeError("the collector does not answer, or the options are too long; nothing is recorded")
    return text


def _message(options):
    try:
        here = os.getcwd()
    except OSError:
        here = ""  # an absolute output path works all the same
    parts = [here] + [f"{name}={value}" for name, value in options]
    return b"".join(os.fsencode(part) + b"\0" for part in parts)


def check_window(options):
    """Make sure that a window on the host heap can have these options.

    Raises:
        RuntimeError: nobody records the host heap of this process.
        ValueError: the collector refuses an option.
    """
    message = _message(options)
    reply = ctypes.create_string_buffer(_REPLY_BYTES)
    result = heap.ms_host_check(message, len(message), reply, _REPLY_BYTES)
    if result == _REFUSED_OPTIONS:
        raise ValueError(os.fsdecode(reply.value).strip())
    _window(result, reply)


def open_window(options):
    """Open a window on the host heap. Returns lines for the user.

    Raises:
        RuntimeError: the collector refuses, or there is none.
    """
    message = _message(options) if options else b""
    reply = ctypes.create_string_buffer(_REPLY_BYTES)
    return _window(heap.ms_host_start(message, len(message), reply, _REPLY_BYTES), reply)


def close_window():
    """Close the window and return when its report is written, with lines for the user.

    Raises:
        RuntimeError: no window is open, or the collector is gone.
    """
    reply = ctypes.create_string_buffer(_REPLY_BYTES)
    return _window(heap.ms_host_stop(reply, _REPLY_BYTES), reply)


def _window(result, reply):
    text = os.fsdecode(reply.value)
    if result != 0:
        raise RuntimeError(text.strip() or "nobody records the host heap of this process")
    return text


def flush():
    """Return when everything recorded is in the files, with lines for the user."""
    reply = ctypes.create_string_buffer(_REPLY_BYTES)
    need().ms_flush(reply, _REPLY_BYTES)
    return os.fsdecode(reply.value)


def options():
    """Return the Options in force."""
    current = Options()
    if library is not None:
        library.ms_options(ctypes.byref(current))
    return current


def builtin(name):
    """A built-in function over the agent's own, which costs a tenth of a call through ctypes; None without an agent."""
    if library is None or sys.implementation.name != "cpython":
        return None
    make = ctypes.PyDLL(None).ms_py_function
    make.argtypes, make.restype = [_text, ctypes.py_object], ctypes.py_object
    return make(name.encode(), None)


def range_method(name, owner):
    """__enter__ or __exit__ in C for a class that has the name of a range as its only slot; only with builtin()."""
    make = ctypes.PyDLL(None).ms_py_range_method
    make.argtypes, make.restype = [_text, ctypes.py_object, ctypes.py_object], ctypes.py_object
    return make(name.encode(), owner, None)


def slot_is_first(instance, value):
    """Whether the only slot of an object is where ms_py_range_method looks for it."""
    return type(instance).__basicsize__ == 3 * ctypes.sizeof(ctypes.c_void_p) and ctypes.c_void_p.from_address(
        id(instance) + 2 * ctypes.sizeof(ctypes.c_void_p)
    ).value == id(value)
