"""Two processes with a card each: gradients averaged by hand over gloo, DistributedDataParallel or FSDP2 over HCCL.
One process leaks. What has been learned must be the same everywhere.

pair.py gloo|ddp|fsdp2
"""

import os
import sys

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from points import finish, point, training_step
from torch import multiprocessing, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WORLD, STEPS = 2, 6


def average_gradients(model):
    """What gloo takes is in the memory of the host."""
    for parameter in model.parameters():
        gradient = parameter.grad.cpu()
        dist.all_reduce(gradient)
        parameter.grad.copy_(gradient / WORLD)


def work(rank, way, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.npu.set_device(rank)
    dist.init_process_group("gloo" if way == "gloo" else "hccl", rank=rank, world_size=WORLD)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).npu()
    if way == "ddp":
        model = DistributedDataParallel(model, device_ids=[rank])
    elif way == "fsdp2":
        for layer in model[0], model[2], model:
            fully_shard(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(10 + rank)
    inputs, labels = torch.randn(16, 64).npu(), torch.randint(0, 8, (16,)).npu()
    kept = []
    for _step in range(STEPS):
        with training_step():
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            if way == "gloo":
                average_gradients(model)
            optimizer.step()
            if rank == 1:
                kept.append(torch.zeros(1000, device="npu"))  # the planted leak
            point()
            point()
    mean = loss.detach() / WORLD
    if way == "gloo":
        mean = mean.cpu()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"loss {mean.item():.4f}", flush=True)
    finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(work, args=(sys.argv[1], str(20000 + os.getpid() % 20000)), nprocs=WORLD)
