"""torch_npu.npu: cards of the virtual NPU, each with the caching pool of examples/train.py."""

import ctypes
import importlib.util
import os
from functools import lru_cache


@lru_cache(maxsize=None)
def _stack():
    path = os.environ["STANDIN_TRAIN"]
    spec = importlib.util.spec_from_file_location("standin_train", path)
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    directory = train.library_directory()
    acl, mstx = train.Acl(directory), train.Mstx(directory)
    # As from a linked library: what is preloaded comes first.
    ctypes.CDLL(os.path.join(directory, "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(None).aclInit(None)
    return train, acl, mstx


_current = 0
_initialized = False
_pools = {}


def _lazy_init():
    """Open the current card."""
    global _initialized
    _stack()[1].aclrtSetDevice(_current)
    _initialized = True


def is_initialized():
    return _initialized


def set_device(where):
    global _current
    _current = int(getattr(where, "index", where))
    _lazy_init()


def current_device():
    if not _initialized:
        _lazy_init()
    return _current


def device_count():
    count = ctypes.c_uint32()
    _stack()[1].aclrtGetDeviceCount(ctypes.byref(count))
    return count.value


def synchronize():
    """Nothing is ever late here."""


class _Stream:
    npu_stream = 1234


def current_stream():
    return _Stream()


def _pool(index):
    if index not in _pools:
        train, acl, mstx = _stack()
        _pools[index] = train.Pool(acl, mstx, index)
    return _pools[index]


def _alloc(index, size):
    if not _initialized:
        _lazy_init()
    _stack()[1].aclrtSetDevice(index)
    address = _pool(index).alloc(size)
    _stack()[1].aclrtSetDevice(_current)
    return address


def _free(index, address):
    _pool(index).free(address)


def memory_reserved(index=0):
    return _pools[index].reserved if index in _pools else 0


def max_memory_reserved(index=0):
    return memory_reserved(index)


def memory_allocated(index=0):
    return _pools[index].allocated if index in _pools else 0


def max_memory_allocated(index=0):
    return _pools[index].peak if index in _pools else 0


def mem_get_info(index=0):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _stack()[1].aclrtSetDevice(index)
    _stack()[1].aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    _stack()[1].aclrtSetDevice(_current)
    return free.value, total.value
