"""A stand-in for the Python package mstx, over the C library of the virtual NPU."""

import ctypes
import os

_library = ctypes.CDLL(os.path.join(os.environ["ASCEND_HOME_PATH"], "lib64", "libms_tools_ext.so"))
_library.mstxMarkA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
_library.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
_library.mstxRangeStartA.restype = ctypes.c_uint64
_library.mstxRangeEnd.argtypes = [ctypes.c_uint64]


def mark(message, stream=None):
    _library.mstxMarkA(message.encode(), stream)


def range_start(message, stream=None):
    return _library.mstxRangeStartA(message.encode(), stream)


def range_end(range_id):
    _library.mstxRangeEnd(range_id)
