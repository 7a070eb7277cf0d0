"""A stand-in for torch; see README.md beside it."""

from . import _ops, nn, optim, utils
from ._ops import ops
from ._tensor import Size, Tensor, UntypedStorage, device, dtype, float16, float32, int64

__version__ = "2.7.1"

__all__ = ["Size", "Tensor", "UntypedStorage", "device", "dtype", "nn", "ops", "optim", "utils"]
__all__ += ["float16", "float32", "int64"]


def empty(*size, dtype=float32, device="cpu"):
    """A new tensor."""
    return _ops.call("aten::empty.memory_format", list(_ops.flat(size)), dtype=dtype, device=device)


def zeros(*size, dtype=float32, device="cpu"):
    """A new tensor of zeros."""
    return _ops.call("aten::zeros", list(_ops.flat(size)), dtype=dtype, device=device)


def randn(*size, dtype=float32, device="cpu"):
    """A new tensor; of the same numbers each time."""
    return _ops.call("aten::randn", list(_ops.flat(size)), dtype=dtype, device=device)


def tensor(data, dtype=float32, device="cpu"):
    """A new tensor of as many numbers as data has."""
    return _ops.call("aten::empty.memory_format", [len(data)], dtype=dtype, device=device)


def empty_like(like):
    """A new tensor."""
    return _ops.call("aten::empty_like", like)


def ones_like(like):
    """A new tensor."""
    return _ops.call("aten::ones_like", like)


def add(a, b):
    """A new tensor."""
    return _ops.call("aten::add.Tensor", a, b)


def matmul(a, b):
    """A new tensor."""
    return _ops.call("aten::mm", a, b)


def cat(tensors):
    """A new tensor of them all."""
    return _ops.call("aten::cat", list(tensors))


def split(tensor_, size):
    """Views of pieces."""
    return _ops.call("aten::split.Tensor", tensor_, size)


def _foreach_add_(tensors, other):
    """Writes each tensor of the list."""
    return _ops.call("aten::_foreach_add_.Scalar", list(tensors), other)
