"""Dispatch modes: while one is entered, the operators of its thread go through it."""

import threading


class _Stack(threading.local):
    def __init__(self):
        self.modes = []


_stack = _Stack()


class TorchDispatchMode:
    """The base of all modes."""

    def __enter__(self):
        _stack.modes.append(self)
        return self

    def __exit__(self, *unused):
        if _stack.modes[-1] is not self:
            raise RuntimeError("modes are left in the opposite order of entering")
        _stack.modes.pop()


def _get_current_dispatch_mode():
    return _stack.modes[-1] if _stack.modes else None
