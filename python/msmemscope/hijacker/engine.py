"""Replaces functions of modules, now or when the program imports them. Nothing that passes through is kept."""

import functools

from .. import _imports

REPLACE, PRE_HOOK, POST_HOOK = range(3)
DEFAULT_PRIORITY = 100


class Hook:
    """A function that is hooked: where it is, and what happens around it.

    Args:
        module, owner, function: names; owner is a class of the module, or "" for a function of the module itself.
        before: called with nothing when the function is entered.
        after: called with nothing when it is left, by whatever way.
        result: called as result(returned, *args, **kwargs) after a normal return; what it returns takes the place.
    """

    def __init__(self, module, owner, function, before=None, after=None, result=None):
        self.module, self.owner, self.function = module, owner, function
        self.before, self.after, self.result = before, after, result
        self._patched = None  # (owner, original descriptor, wrapper, was its own)

    @property
    def target(self):
        """What names the function."""
        return (self.module, self.owner, self.function)

    def activate(self):
        """Hook it as soon as its module is there."""
        _imports.when_imported(self.module, self._patch)

    def release(self):
        """Put the function back, unless somebody else has put another in its place meanwhile."""
        _imports.forget(self.module, self._patch)
        if self._patched is None:
            return
        owner, original, wrapper, own = self._patched
        self._patched = None
        if vars(owner).get(self.function) is wrapper:
            if own:
                setattr(owner, self.function, original)
            else:
                delattr(owner, self.function)

    def _patch(self, module):
        owner = getattr(module, self.owner, None) if self.owner else module
        function = getattr(owner, self.function, None)
        if function is None or self._patched is not None:
            return
        own = self.function in vars(owner)
        original = vars(owner)[self.function] if own else function
        wrapper = self._wrap(original)
        self._patched = (owner, original, wrapper, own)
        setattr(owner, self.function, wrapper)

    def _wrap(self, original):
        if isinstance(original, (staticmethod, classmethod)):
            return type(original)(self._wrap(original.__func__))
        before, after, result = self.before, self.after, self.result

        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if before is not None:
                before()
            try:
                returned = original(*args, **kwargs)
            finally:
                if after is not None:
                    after()
            return returned if result is None else result(returned, *args, **kwargs)

        return wrapper
