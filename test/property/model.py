"""What a recording of test/targets/random must show, worked out from the program's own log.

Written from the text of the contract (3.1 to 3.3 and 5.0) alone, as plainly as it can be said: every block in one list,
every question a walk over it. It shares nothing with the program under test. Sizes are bytes, times ns since the epoch.

Decisions of docs/design.md where the contract leaves room, or where reality does:
  - a free that the driver refuses has shown its FREE row already; the block is back with a MALLOC row, as a new block;
  - a free of driver memory that nobody knows is nobody's: no row. Under a device filter that holds for every pool, and
    only a block's own address fits, since a free names no device and may be of a card that is hidden;
  - a forked child records if its parent does;
  - `used` is the sum of what lives (contract 9, row 60), of PyTorch's workspace the last size;
  - what is freed has the `total` of the heap that its thread registered last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

NONE, CPU = "N/A", "cpu"
CHUNKED = ("ATB", "arena")  # pools whose heaps add up
DRIVER = "HAL"
PAGES = ("normal", "huge", "giant")
FOREVER = 1 << 63


@dataclass
class Row:
    """One row that must be there. lowest and highest bound its time; tid None: not said."""

    lowest: int
    highest: int
    tid: int | None
    event: str
    kind: str
    name: str
    device: str
    ptr: str
    attr: tuple  # of (key, value), without allocation_id
    block: int  # of the model; 0: none

    def cells(self):
        return (self.event, self.kind, self.name, self.device, self.ptr, self.attr)


@dataclass
class Block:
    number: int
    pool: str
    device: str
    address: int
    size: int
    tid: int
    page: str = ""  # of driver memory
    origin: str = ""  # alloc, create
    state: str = "normal"  # hidden, promoted, waiting
    freed: int = 0  # thread that did, while it waits


@dataclass
class Process:
    """One process: log lines in, groups of rows out. The rows of a group may come in any order."""

    pid: int
    devices: tuple  # that the options want; None among them: every card
    events: tuple  # that are written
    visible: list
    tracing: bool = True
    stop: tuple | None = None  # times around the stop in force
    blocks: list = field(default_factory=list)
    groups: list = field(default_factory=list)
    totals: dict = field(default_factory=dict)  # (pool, device) -> bytes reserved, by logical device
    heaps: dict = field(default_factory=dict)  # (pool, handle) -> (device, bytes)
    newest_heap: dict = field(default_factory=dict)  # thread -> device
    workspace: dict = field(default_factory=dict)  # device -> used
    count: int = 0

    def child(self, pid):
        """What a forked child begins with: the program's memory is copied, the recording's is not."""
        new = Process(pid, self.devices, self.events, self.visible, self.tracing)
        new.totals, new.heaps = dict(self.totals), dict(self.heaps)
        return new

    def wanted(self, device):
        if device == CPU:
            return CPU in self.devices
        return None in self.devices or device in self.devices

    def filtered(self):
        return None not in self.devices

    def live(self):
        return [b for b in self.blocks if b.state != "waiting"]

    def used(self, pool, device):
        if pool == "PTA_WORKSPACE":
            return self.workspace.get(device, 0)
        return sum(b.size for b in self.live() if b.pool == pool and b.device == device)

    def attr(self, block, address, total, shadow, malloc):
        pinned = block.pool == DRIVER and block.device == CPU
        cells = [("addr", pointer(address)), ("size", block.size)]
        if not shadow:
            if pinned:
                cells += [("pinned", "true")]
            cells += [("used", self.used(block.pool, block.device))]
            if block.pool != DRIVER:
                cells += [("total", total)]
        else:
            cells += [("shadow", "true")]
        if malloc and block.pool == DRIVER and not pinned:
            cells += [("page_type", block.page), ("alloc_type", "create" if shadow else block.origin)]
        return tuple((k, str(v)) for k, v in cells)

    def row(self, event, block, when, tid, total=0, shadow=False, address=None):
        address = block.address if address is None else address
        kind = "HOST" if block.pool == DRIVER and block.device == CPU else block.pool
        return Row(
            when[0],
            when[1],
            tid,
            event,
            kind,
            NONE,
            block.device,
            pointer(address),
            self.attr(block, address, total, shadow, event == "MALLOC"),
            block.number,
        )

    def system(self, kind, when):
        return Row(when[0], when[1], None, "SYSTEM", kind, NONE, NONE, NONE, (), 0)

    def new(self, pool, device, address, size, tid, page="", origin=""):
        self.count += 1
        return Block(self.count, pool, device, address, size, tid, page, origin)

    def malloc(self, when, tid, block, total=0):
        if not self.wanted(block.device):
            return
        for old in self.live():
            if (old.pool, old.device, old.address) == (block.pool, block.device, block.address):
                # Nobody has freed it: it ends here, with a synthetic FREE if anybody knows of it.
                self.blocks.remove(old)
                if old.state != "hidden":
                    at = when if self.tracing else self.behind_stop()
                    self.groups.append([self.row("FREE", old, at, None, shadow=True)])
        self.blocks.append(block)
        if block.pool == "PTA_WORKSPACE":
            self.workspace[block.device] = block.size
        if self.tracing:
            self.groups.append([self.row("MALLOC", block, when, tid, total)])
        else:
            block.state = "hidden"

    def free(self, when, tid, pool, address, total=0, refused=False):
        at = [b for b in self.live() if b.pool == pool and b.address == address]
        if not at and pool != DRIVER and not self.filtered():
            at = [b for b in self.live() if b.pool == pool and b.address <= address < b.address + b.size]
        if not at:
            if pool != DRIVER and self.tracing and not self.filtered():
                ghost = self.new(pool, NONE, address, 0, tid)
                self.groups.append([self.row("FREE", ghost, when, tid, total)])
            return
        (block,) = at
        if refused and not self.tracing:
            return
        self.blocks.remove(block)
        if pool == "PTA_WORKSPACE":
            self.workspace[block.device] = 0
        if self.tracing:
            self.groups.append([self.row("FREE", block, when, tid, total, address=address)])
            if refused:
                again = self.new(pool, block.device, address, block.size, tid, block.page, block.origin)
                self.blocks.append(again)
                self.groups.append([self.row("MALLOC", again, when, tid)])
        elif block.state != "hidden":
            block.state, block.freed = "waiting", tid
            self.blocks.append(block)

    def behind_stop(self):
        return (self.stop[0], FOREVER) if self.stop else (0, FOREVER)

    def shown(self):
        """The groups as they are written; nothing without a row that has a device, and so a file."""
        hidden = {event for event, option in (("MALLOC", "alloc"), ("FREE", "free")) if option not in self.events}
        groups = [[row for row in group if row.event not in hidden] for group in self.groups]
        return groups if any(row.device != NONE for group in groups for row in group) else []

    def line(self, tid, when, words):
        """Takes one line of the log."""
        numbers = [int(w) if w.lstrip("-").isdigit() else w for w in words[1:]]
        getattr(self, "on_" + words[0])(when, tid, *numbers)

    def on_begin(self, when, tid, tracing):
        assert tracing == self.tracing, "the process does not say what the recording does"

    def on_alloc(self, when, tid, result, address, size, flag):
        device = CPU if flag >> 10 & 15 == 2 else str(flag & 0x3FF)
        page = PAGES[2 if flag >> 31 & 1 else flag >> 17 & 1]
        if result == 0:
            self.malloc(when, tid, self.new(DRIVER, device, address, size, tid, page, "alloc"))

    def on_create(self, when, tid, result, address, size, side, card, page, module):
        device = str(card) if side == 1 else CPU
        if result == 0:
            self.malloc(when, tid, self.new(DRIVER, device, address, size, tid, PAGES[page], "create"))

    def on_pin(self, when, tid, result, address, size):
        if result == 0:
            self.malloc(when, tid, self.new(DRIVER, CPU, address, size, tid))

    def on_free(self, when, tid, result, address):
        self.free(when, tid, DRIVER, address, refused=result != 0)

    on_release = on_unpin = on_free

    def on_heap(self, when, tid, pool, device, size, handle):
        self.newest_heap[tid] = device
        self.heaps[pool, handle] = (device, size)
        before = self.totals.get((pool, device), 0) if pool in CHUNKED else 0
        self.totals[pool, device] = before + size

    def on_unheap(self, when, tid, pool, handle):
        device, size = self.heaps[pool, handle]
        self.totals[pool, device] -= size

    def on_region(self, when, tid, pool, device, address, size):
        block = self.new(pool, self.visible[device], address, size, tid)
        self.malloc(when, tid, block, self.totals[pool, device])

    def on_unregion(self, when, tid, pool, address):
        self.free(when, tid, pool, address, self.totals[pool, self.newest_heap[tid]])

    def on_stop(self, when, tid):
        if self.tracing:
            self.groups.append([self.system("STOP_TRACE", when)])
            self.tracing, self.stop = False, when

    def on_start(self, when, tid):
        if self.tracing:
            return
        group = [self.row("FREE", b, when, b.freed, shadow=True) for b in self.blocks if b.state == "waiting"]
        self.blocks = self.live()
        for block in self.blocks:
            if block.state == "hidden":
                block.state = "promoted"
                group.append(self.row("MALLOC", block, when, block.tid, shadow=True))
        self.groups += [group, [self.system("START_TRACE", when)]]
        self.tracing, self.stop = True, None

    def on_mark(self, when, tid, device, *text):
        card = self.visible[device]
        if self.tracing and self.wanted(card):
            name = " ".join(map(str, text))
            self.groups.append([Row(when[0], when[1], tid, "MSTX", "Mark", name, card, NONE, (), 0)])

    def on_fork(self, when, tid, child):
        pass  # expect() makes the child

    def on_end(self, when, tid):
        at = self.behind_stop() if self.stop else (when[0], FOREVER)
        shown = [b for b in self.blocks if b.state != "hidden"]
        self.groups.append([self.row("FREE", b, at, b.freed or None, shadow=True) for b in shown])


def pointer(address):
    return f"0x{address:016x}"


def expect(log, devices, events, visible):
    """The processes of a log by pid, each with its groups of rows."""
    lines = [line[2:].split() for line in log.splitlines() if line.startswith("@ ")]
    first = int(lines[0][0])
    processes = {first: Process(first, devices, events, visible)}
    waiting = [first]
    for pid in waiting:
        process = processes[pid]
        for tid, before, after, *words in (line[1:] for line in lines if int(line[0]) == pid):
            process.line(int(tid), (int(before), int(after)), words)
            if words[0] == "fork":
                child = int(words[1])
                processes[child] = process.child(child)
                waiting.append(child)
    return processes


def attr_of_csv(text):
    """The cells of Attr as the CSV file has them."""
    inner = text.strip("{}")
    return tuple(tuple(cell.split(":", 1)) for cell in inner.split(",")) if inner else ()


def attr_of_db(text):
    """... and as the database has them."""
    return tuple(json.loads(text).items())
