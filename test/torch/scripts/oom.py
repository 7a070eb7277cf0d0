"""Out of memory on a card of 1 GiB: caught, and told by line."""

import torch
import torch_npu  # noqa: F401
from points import finish, point

MIB = 1 << 20
kept = []


def grow():
    while True:
        kept.append(torch.empty(200 * MIB, dtype=torch.uint8, device="npu"))
        point()


try:
    grow()
except RuntimeError as error:  # torch_npu 2.7 has no class of its own for it
    assert "out of memory" in str(error), error
    print(f"caught: {len(kept)} blocks")
del kept[0]
again = torch.empty(200 * MIB, dtype=torch.uint8, device="npu")
finish()
