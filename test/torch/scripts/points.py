"""What torch_npu says about its memory at points of a script: lines of JSON in $TORCH_POINTS/PID."""

import contextlib
import ctypes
import json
import os
import time

import torch


def tell(**what):
    """One more line, for a test of its own."""
    path = os.environ.get("TORCH_POINTS")
    if path:
        with open(f"{path}/{os.getpid()}", "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


@contextlib.contextmanager
def training_step():
    """A step, as the package mstx of CANN marks one; torch_npu.npu.mstx does so only while torch_npu profiles."""
    library = ctypes.CDLL("libms_tools_ext.so")
    library.mstxRangeStartA.restype = ctypes.c_uint64
    mark = library.mstxRangeStartA(b"step start", None)
    yield
    library.mstxRangeEnd(ctypes.c_uint64(mark))


def point():
    """The sizes of the caching allocator on each card that is used, and of what the driver has given out, in bytes."""
    torch.npu.synchronize()
    for device in range(torch.npu.device_count()):
        # A card without tensors is not asked: torch_npu 2.13 would take it for used then, and the next backward would
        # fail for want of its streams.
        if device != torch.npu.current_device() and not torch.npu.memory_reserved(device):
            continue
        # Rows have the total of their own time, and that memory is given back to the driver makes no row: a block that
        # comes and goes does.
        torch.empty(1, device=f"npu:{device}")
        free, total = torch.npu.mem_get_info(device)
        allocated, reserved = torch.npu.memory_allocated(device), torch.npu.memory_reserved(device)
        tell(time=time.time_ns(), device=device, allocated=allocated, reserved=reserved, driver=total - free)


def finish():
    """The blocks that live, as the allocator itself has them."""
    point()
    blocks = []
    for segment in torch.npu.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":  # what waits for a stream is freed already
                blocks.append([segment["device"], block.get("address", address), block["size"]])
            address += block["size"]
    tell(time=time.time_ns(), blocks=blocks)
