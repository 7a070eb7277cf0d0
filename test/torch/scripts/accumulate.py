"""Gradient accumulation, and outputs that somebody forgot to detach: a leak of saved tensors."""

import torch
import torch_npu  # noqa: F401
from points import finish, point, training_step
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
history = []
for _step in range(6):
    with training_step():
        optimizer.zero_grad()
        for _micro in range(2):
            kept = model(torch.randn(64, 32).npu())
            (kept.square().mean() / 2).backward()
            history.append(model(torch.randn(64, 32).npu()))  # the planted leak: the graph of each stays
            point()
        optimizer.step()
finish()
