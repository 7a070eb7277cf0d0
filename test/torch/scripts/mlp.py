"""A perceptron, trained with SGD; the activations and gradients of each step go with it."""

import torch
import torch_npu  # noqa: F401
from points import finish, point
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
inputs, labels = torch.randn(32, 64).npu(), torch.randint(0, 10, (32,)).npu()
losses = []
for _step in range(12):
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    point()
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
assert losses[-1] < 0.6 * losses[0], losses
finish()
