"""torch.optim"""

from . import optimizer
from .optimizer import Adam, Optimizer

__all__ = ["Adam", "Optimizer", "optimizer"]
