"""Tensors: sizes, types, and memory that is given back with the last tensor over it."""

import ctypes
import weakref


class Size(tuple):
    """A shape; written as torch writes it."""

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"


class dtype:
    """A type of numbers."""

    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return "torch." + self.name


float16, float32, int64 = dtype("float16", 2), dtype("float32", 4), dtype("int64", 8)


class device:
    """Where memory is: cpu, or npu with an index."""

    def __init__(self, text):
        text = str(text)
        self.type, _, index = text.partition(":")
        self.index = int(index) if index else (0 if self.type == "npu" else None)

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    __repr__ = __str__

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


allocators = {}  # device type -> (alloc(index, bytes) -> address, free(index, address)); torch_npu adds its own


class UntypedStorage:
    """Memory. It is given back when nobody has a reference any more."""

    def __init__(self, where, size):
        self._size = size
        if where.type == "cpu":
            self._buffer = ctypes.create_string_buffer(max(size, 1))
            self._address = ctypes.addressof(self._buffer)
        else:
            alloc, free = allocators[where.type]
            self._address = alloc(where.index, size)
            weakref.finalize(self, free, where.index, self._address).atexit = False

    def data_ptr(self):
        return self._address

    def nbytes(self):
        return self._size


class Tensor:
    """A tensor over the whole of a storage, or a view of a part."""

    def __init__(self, storage, shape, kind, where, offset=0):
        self._storage, self._offset = storage, offset
        self.shape, self.dtype, self.device = Size(shape), kind, where
        self.grad = None
        self.requires_grad = False

    def numel(self):
        n = 1
        for size in self.shape:
            n *= size
        return n

    def element_size(self):
        return self.dtype.itemsize

    def untyped_storage(self):
        return self._storage

    def data_ptr(self):
        return self._storage.data_ptr() + self._offset if self.numel() else 0

    def to(self, where):
        from . import _ops

        where = device(where)
        return self if where == self.device else _ops.call("aten::_to_copy", self, device=where)

    def cpu(self):
        return self.to("cpu")

    def add_(self, other):
        from . import _ops

        return _ops.call("aten::add_.Tensor", self, other)

    def __add__(self, other):
        from . import _ops

        return _ops.call("aten::add.Tensor", self, other)

    def view(self, *shape):
        from . import _ops

        return _ops.call("aten::view", self, list(_ops.flat(shape)))

    def new_zeros(self, *shape):
        from . import _ops

        return _ops.call("aten::new_zeros", self, list(_ops.flat(shape)))
