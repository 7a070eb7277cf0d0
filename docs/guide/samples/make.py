#!/usr/bin/env python3
"""Writes the sample dumps of the guide beside itself: small, made up, and the same in every run.

They hold what a dump of a real training job holds (owners, call stacks, launches, a card that ran out of memory), so
that every question of the guide has something to answer. Standard library only, Python 3.7 or later.
"""

import os

HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
)
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MS, SECOND = 1_000_000, 1_000_000_000
BEGIN = 1_700_000_000 * SECOND  # ns since the epoch
PROCESS = 4100


def address(ptr):
    return f"0x{ptr:016x}"


class Dump:
    """The rows of one file. Sizes in bytes, times in ns; `now` goes on by 1 ms with every row."""

    def __init__(self):
        self.rows, self.now, self.blocks, self.allocations = [], BEGIN, {}, 0
        self.used, self.total = {"HAL": 0, "PTA": 0}, 0

    def row(self, event, kind, name="N/A", ptr=None, attr=None, stack=""):
        cells = [len(self.rows), event, kind, name, self.now, PROCESS, PROCESS, 0]
        cells.append("N/A" if ptr is None else address(ptr))
        cells.append('"{' + ",".join(f"{key}:{value}" for key, value in attr) + '}"' if attr else "")
        cells.append('"' + "".join(frame + "\n" for frame in stack) + '"' if stack else "")
        self.rows.append(",".join(map(str, cells)) + ",\n")
        self.now += MS

    def usage(self, pool):
        return [("used", self.used[pool])] + ([("total", self.total)] if pool == "PTA" else [])

    def malloc(self, pool, ptr, size, owner=None, stack="", card=()):
        self.allocations += 1
        self.used[pool] += size
        if pool == "HAL":
            self.total += size if owner == "CANN@APP" else 0  # what the pool of the framework has reserved
        self.blocks[pool, ptr] = (self.allocations, size)
        attr = [("allocation_id", self.allocations), ("addr", address(ptr)), ("size", size)] + self.usage(pool)
        attr += list(card) + ([("owner", owner)] if owner else [])
        if pool == "HAL":
            attr += [("page_type", "huge"), ("alloc_type", "alloc")]
        self.row("MALLOC", pool, ptr=ptr, attr=attr, stack=stack)

    def free(self, pool, ptr):
        number, size = self.blocks.pop((pool, ptr))
        self.used[pool] -= size
        attr = [("allocation_id", number), ("addr", address(ptr)), ("size", size)] + self.usage(pool)
        self.row("FREE", pool, ptr=ptr, attr=attr)

    def end(self):
        """The process ends: what lives gets its shadow FREE."""
        for (pool, ptr), (number, size) in self.blocks.items():
            attr = [("allocation_id", number), ("addr", address(ptr)), ("size", size), ("shadow", "true")]
            self.row("FREE", pool, ptr=ptr, attr=attr)
            self.now -= MS

    def write(self, name):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(HEADER + "".join(self.rows))


def segments(dump, sizes, first=0x12C040000000):
    """The pool of the framework takes segments from the driver. Returns where they begin."""
    starts = []
    for size in sizes:
        dump.malloc("HAL", first, size, owner="CANN@APP")
        starts.append(first)
        first += size
    return starts


def growing():
    """24 steps of a second each; every step from the second on keeps 4 MiB of history."""
    dump = Dump()
    weights, work = segments(dump, [64 * MIB, 64 * MIB])
    dump.malloc("PTA", weights, 60 * MIB, "PTA@weight", ["/opt/train.py(21): build_model"])
    kept = None
    for step in range(24):
        dump.now = BEGIN + (step + 1) * SECOND
        dump.row("MSTX", "Range_start", '"step start"')
        dump.malloc("PTA", work, 48 * MIB, "PTA@ops", ["/opt/train.py(40): forward", "/opt/train.py(60): step"])
        if step:
            if step % 16 == 1:
                (kept,) = segments(dump, [64 * MIB], 0x12C060000000 + step * 4 * MIB)
            dump.malloc("PTA", kept, 4 * MIB, "PTA@ops", ["/opt/train.py(52): log_loss", "/opt/train.py(60): step"])
            kept += 4 * MIB
        dump.now += 700 * MS
        dump.free("PTA", work)
        dump.row("MSTX", "Range_end", f'"Range end from id {step + 1}"')
    dump.now += 200 * MS
    dump.end()
    dump.write("growing.csv")


def full():
    """A training job at its peak, and then one request too many: the card runs out of memory."""
    dump = Dump()
    app = 0x12C040000000
    card = [("process_used", 0), ("device_used", 0)]

    def hal(ptr, size, owner):
        used = dump.used["HAL"] + size + 600 * MIB  # 600 MiB of the driver for this process, 400 MiB more on the card
        card[:] = [("process_used", used), ("device_used", used + 400 * MIB)]
        dump.malloc("HAL", ptr, size, owner, card=card)

    hal(app, 56 * GIB, "CANN@APP")
    hal(0x12D800000000, 401 * MIB, "CANN@HCCL")
    hal(0x12D820000000, 401 * MIB, "CANN@HCCL")
    hal(0x12D840000000, 96 * MIB, "CANN@RUNTIME")
    at = app
    for size, owner, where in (
        (14 * GIB, "PTA@weight", "/opt/train.py(21): build_model"),
        (14 * GIB, "PTA@gradient", "/opt/train.py(44): backward"),
        (21 * GIB, "PTA@optimizer_state", "/opt/train.py(46): optimizer_step"),
    ):
        dump.malloc("PTA", at, size, owner, [where])
        at += size
    recent = []
    for _layer in range(6):
        size = 1 * GIB
        dump.malloc("PTA", at, size, "PTA@ops", ["/opt/model.py(88): attention", "/opt/train.py(40): forward"])
        recent.append((at, size, dump.now - MS))
        at += size
    stack = ["/opt/model.py(97): logits", "/opt/train.py(40): forward"]
    attr = [("func", "halMemAlloc"), ("req_size", 8 * GIB), ("flag", 545), ("ret", 6)]
    dump.row("OOM_DETAIL", "OOM_TRIGGER", "OOM_Trigger", attr=attr, stack=stack)
    for ptr, size, born in reversed(recent):
        attr = [("pool", "PTA"), ("ptr", address(ptr)), ("size", size), ("timestamp", born), ("step", 1)]
        attr.append(("kernel", 0))
        stack = ["/opt/model.py(88): attention", "/opt/train.py(40): forward"]
        dump.row("OOM_DETAIL", "OOM_RECENT_ALLOC", "OOM_RecentAlloc", attr=attr, stack=stack)
    for (pool, ptr), (number, size) in sorted(dump.blocks.items(), key=lambda block: -block[1][1])[:4]:
        attr = [("pool", pool), ("ptr", address(ptr)), ("size", size), ("timestamp", BEGIN + (number - 1) * MS)]
        dump.row("OOM_DETAIL", "OOM_TOP_ALLOC", "OOM_TopAlloc", attr=attr + [("step", 1), ("kernel", 0)])
    total, free = 61 * GIB, 61 * GIB - card[1][1]
    reserved, allocated = 56 * GIB, dump.used["PTA"]
    attr = [("total_mem", total), ("free_mem", free), ("reserved", reserved), ("peak_reserved", reserved)]
    attr += [("allocated", allocated), ("peak_allocated", allocated)]
    attr += [("device_utilization", f"{1 - free / total:.6f}"), ("pt_utilization", f"{allocated / reserved:.6f}")]
    dump.row("SNAPSHOT", "SNAPSHOT", "OOM_Snapshot", attr=attr)
    dump.end()
    dump.write("full.csv")


def fragmented():
    """Batches that get longer for six seconds, then stay: each growth leaves a piece of the old segments in use."""
    dump = Dump()
    base = 0x12C040000000
    kept = []
    for second in range(1, 25):
        dump.now = BEGIN + second * SECOND
        if second <= 6:
            size = (40 + 20 * second) * MIB
            (base,) = segments(dump, [size], base + size)
        dump.malloc("PTA", base, size, "PTA@ops", ["/opt/serve.py(31): run_batch"])
        dump.now += 300 * MS
        dump.free("PTA", base)
        if second <= 6:
            kept.append(base + 4 * MIB)
            dump.malloc("PTA", kept[-1], 20 * MIB, "PTA@ops", ["/opt/serve.py(35): keep_result"])
        if second == 6:  # the batches go where the kept result of this second is not
            base, size = base + 24 * MIB, size - 24 * MIB
    dump.now += SECOND // 2
    for ptr in kept:
        dump.free("PTA", ptr)
    dump.end()
    dump.write("fragmented.csv")


def launches(name, operators):
    """One step: operators, each with the bytes that it keeps."""
    dump = Dump()
    at = segments(dump, [256 * MIB])[0]
    for operator, keeps in operators:
        dump.row("OP_LAUNCH", "ATEN_START", operator)
        if keeps:
            dump.malloc("PTA", at, keeps)
            at += keeps
        dump.row("OP_LAUNCH", "ATEN_END", operator)
    dump.end()
    dump.write(name)


def marks():
    """Three marks "request": what is allocated between the first two has to be gone by the third."""
    dump = Dump()
    dump.row("MSTX", "Mark", '"request"')
    dump.malloc("HAL", 0x12C040000000, 2 * MIB, owner="CANN@APP")
    dump.malloc("HAL", 0x12C040200000, 6 * MIB, owner="CANN@APP")
    dump.row("MSTX", "Mark", '"request"')
    dump.free("HAL", 0x12C040000000)
    dump.row("MSTX", "Mark", '"request"')
    dump.end()
    dump.write("marks.csv")


if __name__ == "__main__":
    growing()
    full()
    fragmented()
    linear, relu, cast = (
        "torch._ops.aten.linear.default",
        "torch._ops.aten.relu.default",
        "torch._ops.aten._to_copy.default",
    )
    launches("before.csv", [(linear, 8 * MIB), (relu, 8 * MIB), (linear, 8 * MIB)])
    launches("after.csv", [(linear, 8 * MIB), (cast, 16 * MIB), (relu, 8 * MIB), (linear, 12 * MIB)])
    marks()
