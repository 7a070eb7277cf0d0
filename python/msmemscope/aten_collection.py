"""Operators of PyTorch and the tensors they touch, seen by a TorchDispatchMode (abi.md 3.7).

No tensor is kept: what is noted of one is its address, size, type and shape.
"""

import os

from . import _agent

_READ, _WRITE = 1, 2
# Creators that leave the memory as it is.
_UNWRITTEN = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")

_MOST_SHAPES = 4096  # whose text is kept

_mode = None  # the one that is pushed, on the thread of start()
_make = None  # its class, made when torch is there
_told = False


def switch(events):
    """Collect what ``events`` wants, bits of _agent.LAUNCH and _agent.ACCESS; 0 ends it."""
    global _mode
    if _mode is not None:
        _mode.launches, _mode.accesses = bool(events & _agent.LAUNCH), bool(events & _agent.ACCESS)
        if not events and _is_innermost(_mode):
            mode, _mode = _mode, None
            mode.__exit__(None, None, None)
    elif events and _supported():
        _mode = _mode_class()()
        _mode.launches, _mode.accesses = bool(events & _agent.LAUNCH), bool(events & _agent.ACCESS)
        _mode.__enter__()


def _forked():
    """A child by fork has no card (torch_npu refuses it): operators, as of a worker of a DataLoader, are the host's."""
    if _mode is not None:
        _mode.launches = _mode.accesses = False


os.register_at_fork(after_in_child=_forked)


def _supported():
    global _told
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())
    if version >= (2, 3):
        return True
    if not _told:
        _told = True
        text = f"Current Pytorch's version {torch.__version__} < 2.3, which doesn't support aten collection."
        _agent.say("Warn", text, line="[msmemscope]: " + text)
    return False


def _is_innermost(mode):
    """Only the innermost mode can be left: one that the program has entered meanwhile is its own to leave."""
    from torch.utils import _python_dispatch

    current = getattr(_python_dispatch, "_get_current_dispatch_mode", None)
    return current is None or current() is mode


class _Operator:
    """What the schema of an operator tells, once."""

    __slots__ = ("name", "reads", "keywords", "outputs")

    def __init__(self, func):
        self.name = f"{func.__module__}.{func.__name__}"
        schema = func._schema
        base = schema.name.split("::")[-1]
        creates = base.startswith("new_") or base.endswith("_like")
        kinds = [self._kind(a, creates) for a in schema.arguments]
        self.keywords = {a.name: kind for a, kind in zip(schema.arguments, kinds)}
        self.reads = kinds
        # An output that is an argument is noted as that, a view touches nothing.
        fresh = not any(r.alias_info is not None for r in schema.returns)
        self.outputs = _WRITE if fresh and base not in _UNWRITTEN else 0

    @staticmethod
    def _kind(argument, creates):
        if argument.alias_info is not None:
            return _WRITE if argument.alias_info.is_write else 0
        return 0 if creates else _READ


def _mode_class():
    global _make
    if _make is not None:
        return _make
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    tensor = torch.Tensor
    plain = {torch.Tensor, torch.nn.Parameter}
    begin, end = _agent.builtin("begin_operator"), _agent.builtin("end_operator")
    access = _agent.builtin("access")
    operators, types, attributes = {}, {}, {}

    def is_real(t):
        """A tensor with memory on a card; FakeTensor, FunctionalTensor and the like have none."""
        kind = type(t)
        real = types.get(kind)
        if real is None:
            real = types[kind] = kind in plain or (
                isinstance(t, tensor)
                and not any("FakeTensor" in c.__name__ or "Functional" in c.__name__ for c in kind.__mro__)
            )
        return real and t.device.type == "npu"

    def touch(name, value, kind):
        if isinstance(value, tensor):
            if not is_real(value):
                return
            try:
                address = value.data_ptr()
            except RuntimeError:  # no storage: graph mode
                return
            dtype, shape = value.dtype, value.shape
            text = attributes.get((dtype, shape))
            if text is None:
                if len(attributes) >= _MOST_SHAPES:
                    attributes.clear()
                text = "dtype:{},shape:torch.Size([{}])".format(dtype, ",".join(map(str, shape)))
                attributes[dtype, shape] = text
            access(name, text, address, value.numel() * dtype.itemsize, kind)
        elif type(value) is list or type(value) is tuple:
            for element in value:
                if isinstance(element, tensor):
                    touch(name, element, kind)

    class AtenCollection(TorchDispatchMode):
        """Notes begin, end and accesses of each operator, and calls it."""

        launches = accesses = False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if not (self.launches or self.accesses):
                return func(*args, **kwargs)
            operator = operators.get(func)
            if operator is None:
                operator = operators[func] = _Operator(func)
            name = operator.name
            if self.launches:
                begin(name)
            try:
                if self.accesses:
                    for value, kind in zip(args, operator.reads):
                        if kind:
                            touch(name, value, kind)
                    for key, value in kwargs.items():
                        kind = operator.keywords.get(key, 0)
                        if kind:
                            touch(name, value, kind)
                result = func(*args, **kwargs)
                if self.accesses and operator.outputs:
                    touch(name, result, operator.outputs)
                return result
            finally:
                if self.launches:
                    end(name)

    _make = AtenCollection
    return _make
