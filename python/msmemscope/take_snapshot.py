"""Snapshots: what the card and PyTorch's caching pool say at one moment, as SNAPSHOT rows (contract 3.4)."""

import contextlib
import ctypes

from . import _agent


def take_snapshot(device_mask=None, name="Memory Snapshot"):
    """Write a SNAPSHOT row, also while nothing is traced.

    Args:
        device_mask: a device number, or a list or tuple of them: acts only if the current device is one of these. None
            is every device that this process uses. Anything else is the current device.
        name: the name of the row.

    Raises:
        ImportError: torch or torch_npu is not installed.
        RuntimeError: the process is not recorded.
        TypeError: the name is no string.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a snapshot must be a string, not " + type(name).__name__)
    _agent.need()
    npu = _npu()
    try:
        current = npu.current_device()
    except Exception:
        text = "Failed to get current device ID"
        _agent.say("Warn", text, line="Warning: " + text)
        return
    for device in _chosen(npu, device_mask, current):
        _snapshot(npu, device, name)


def _npu():
    try:
        import torch  # noqa: F401
        import torch_npu
    except ImportError as e:
        raise ImportError(
            f"[msmemscope]: take_snapshot needs the packages torch and torch_npu, please install them ({e})"
        ) from e
    return torch_npu.npu


def _is_device(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _chosen(npu, mask, current):
    if mask is None:
        used = [d for d in range(npu.device_count()) if d != current and npu.memory_reserved(d) > 0]
        return [current] + used
    if _is_device(mask):
        mask = [mask]
    elif not isinstance(mask, (list, tuple)) or not all(_is_device(d) for d in mask):
        _tell("Invalid device mask, using current device!")
        return [current]
    return [current] if current in mask else []


def _snapshot(npu, device, name):
    try:
        free, total = npu.mem_get_info(device)
        values = (
            total,
            free,
            npu.memory_reserved(device),
            npu.max_memory_reserved(device),
            npu.memory_allocated(device),
            npu.max_memory_allocated(device),
        )
    except Exception:
        _tell(f"Failed to get device: {device} memory info, snapshot skipped!")
        return
    memory = (ctypes.c_uint64 * 6)(*values)
    _agent.library.ms_snapshot(device, memory, name.encode("utf-8", "replace"))


def _tell(text):
    _agent.say("Warn", text, line="[msmemscope]: " + text)


class TakeSnapshot(contextlib.ContextDecorator):
    """A snapshot before and one after: ``with TakeSnapshot(name="load"):``, or as a decorator.

    The rows are named ``<name> Start`` and ``<name> End``; arguments and errors are those of take_snapshot.
    """

    def __init__(self, device_mask=None, name="Memory Snapshot"):
        if not isinstance(name, str):
            raise TypeError("the name of a snapshot must be a string, not " + type(name).__name__)
        self._mask, self._name = device_mask, name

    def __enter__(self):
        take_snapshot(self._mask, self._name + " Start")
        return self

    def __exit__(self, *unused):
        take_snapshot(self._mask, self._name + " End")
        return False
