"""The trace of Python functions: every call and return, in every thread, into python_trace files (contract 4)."""

import ctypes
import os
import sys
import threading

from . import _agent

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


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
        if sys.getprofile() is not None:
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
        module_call = _module_call()
        threading.setprofile(_new_thread)
        result = _functions.ms_py_trace(id(module_call) if module_call is not None else None, os.fsencode(_PACKAGE))
        if result != 0:
            threading.setprofile(None)
            self._wanted = False
            _warn("This Python cannot be traced, or nobody records. Start python trace failed.")
            return
        self._running = True

    def pause(self):
        """For stop() of the module: the recording pauses."""
        if self._running:
            self._running = False
            _functions.ms_py_trace_stop()
            threading.setprofile(None)


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
    library.ms_py_trace.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.ms_py_trace_thread.restype = None
    library.ms_py_trace_stop.restype = None
    return library


def _warn(text):
    print("[msmemscope] Warn: " + text)


_functions = _load()
tracer = Tracer()
