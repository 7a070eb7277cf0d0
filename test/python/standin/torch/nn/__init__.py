"""torch.nn: modules whose calls go through Module.__call__."""

from . import modules
from .modules.module import Linear, Module, Parameter

__all__ = ["Linear", "Module", "Parameter", "modules"]
