"""Operators with schemas, and the stack of dispatch modes that they go through."""

import ctypes
import re

from ._tensor import Tensor, UntypedStorage, device, float32


class _Alias:
    def __init__(self, is_write):
        self.is_write = is_write


class _Argument:
    def __init__(self, text):
        words = text.split("=")[0].split()
        self.name = words[1] if len(words) > 1 else ""
        alias = re.search(r"\((\w+)(!?)[^)]*\)", text)
        self.alias_info = _Alias(alias.group(2) == "!") if alias else None


class _Schema:
    """Parsed from text like "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"."""

    def __init__(self, text):
        head, returns = text.rsplit(" -> ", 1)
        full, arguments = head.split("(", 1)
        self.name, _, self.overload_name = full.partition(".")
        parts = re.split(r", (?![^()]*\))", arguments[:-1]) if arguments != ")" else []
        self.arguments = [_Argument(part) for part in parts if part != "*"]
        if returns.startswith("("):
            returns = returns[1:-1]
        self.returns = [_Argument(part) for part in returns.split(", ") if part]


class OpOverload:
    """One operator. Calling it goes through the innermost mode, if there is one."""

    def __init__(self, schema, implementation):
        self._schema = _Schema(schema)
        name = self._schema.name.split("::")[1]
        self.__name__ = name + "." + (self._schema.overload_name or "default")
        self.__module__ = "torch._ops.aten"
        self._implementation = implementation

    def __call__(self, *args, **kwargs):
        from .utils import _python_dispatch

        modes = _python_dispatch._stack.modes
        if not modes:
            return self._implementation(*args, **kwargs)
        mode = modes.pop()
        try:
            return mode.__torch_dispatch__(self, (), args, kwargs)
        finally:
            modes.append(mode)


def flat(size):
    """The numbers of a size that may be given as one list."""
    return size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size


def _new(shape, kind=float32, where="cpu", touch=True):
    where = device(where)
    size = kind.itemsize
    for n in shape:
        size *= n
    tensor = Tensor(UntypedStorage(where, size), shape, kind, where)
    if touch and size:
        ctypes.memset(tensor.data_ptr(), 1, min(size, 64))
    return tensor


def _like(tensor, shape=None, where=None, touch=True):
    return _new(tensor.shape if shape is None else shape, tensor.dtype, where or tensor.device, touch)


def _made(touch):
    return lambda size, dtype=float32, device="cpu": _new(size, dtype, device, touch)


def _written(tensor, *unused):
    if tensor.numel():
        ctypes.memset(tensor.data_ptr(), 2, 1)
    return tensor


def _view(tensor, shape):
    return Tensor(tensor._storage, shape, tensor.dtype, tensor.device, tensor._offset)


def _split(tensor, size):
    step = tensor.numel() // tensor.shape[0] * size * tensor.element_size()
    pieces = range(0, tensor.shape[0], size)
    return [
        Tensor(tensor._storage, (size,) + tensor.shape[1:], tensor.dtype, tensor.device, i // size * step)
        for i in pieces
    ]


_table = {
    "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor": _made(False),
    "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor": _made(True),
    "aten::randn(SymInt[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor": _made(True),
    "aten::empty_like(Tensor self) -> Tensor": lambda t: _like(t, touch=False),
    "aten::ones_like(Tensor self) -> Tensor": _like,
    "aten::new_zeros(Tensor self, SymInt[] size) -> Tensor": _like,
    "aten::add.Tensor(Tensor self, Tensor other) -> Tensor": lambda a, b: _like(a),
    "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)": _written,
    "aten::mm(Tensor self, Tensor mat2) -> Tensor": lambda a, b: _like(a, (a.shape[0], b.shape[1])),
    "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)": lambda a, b, out: _written(out),
    "aten::cat(Tensor[] tensors) -> Tensor": lambda ts: _like(ts[0], (sum(t.shape[0] for t in ts),) + ts[0].shape[1:]),
    "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)": _view,
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size) -> Tensor(a)[]": _split,
    "aten::_to_copy(Tensor self, *, Device? device=None) -> Tensor": lambda t, device: _like(t, where=device),
    "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()": lambda ts, x: (
        [_written(t) for t in ts] and None
    ),
}

_operators = {schema.split("(")[0]: OpOverload(schema, f) for schema, f in _table.items()}


def call(name, *args, **kwargs):
    """Call an operator by its full name."""
    return _operators[name](*args, **kwargs)


class _Ops:
    def __getitem__(self, name):
        return _operators[name]


ops = _Ops()
