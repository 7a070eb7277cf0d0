"""Operators and optimizers against those of the processor: the same values and gradients."""

import copy
import re

import torch
import torch_npu
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

# What is as large as the values say, and what takes elements by their places: without gradients.
SIZED = {
    "print": lambda a, i: [a, i, a > 0, a.sum(), a * 1e9, a[:0], a.half(), torch.ceil(a), (a > 9).float()],
    "mask": lambda a, i: [a[a > 0], torch.masked_select(a[:3, :4], i > 2)],
    "nonzero": lambda a, i: [i.nonzero(), torch.where(a > 0)[1], (i == 3).nonzero(), a[0, 0].nonzero()],
    "unique": lambda a, i: [*torch.unique(i, return_inverse=True, return_counts=True), torch.unique(i, dim=0)],
    "pad": lambda a, i: [nn.functional.pad(a, (1, 2), value=7), nn.functional.pad(a[:3], (0, -1, 2, 0))],
    "sort, topk": lambda a, i: [*a.sort(descending=True), *i.sort(dim=0), *a.topk(3), *a.topk(2, 0, largest=False)],
    "unique_consecutive": lambda a, i: [*torch.unique_consecutive(i.sort()[0].flatten(), return_counts=True)],
    "index": lambda a, i: [a[i[0]], a[:, i[1]], a[i[0], i[1]], a[i[0], :3], a[i[:, :1], i[:1]], a[2, i[1]]],
    "gather, index_select": lambda a, i: [a.gather(1, i), a.index_select(0, i[0]), a.index_select(1, i[1])],
}


def texts(case, device):
    """The results as they are printed: values, shapes and types."""
    results = case(A.detach().to(device), PLACES.to(device))
    return [" ".join(re.sub(r",\s*device='npu:0'", "", str(t)).split()) for t in results]


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
    optimizer = make(list(model.parameters()))
    for _step in range(4):
        optimizer.zero_grad()
        model(A.to(device)).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]  # NpuFusedAdamW takes them with it


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "Adam, foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "AdamW, fused, AMSGrad": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, amsgrad=True),
    "Adam, fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),  # by the processor, which torch_npu says
    "NpuFusedAdamW": lambda p: (torch_npu.optim.NpuFusedAdamW if p[0].is_npu else torch.optim.AdamW)(p, lr=0.01),
}


def same(here, there):
    if isinstance(here, torch.Tensor) and isinstance(there, torch.Tensor):
        return torch.allclose(here, there.cpu(), atol=1e-4)
    return here == there


wrong = []
for function, table in (values, CASES), (texts, SIZED), (trained, OPTIMIZERS):
    for name, case in table.items():
        here, there = function(case, "cpu"), function(case, "npu")
        if len(here) != len(there) or not all(map(same, here, there)):
            wrong.append(name)
            print("wrong:", name, *(pair for pair in zip(here, there) if not same(*pair)))
        point()
assert not wrong, wrong
finish()
