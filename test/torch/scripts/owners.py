"""What memory is for: two steps of Adam, and then the sizes of the model, its gradients and the optimizer."""

import torch
import torch_npu  # noqa: F401
from points import finish, tell
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)).npu()
optimizer = torch.optim.Adam(model.parameters())
for _step in range(2):
    optimizer.zero_grad()
    model(torch.randn(16, 128).npu()).square().mean().backward()
    optimizer.step()


def size(tensors):
    """Bytes of the tensors, and of the blocks that they are in."""
    own = {t.data_ptr(): t.numel() * t.element_size() for t in tensors}
    blocks = {b["address"]: b["size"] for segment in torch.npu.memory_snapshot() for b in segment["blocks"]}
    return sum(own.values()), sum(blocks[address] for address in own)


parameters = list(model.parameters())
states = [t for p in parameters for t in optimizer.state[p].values() if t.device.type == "npu"]
tell(owners={"weight": size(parameters), "gradient": size(p.grad for p in parameters), "optimizer_state": size(states)})
finish()
