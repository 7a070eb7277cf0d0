"""What memory is for: two steps of Adam, and then the sizes of the model, its gradients and the optimizer."""

import torch
import torch_npu  # noqa: F401
from points import finish, tell
from torch import nn

torch.manual_seed(1)
# Sizes that are whole blocks of the allocator, 512 bytes.
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)).npu()
optimizer = torch.optim.Adam(model.parameters())
for _step in range(2):
    optimizer.zero_grad()
    model(torch.randn(16, 128).npu()).square().mean().backward()
    optimizer.step()


def size(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


parameters = list(model.parameters())
states = [t for p in parameters for t in optimizer.state[p].values() if t.device.type == "npu"]
tell(owners={"weight": size(parameters), "gradient": size(p.grad for p in parameters), "optimizer_state": size(states)})
finish()
