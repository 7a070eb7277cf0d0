"""The trace of Python functions: every call and return, in every thread, into python_trace files (contract 4)."""

import ctypes
import os
import sys
import threading

from . import _agent

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_MONITORED = hasattr(sys, "monitoring")  # 3.12
_CALLBACKS = {
    "PY_START": "on_start",
    "PY_RESUME": "on_start",
    "PY_THROW": "on_start",
    "PY_RETURN": "on_return",
    "PY_YIELD": "on_return",
    "PY_UNWIND": "on_return",
    "CALL": "on_call",
    "C_RETURN": "on_c_return",
    "C_RAISE": "on_c_return",
}


class Tracer:
    """Starts and stops the trace. It is on only while the recording is, see msmemscope.start()."""

    def __init__(self):
        self._wanted = False
        self._running = False

    def start(self):
        """Trace Python functions from here on; what runs already has the prefix ``start: ``. Problems are warnings."""
        if self._wanted:
            _warn("There is already an active PythonTracer. Refusing to register profile functions.")
            return
        if _functions is None:
            _warn(_agent.MISSING + "; the trace is not started.")
            return
        if _other_profiler():
            _warn("Another profiler is active. Refusing to register profile functions.")
            return
        self._wanted = True
        self.resume()

    def stop(self):
        """End the trace; functions that still run have no end in it."""
        if not self._wanted:
            _warn("The tracer is not start.")
            return
        self._wanted = False
        self.pause()

    @property
    def active(self):
        """Whether the trace is started."""
        return self._wanted

    def resume(self):
        """For start() of the module: the recording goes on."""
        if not self._wanted or self._running or not _agent.options().tracing:
            return
        result = _functions.ms_py_trace(ctypes.byref(_how()))
        if result == 0:
            _install()
        else:
            self._wanted = False
            _warn("This Python cannot be traced, or nobody records. Start python trace failed.")
            return
        self._running = True

    def pause(self):
        """For stop() of the module: the recording pauses."""
        if self._running:
            self._running = False
            _uninstall()
            _functions.ms_py_trace_stop(_MONITORED)


class _How(ctypes.Structure):
    """struct ms_py_trace"""

    _fields_ = [
        (name, ctypes.c_void_p) for name in ("module_code", "function_type", "descriptor_type", "none", "frame", "code")
    ] + [("ignored_directory", ctypes.c_char_p), ("monitored", ctypes.c_int), ("layout", ctypes.c_int)]


def _how():
    module_call = _module_call()
    frame = sys._getframe()
    return _How(
        id(module_call) if module_call is not None else None,
        id(type(len)),
        id(type(str.join)),
        id(None),
        id(frame),
        id(frame.f_code),
        os.fsencode(_PACKAGE),
        _MONITORED,
        sys.version_info[1],
    )


def _install():
    """What begins outside the agent: callbacks of sys.monitoring, or the profile function of threads to come."""
    if not _MONITORED:
        threading.setprofile(_new_thread)
        return
    monitoring = sys.monitoring
    monitoring.use_tool_id(monitoring.PROFILER_ID, "msmemscope")
    events = 0
    for name, callback in _CALLBACKS.items():
        event = getattr(monitoring.events, name)
        monitoring.register_callback(monitoring.PROFILER_ID, event, _agent.builtin(callback))
        if name not in ("C_RETURN", "C_RAISE"):  # they come with CALL
            events |= event
    monitoring.set_events(monitoring.PROFILER_ID, events)


def _uninstall():
    if not _MONITORED:
        threading.setprofile(None)
        return
    monitoring = sys.monitoring
    monitoring.set_events(monitoring.PROFILER_ID, 0)
    for name in _CALLBACKS:
        monitoring.register_callback(monitoring.PROFILER_ID, getattr(monitoring.events, name), None)
    monitoring.free_tool_id(monitoring.PROFILER_ID)


def _other_profiler():
    if _MONITORED and sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is not None:
        return True
    return sys.getprofile() is not None


def _new_thread(*unused):
    """The first event of a new thread: the C function takes the place of this one."""
    _functions.ms_py_trace_thread()


def _module_call():
    """The code of torch.nn.Module.__call__, which is shown as the class of the module."""
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    return getattr(vars(module).get("__call__"), "__code__", None) if module is not None else None


def _load():
    """The functions that need the GIL, which a call through CDLL would give up."""
    if _agent.library is None:
        return None
    library = ctypes.PyDLL(None)
    library.ms_py_trace.argtypes = [ctypes.c_void_p]
    library.ms_py_trace_thread.restype = None
    library.ms_py_trace_stop.argtypes, library.ms_py_trace_stop.restype = [ctypes.c_int], None
    return library


def _warn(text):
    _agent.say("Warn", text, sys.stdout)


_functions = _load()
tracer = Tracer()
