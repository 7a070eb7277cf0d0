"""Module, Parameter, and one layer."""

from ... import _ops
from ..._tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module trains."""

    def __init__(self, tensor):
        super().__init__(tensor._storage, tensor.shape, tensor.dtype, tensor.device, tensor._offset)
        self.requires_grad = True


class Module:
    """The base of all layers."""

    def _wrapped_call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl

    def parameters(self):
        for value in vars(self).values():
            if isinstance(value, Parameter):
                yield value
            elif isinstance(value, Module):
                yield from value.parameters()

    def buffers(self):
        for value in vars(self).values():
            if isinstance(value, Tensor) and not isinstance(value, Parameter):
                yield value

    def modules(self):
        yield self
        for value in vars(self).values():
            if isinstance(value, Module):
                yield from value.modules()

    def to(self, where):
        for name, value in list(vars(self).items()):
            if isinstance(value, Parameter):
                setattr(self, name, Parameter(value.to(where)))
            elif isinstance(value, Module):
                value.to(where)
        return self


class Linear(Module):
    """A layer with one weight."""

    def __init__(self, inputs, outputs):
        self.weight = Parameter(_ops.call("aten::randn", [inputs, outputs]))

    def forward(self, x):
        return _ops.call("aten::mm", x, self.weight)
