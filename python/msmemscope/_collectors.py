"""What is collected in Python, switched on and off with the recording and the options (abi.md 6.9).

Everything that belongs to torch waits until the program itself has imported it.
"""

import sys

from . import _agent, _imports
from .tracer import tracer

_trace_by_config = False


def configured(trace):
    """config() was accepted; ``trace`` says whether its events have traceback."""
    global _trace_by_config
    if trace and not tracer.active:
        tracer.start()
        _trace_by_config = tracer.active
    elif not trace and _trace_by_config:
        _trace_by_config = False
        if tracer.active:
            tracer.stop()
    refresh()


def started():
    """The recording goes on."""
    refresh()
    tracer.resume()


def stopping():
    """The recording is about to pause."""
    tracer.pause()
    _switch(_agent.Options())


def refresh(*unused):
    """Bring the collectors in line with the options in force."""
    options = _agent.options()
    if not options.tracing:
        options = _agent.Options()
    _switch(options)


def _switch(options):
    from . import hijacker

    decompose = bool(options.analysis & _agent.DECOMPOSE)
    if decompose:
        hijacker.enable_decompose_hooks()
    else:
        hijacker.disable_decompose_hooks()
    if "torch" not in sys.modules:
        if options.tracing:
            _imports.when_imported("torch", refresh)
        return
    from . import aten_collection, cpu_tensor_collection, optimizer_step_hook

    events = options.events & (_agent.LAUNCH | _agent.ACCESS)
    if options.watching:  # around operators, what they write
        events = _agent.LAUNCH | _agent.ACCESS
    aten_collection.switch(events if options.level & _agent.LEVEL_OP else 0)
    optimizer_step_hook.switch(decompose)
    cpu_tensor_collection.switch(bool(options.cpu))
