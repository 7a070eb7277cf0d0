"""A tensor that is watched, as the documents show it, by itself or by its address."""

import sys

import msmemscope
import torch
import torch_npu  # noqa: F401
from points import finish

torch.npu.synchronize()
test_tensor = torch.randn(2, 3).to("npu:0")
words, more = (test_tensor,), {}
if sys.argv[1:] == ["address"]:
    words, more = (test_tensor.data_ptr(),), {"length": 512}
msmemscope.watcher.watch(*words, name="test", dump_nums=2, **more)
c = torch.add(test_tensor, test_tensor)
test_tensor.add_(c)
torch.npu.synchronize()
msmemscope.watcher.remove(*words, **more)
c = torch.add(test_tensor, test_tensor)
finish()
