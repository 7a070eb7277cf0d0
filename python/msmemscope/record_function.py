"""RecordFunction: a named range in the Python trace (contract 4)."""

from functools import wraps

from . import _agent

NAME_MAX = 128  # bytes


def _nothing(name):
    """Nobody records."""


_begin = _agent.builtin("begin_range") or _nothing
_end = _agent.builtin("end_range") or _nothing


_PROBE = "probe"


class RecordFunction:
    """A range of the calling thread: ``with RecordFunction("forward"):``, or as a decorator.

    Raises:
        TypeError: the name is no string.
        ValueError: the name is longer than 128 bytes.
    """

    __slots__ = ("_name",)

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError("the name of a range must be a string, not " + type(name).__name__)
        if len(name) > NAME_MAX // 4 and len(name.encode("utf-8", "replace")) > NAME_MAX:
            raise ValueError(f"the name of a range has at most {NAME_MAX} bytes; {name!r} is longer")
        self._name = name

    def __enter__(self):
        _begin(self._name)
        return self

    def __exit__(self, *unused):
        _end(self._name)
        return False

    def __call__(self, function):
        name = self._name

        @wraps(function)
        def ranged(*args, **kwargs):
            _begin(name)
            try:
                return function(*args, **kwargs)
            finally:
                _end(name)

        return ranged


if _begin is not _nothing and _agent.slot_is_first(RecordFunction(_PROBE), _PROBE):
    # In C, where two calls of Python functions are most of what a range costs.
    RecordFunction.__enter__ = _agent.range_method("__enter__", RecordFunction)
    RecordFunction.__exit__ = _agent.range_method("__exit__", RecordFunction)
