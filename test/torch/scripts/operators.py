"""A few training steps; in a run of its own without msmemscope PyTorch's profiler counts the operators of the same."""

import collections
import json
import os
import re
import subprocess
import sys
import time

import torch
import torch_npu  # noqa: F401
from points import finish, tell
from torch import nn
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(1)
model = nn.Sequential(nn.Embedding(10, 16), nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).npu()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs, labels = torch.randint(0, 10, (8,)).npu(), torch.randint(0, 4, (8,)).npu()


def train():
    for _step in range(3):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()


def has(name, key):
    """Whether a form of it that makes its result itself is registered for the key."""
    overloads = (f"{name}.{o}".removesuffix(".") for o in torch._C._jit_get_operation(name)[1] if "out" not in o)
    known = filter(torch._C._dispatch_has_kernel, overloads)  # others are of TorchScript only
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(overload, key) for overload in known)


def below_autograd(name):
    """Whether a dispatch mode can see the operator: what is only made of others comes apart before."""
    return (
        has(name, "PrivateUse1") or has(name, "CompositeExplicitAutograd") or not has(name, "CompositeImplicitAutograd")
    )


def outermost(events):
    """The operators of the profiler that a dispatch mode can see, and that none of these has called in turn.

    What torch.tensor() makes of numbers, an empty() and a detach_(), PyTorch itself hides from modes.
    """
    hidden, empty = set(), None
    for event in events:
        if event.name == "aten::empty":
            empty = event
        elif event.name == "aten::detach_":
            hidden.update((event, empty))
    for event in events:
        if event in hidden:
            continue
        if re.fullmatch(r"(aten|npu)::\w+", event.name) and below_autograd(event.name):
            yield event.name
        else:
            yield from outermost(event.cpu_children)


train()  # what happens once only
if os.environ.get("TORCH_PROFILE"):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        train()
    roots = [event for event in profiler.events() if event.cpu_parent is None]
    print(json.dumps(collections.Counter(outermost(roots))))
    sys.exit()
begin = time.time_ns()
train()
tell(window=(begin, time.time_ns()))
alone = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "MSMEMSCOPE", "TORCH_POINTS"))}
profiled = subprocess.run([sys.executable, __file__], env={**alone, "TORCH_PROFILE": "1"}, stdout=-1, check=True)
tell(operators=json.loads(profiled.stdout.decode().splitlines()[-1]))
finish()
