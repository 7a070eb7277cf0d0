"""torch.nn.modules"""

from . import module

__all__ = ["module"]
