"""The caching allocator itself: out of memory, empty_cache, pinned memory, two streams, a second card."""

import torch
import torch_npu  # noqa: F401
from points import finish, point

MIB = 1 << 20
kept = [torch.empty(n * 1024, dtype=torch.uint8, device="npu") for n in (1, 3, 700, 1500, 30000)]
point()
del kept[2]
point()
small = [torch.empty(512, dtype=torch.uint8, device="npu") for _ in range(100)]
point()
torch.npu.empty_cache()
point()
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="npu")
    raise SystemExit("1 TiB fits?")
except RuntimeError as error:  # torch_npu 2.7 has no class of its own for it
    print("caught:", str(error).split(".")[0])
point()
half = torch.empty(torch.npu.mem_get_info()[0] // 2, dtype=torch.uint8, device="npu")
point()
del half  # stays in the cache; what comes now fits only when the allocator gives it back and tries again
most = torch.empty(torch.npu.mem_get_info()[0] + 100 * MIB, dtype=torch.uint8, device="npu")
point()
del most
torch.npu.empty_cache()
point()
pinned = torch.arange(1000, dtype=torch.int64).pin_memory()
card = pinned.to("npu", non_blocking=True)
torch.npu.synchronize()
assert card.cpu().equal(torch.arange(1000)), "the copy differs"
point()
side = torch.npu.Stream()
with torch.npu.stream(side):
    aside = torch.ones(5 * MIB, dtype=torch.uint8, device="npu")
    aside.record_stream(torch.npu.current_stream())
torch.npu.current_stream().wait_stream(side)
point()
del aside
second = torch.zeros(3 * MIB, dtype=torch.uint8, device="npu:1")
point()
del small
finish()
