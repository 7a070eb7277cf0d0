"""config, start, stop, step: which recording, and when (contract 1.10, abi.md 6)."""

import sys

from . import _agent, _collectors

_KEYS = (
    "call_stack",
    "level",
    "events",
    "device",
    "format",
    "output_path",
    "analysis",
    "watch",
    "host_leak_mode",
    "block_size_threshold",
    "sample_rate",
)
_OLD_KEYS = {"data_format": "format", "output": "output_path"}
_EVENTS = ("alloc", "free", "launch", "access", "traceback", "none")

_window = None  # options of the next windows on the host heap, a list of (name, value); None: config() has set none


def config(*args, **kwargs):
    """Set options of this process, which are called as on the command line, with ``_`` for ``-``.

    They are ``call_stack``, ``level``, ``events``, ``device``, ``format``, ``output_path``, ``analysis`` and ``watch``,
    and ``data_format`` and ``output`` for two of them as in older scripts. Each call starts from the defaults;
    ``format``, ``output_path`` and ``watch`` keep their first setting, which under ``msmemscope python ...`` is that
    of the command line. Values are strings as on the command line; ``analysis`` may be a list of them. ``events`` also
    takes ``traceback``, the trace of Python functions. Without arguments everything is as by default.

    ``analysis="host-leaks"`` is for a process whose host heap is recorded: the options, with ``host_leak_mode``,
    ``block_size_threshold`` and ``sample_rate``, are those of the windows that start() opens. While a window is open
    the call changes nothing and says so.

    Raises:
        TypeError: a positional argument, or a value that is no string.
        ValueError: an unknown key, or a value that is not accepted, or host-leaks in a process whose host heap is not
            recorded; nothing has changed then.
        RuntimeError: the process is not recorded at all.
    """
    global _window
    if args:
        raise TypeError('config() takes no positional arguments, only key="value"')
    options, trace = [], False
    for key, value in kwargs.items():
        if key not in _KEYS and key not in _OLD_KEYS:
            raise ValueError("config() does not know {!r}; accepted: {}".format(key, ", ".join(_KEYS)))
        if key == "analysis" and isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            value = ",".join(value)
        if not isinstance(value, str):
            raise TypeError(f'the value of {key!r} must be a string, not {type(value).__name__}: {key}="..."')
        if "\0" in value:
            raise ValueError(f"the value of {key!r} has a NUL character")
        if key == "events":
            value, trace = _without_traceback(value)
        options.append((key.replace("_", "-"), value))
    if "host-leaks" in _tokens(dict(options).get("analysis", "")):
        _configure_heap(options)
        return
    _say(_agent.configure(options))
    _window = None
    _collectors.configured(trace)


def _tokens(text):
    """The words of a list, with both commas."""
    return [token for token in text.replace("\uff0c", ",").split(",") if token]


def _configure_heap(options):
    global _window
    if set(_tokens(dict(options)["analysis"])) != {"host-leaks"}:
        raise ValueError('host-leaks cannot be combined with other analyses; accepted: analysis="host-leaks"')
    if _agent.heap is None:
        raise ValueError(_agent.NO_HEAP)
    if _agent.heap.ms_host_window():
        _agent.say("Warn", "a window on the host heap is open: config() has changed nothing; call stop() before")
        return
    _agent.check_window(options)
    _window = options


def _of_heap():
    """Whether start() and stop() are about the host heap."""
    return _agent.heap is not None and (_window is not None or _agent.library is None)


def _without_traceback(events):
    """traceback is no event of the collector's: Python functions are traced by this module."""
    tokens = _tokens(events)
    kept = [token for token in tokens if token != "traceback"]
    for token in tokens:
        if token not in _EVENTS:
            raise ValueError(f"events does not know {token!r}; accepted: {', '.join(_EVENTS)}")
    if "traceback" in tokens and "none" in kept:
        raise ValueError(f"events={events!r} mixes none with other words")
    return ",".join(kept), "traceback" in tokens


def start():
    """Begin recording, or go on after stop(). Memory that lives already is followed, not analysed.

    Where the host heap is recorded, open a window on it.

    Raises:
        RuntimeError: the process is not recorded at all, or a window on the host heap cannot be opened.
    """
    if _of_heap():
        _say(_agent.open_window(_window))
        return
    if _agent.need().ms_start() != 0:
        raise RuntimeError("nobody records this process: the collector could not be started or is gone")
    _agent.say("Info", "Start tracing.")
    _collectors.started()


def stop():
    """Pause recording. When it returns, all that was recorded is in the files.

    Where the host heap is recorded, close the window and write its report.

    Raises:
        RuntimeError: the process is not recorded at all, or no window on the host heap is open.
    """
    if _of_heap():
        _say(_agent.close_window())
        return
    _collectors.stopping()
    if _agent.need().ms_stop() != 0:
        raise RuntimeError("nobody records this process: the collector could not be started or is gone")
    _agent.say("Info", "Stop tracing.")
    _say(_agent.flush())


def step():
    """Mark the end of a training step. Does nothing while nothing is recorded."""
    if _agent.library is not None:
        _agent.library.ms_step()


def _say(text):
    """Pass on lines of the collector: notices to standard output, the rest to standard error and to the log."""
    for line in text.splitlines():
        if line.startswith("[msmemscope] Info:"):
            print(line)
        else:
            _agent.say("Warn", line.partition(": ")[2] or line, sys.stderr, line)
