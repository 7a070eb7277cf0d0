"""Operators and optimizers against those of the processor: the same values and gradients."""

import copy

import torch
import torch_npu  # noqa: F401
from points import finish, point
from torch import nn
from torch.nn import functional

torch.manual_seed(1)
A, B, C = torch.randn(6, 8), torch.randn(8), torch.randn(8, 5)
LABELS, PLACES = torch.randint(0, 8, (6,)), torch.randint(0, 6, (3, 4))
CASES = {
    "add": lambda a, b, c: a + 2 * b,
    "mul": lambda a, b, c: (a * b).t(),
    "sum": lambda a, b, c: a.sum(0) + b.mean(),
    "matmul": lambda a, b, c: a @ c,
    "matmul of a batch": lambda a, b, c: torch.stack([a, a * 2]) @ c,
    "linear": lambda a, b, c: functional.linear(a, c.t(), b[:5]),
    "relu": lambda a, b, c: torch.relu(a),
    "gelu": lambda a, b, c: functional.gelu(a),  # torch_npu has no other one on the 910B
    "tanh, sigmoid, silu": lambda a, b, c: torch.tanh(a) + torch.sigmoid(a) + functional.silu(a),
    "softmax": lambda a, b, c: torch.softmax(a, -1) + torch.log_softmax(a, 0),
    "layer norm": lambda a, b, c: functional.layer_norm(a, (8,), b, b + 1),
    "cross entropy": lambda a, b, c: functional.cross_entropy(a, LABELS.to(a.device)),
    "mse": lambda a, b, c: functional.mse_loss(a, b.expand(6, 8)),
    "embedding": lambda a, b, c: functional.embedding(PLACES.to(a.device), a),
    "where, cat, clamp": lambda a, b, c: torch.cat([torch.where(a > 0, a, b), a.clamp(-0.5, 0.5)]),
    "full, zeros, ones": lambda a, b, c: a.new_full((6, 8), 3.5) + a.new_zeros(8) + a.new_ones(1) + a,
    "half, bfloat16": lambda a, b, c: (a.half() * 2).float() + a.bfloat16().float(),
}


def values(case, device):
    inputs = [t.to(device).requires_grad_() for t in (A, B, C)]
    inputs = [t.detach().requires_grad_() for t in inputs]
    result = case(*inputs)
    result.square().sum().backward()
    return [result, *(t.grad for t in inputs)]


def trained(make, device):
    torch.manual_seed(2)
    model = nn.Linear(8, 5)
    model = copy.deepcopy(model).to(device)
    optimizer = make(model.parameters())
    for _step in range(4):
        optimizer.zero_grad()
        model(A.to(device)).square().mean().backward()
        optimizer.step()
    return list(model.parameters())


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "Adam, foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
}
wrong = []
for function, table in (values, CASES), (trained, OPTIMIZERS):
    for name, case in table.items():
        for here, there in zip(function(case, "cpu"), function(case, "npu")):
            if (
                (here is None) != (there is None)
                or here is not None
                and not torch.allclose(here, there.cpu(), atol=1e-4)
            ):
                wrong.append(name)
                print("wrong:", name, here, there if there is None else there.cpu())
        point()
assert not wrong, wrong
finish()
