"""The bridge to the NPU sanitizer of torch_npu: marks of custom operators reach its analysis (contract 5.8)."""

import ctypes
import re
import sys

from . import _agent

_MESSAGE_MAX = 1024  # bytes
_ALIAS_MAX = 31  # bytes
_PREFIX = "sanitizer-op:"

_callback = None  # the agent calls it, so it has to live
_raised = None  # the agent raises it, likewise


def enable_npu_sanitizer():
    """Enable torch_npu's sanitizer, and pass on what is marked with ``sanitizer-op: name=...;read=...;write=...``.

    Works whether or not anything is recorded.

    Raises:
        ImportError: torch_npu is not installed, or has no sanitizer.
        RuntimeError: the agent, which sees the marks, is not in this process.
    """
    global _callback
    library = _agent.need()
    from torch_npu.npu import _sanitizer

    _sanitizer.enable_npu_sanitizer()
    if _callback is None:
        _callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(_marked)
        library.ms_sanitizer.argtypes, library.ms_sanitizer.restype = [type(_callback)], None
        library.ms_sanitizer(_callback)


def parse(message):
    """Return (name, reads, writes) of a message, each access as (alias, address, bytes); the name may be empty."""
    fields = {}
    for part in message[len(_PREFIX) :].split(";"):
        key, _, value = part.strip().partition("=")
        fields[key] = value
    return fields.get("name", "").strip(), _accesses(fields.get("read", "")), _accesses(fields.get("write", ""))


def _accesses(text):
    accesses = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        parts = item.split(":")
        try:
            alias, address, size = parts[0], _number(parts[1]), _number(parts[2])
        except (IndexError, ValueError):
            alias = ""
        if not alias or len(parts) != 3:
            _warn(f"{item!r} is passed over: name:address:bytes is accepted")
            continue
        accesses.append((alias.encode("utf-8")[:_ALIAS_MAX].decode("utf-8", "ignore"), address, size))
    return accesses


def _number(text):
    """Decimal, or hexadecimal with 0x; no sign and nothing else that int() takes."""
    if not re.fullmatch("[0-9]+|0[xX][0-9a-fA-F]+", text):
        raise ValueError(text)
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)


def _marked(message, stream):
    """Returns the exception to raise, for the agent: the mark is C code, through which none passes."""
    global _raised
    if len(message) > _MESSAGE_MAX:
        _warn(f"a message of {len(message)} bytes is ignored; at most {_MESSAGE_MAX} are accepted")
        return None
    name, reads, writes = parse(message.decode("utf-8", "replace"))
    if not name:
        _warn("a message without name= is ignored")
        return None
    errors = _launch(stream or 0, name, reads, writes)
    if not errors:
        return None
    for error in errors:
        _agent.say("Error", str(error), sys.stderr, line=str(error))
    base = _exception()
    _raised = type(base.__name__, (base,), {"__init__": lambda self: base.__init__(self, errors)})
    return id(_raised)


def _launch(stream, name, reads, writes):
    from torch_npu.npu import _sanitizer, _stream_check

    written = {address for _, address, _ in writes}
    only_read = {address for _, address, _ in reads} - written
    aliases = {}
    for alias, address, _ in reads + writes:
        names = aliases.setdefault(address, [])
        if alias not in names:
            names.append(alias)
    arguments = [stream, only_read, written, set(), name, aliases]
    if hasattr(_stream_check, "NPURecordStreamHandler"):
        arguments.append(set())
    return _sanitizer.npu_sanitizer.event_handler._handle_kernel_launch(*arguments)


def _exception():
    from torch_npu.npu import _sanitizer

    if hasattr(_sanitizer, "CUDASanitizerErrors"):
        return _sanitizer.CUDASanitizerErrors
    from torch.cuda._sanitizer import CUDASanitizerErrors

    return CUDASanitizerErrors


def _warn(text):
    _agent.say("Warn", "sanitizer-op: " + text)
