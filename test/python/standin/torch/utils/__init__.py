"""torch.utils"""

from . import _python_dispatch

__all__ = ["_python_dispatch"]
