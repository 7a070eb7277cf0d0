"""A stand-in for torch_npu; see ../README.md. Importing it makes torch know the device npu."""

import sys

import torch
from torch import _tensor

from . import npu

_tensor.allocators["npu"] = (npu._alloc, npu._free)
torch.npu = npu
sys.modules["torch.npu"] = npu
