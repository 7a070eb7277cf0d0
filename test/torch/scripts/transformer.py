"""A small transformer with AdamW that learns which letter comes next."""

import os
import time

import torch
import torch_npu  # noqa: F401
from points import finish, point
from torch import nn

WIDTH, HEADS, LENGTH, STEPS = 32, 4, 16, int(os.environ.get("STEPS", "100"))
text = "the quick brown fox jumps over the lazy dog. " * 20
letters = sorted(set(text))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5 + mask, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(letters), WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters))

    def forward(self, x, mask):
        x = self.embedding(x) + self.place
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


torch.manual_seed(1)
data = torch.tensor([letters.index(c) for c in text])
mask = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), diagonal=1).npu()
model = Model().npu()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
losses = []
begin, processor_begin = time.perf_counter(), time.process_time()
for step in range(STEPS):
    starts = torch.randint(0, len(data) - LENGTH - 1, (8,))
    batch = torch.stack([data[s : s + LENGTH + 1] for s in starts]).npu()
    logits = model(batch[:, :-1], mask)
    loss = nn.functional.cross_entropy(logits.reshape(-1, len(letters)), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % (STEPS // 10) == 0:
        point()
wall, processor = STEPS / (time.perf_counter() - begin), STEPS / (time.process_time() - processor_begin)
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; {wall:.2f} steps per second, {processor:.2f} per processor second")
assert STEPS < 100 or losses[-1] < 0.7 * losses[0], losses
finish()
