"""Tensors in host memory, for ``device="cpu"``: what torch.tensor, Tensor.to and Tensor.cpu return (abi.md 6.8)."""

import functools
import sys
import threading
import time
import weakref

from . import _agent

_PATIENCE_S = 60  # for the device to be opened: patching torch.Tensor during that makes it fail with 507033
_POLL_S = 0.001

_lock = threading.RLock()
_live = {}  # address -> finalizer
_originals = []
_wanted = False
_waiting = False


def switch(on):
    """Install the hooks, as soon as the device is open, or take them away."""
    global _wanted, _waiting
    with _lock:
        if on == _wanted:
            return
        _wanted = on
        if not on:
            _remove()
        elif _ready():
            _install()
        elif not _waiting:
            _waiting = True
            threading.Thread(target=_wait, name="msmemscope-cpu", daemon=True).start()


def _ready():
    npu = getattr(sys.modules.get("torch"), "npu", None)
    return npu is None or npu.is_initialized()


def _wait():
    global _waiting
    deadline = time.monotonic() + _PATIENCE_S
    while not _ready() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    with _lock:
        _waiting = False
        if _wanted:
            _install()


def _install():
    if _originals:
        return
    import torch

    for owner, name in ((torch, "tensor"), (torch.Tensor, "to"), (torch.Tensor, "cpu")):
        original = getattr(owner, name)
        _originals.append((owner, name, original))
        setattr(owner, name, _reporting(original))


def _remove():
    for owner, name, original in _originals:
        setattr(owner, name, original)
    _originals.clear()
    for finalizer in list(_live.values()):
        finalizer()


def _reporting(original):
    @functools.wraps(original)
    def reporting(*args, **kwargs):
        result = original(*args, **kwargs)
        _report(result)
        return result

    return reporting


def _report(tensor):
    try:
        if tensor.device.type != "cpu":
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except (AttributeError, RuntimeError, NotImplementedError):  # no storage
        return
    with _lock:
        if not address or address in _live:
            return
        finalizer = weakref.finalize(storage, _gone, address)
        finalizer.atexit = False
        _live[address] = finalizer
    _agent.library.ms_host_alloc(address, size)


def _gone(address):
    with _lock:
        if _live.pop(address, None) is None:
            return
    _agent.library.ms_host_free(address)
