"""What a script believes about its memory, for the test that compares it with the dump: lines of JSON in $TORCH_POINTS."""

import json
import os
import time

import torch


def _write(**what):
    path = os.environ.get("TORCH_POINTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def point():
    """The sizes of the caching allocator of each card that was used, and what the driver has given out of it, in bytes."""
    torch.npu.synchronize()
    for device in range(torch.npu.device_count()):
        free, total = torch.npu.mem_get_info(device)
        allocated, reserved = torch.npu.memory_allocated(device), torch.npu.memory_reserved(device)
        _write(time=time.time_ns(), device=device, allocated=allocated, reserved=reserved, driver=total - free)


def finish():
    """The blocks that live, as the allocator itself has them."""
    point()
    blocks = []
    for segment in torch.npu.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                blocks.append([segment["device"], block.get("address", address), block["size"]])
            address += block["size"]
    _write(time=time.time_ns(), blocks=blocks)
