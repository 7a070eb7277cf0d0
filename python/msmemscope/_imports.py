"""Work to do when the program imports a module, without importing it for its sake."""

import importlib.abc
import importlib.util
import sys
import threading

_waiting = {}  # module name -> list of functions of the module
_lock = threading.RLock()


def when_imported(name, work):
    """Call ``work(module)`` when the module is imported, now if it is. The same work is not noted twice."""
    module = sys.modules.get(name)
    if module is not None and not _initialising(module):
        work(module)
        return
    with _lock:
        works = _waiting.setdefault(name, [])
        if work not in works:
            works.append(work)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def forget(name, work):
    """Take when_imported back."""
    with _lock:
        works = _waiting.get(name, [])
        if work in works:
            works.remove(work)
        if not works:
            _waiting.pop(name, None)


def _initialising(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself; what others find gets a loader that tells us."""

    def __init__(self):
        self._busy = threading.local()

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting or getattr(self._busy, "name", None) == name:
            return None
        before, self._busy.name = getattr(self._busy, "name", None), name
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._busy.name = before
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Does what the real loader does, and then the work."""

    def __init__(self, real):
        self._real = real

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._real  # nobody sees us
        self._real.exec_module(module)
        with _lock:
            works = _waiting.pop(module.__name__, [])
        for work in works:
            work(module)

    def __getattr__(self, name):
        return getattr(self._real, name)


_finder = _Finder()
