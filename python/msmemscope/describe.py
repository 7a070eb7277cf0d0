"""Labels that say what memory is for: with ``analysis="decompose"`` the ``owner`` of MALLOC rows (contract 5.5).

Nothing here fails because nobody records: labels may stay in the code.
"""

import contextlib

from . import _agent

FRAMEWORK, COMPONENT, PROCESS, DETAIL_1, DETAIL_2, USER_DEFINED_1, USER_DEFINED_2, USER_DEFINED_3 = range(8)


def describer(obj=None, owner=""):
    """Label memory with ``owner``, at most 128 bytes.

    With ``obj``, a tensor or an address, the block that it lies in gets the label, and the result is None. Without it
    the result is a decorator and context manager: what the thread allocates inside is labelled; up to three labels may
    be nested.

    Raises:
        TypeError: ``owner`` is no string.
        ValueError: ``owner`` is empty or too long, or the address is no address.
        NotImplementedError: ``obj`` is neither a tensor nor a number.
    """
    if obj is None:
        return DescribeContext(owner)
    if isinstance(obj, int) and not isinstance(obj, bool):
        address = obj
    elif hasattr(obj, "data_ptr"):
        address = obj.data_ptr()
    else:
        raise NotImplementedError(f"cannot describe a {type(obj).__name__}: a tensor or an address is accepted")
    describe_addr(address, [(owner, USER_DEFINED_1)])
    return None


class DescribeContext(contextlib.ContextDecorator):
    """What describer() without an object returns. Two of the same owner are the same: one may enter, the other exit."""

    def __init__(self, owner):
        self._label = _encode(owner)

    def __enter__(self):
        _call("ms_label_push", USER_DEFINED_1, self._label)
        return self

    def __exit__(self, *unused):
        _call("ms_label_pop", USER_DEFINED_1, self._label)
        return False


class Describe:
    """Labels by hand, for what neither a ``with`` nor a decorator can enclose."""

    def describe(self, owner):
        """Label what this thread allocates from here on. Errors are those of describer()."""
        _call("ms_label_push", USER_DEFINED_1, _encode(owner))

    def undescribe(self, owner):
        """Take the newest equal label back."""
        _call("ms_label_pop", USER_DEFINED_1, _encode(owner))


def describe_label(label, level):
    """Label a level, FRAMEWORK to DETAIL_2, of what this thread allocates from here on.

    Raises:
        TypeError: the label is no string or the level no number.
        ValueError: the label is empty or too long, or the level is none of these.
    """
    _call("ms_label_push", _level(level, DETAIL_2), _encode(label))


def undescribe_label(label, level):
    """Take the newest equal label of the level back. Errors are those of describe_label()."""
    _call("ms_label_pop", _level(level, DETAIL_2), _encode(label))


def describe_addr(addr, labels):
    """Label the block of PyTorch's caching pool that holds an address.

    Args:
        addr: the address.
        labels: a list of (label, level), level FRAMEWORK to USER_DEFINED_3.

    Raises:
        TypeError: labels is no such list.
        ValueError: the address is no address; or as describe_label().
    """
    if not isinstance(addr, int) or isinstance(addr, bool) or not 0 <= addr < 1 << 64:
        raise ValueError(f"{addr!r} is no address")
    if not isinstance(labels, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in labels):
        raise TypeError("labels must be a list of (label, level) tuples")
    for label, level in [(_encode(label), _level(level, USER_DEFINED_3)) for label, level in labels]:
        _call("ms_label_address", addr, level, label)


def _encode(label):
    if not isinstance(label, str):
        raise TypeError("a label must be a string, not " + type(label).__name__)
    encoded = label.encode("utf-8", "replace")
    if not encoded or len(encoded) > _agent.LABEL_MAX or b"\0" in encoded:
        raise ValueError(f"a label has 1 to {_agent.LABEL_MAX} bytes and no NUL; {label!r} has {len(encoded)}")
    return encoded


def _level(level, last):
    if not isinstance(level, int) or isinstance(level, bool):
        raise TypeError("a level must be a number, not " + type(level).__name__)
    if not FRAMEWORK <= level <= last:
        raise ValueError(f"level {level} is out of range: {FRAMEWORK} to {last} are accepted")
    return level


def _call(function, *args):
    if _agent.library is not None:
        getattr(_agent.library, function)(*args)
