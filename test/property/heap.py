#!/usr/bin/env python3
"""Random programs under the host heap's hook, each against its own account of its heap: heap.py PROGRAM [N [FIRST]]

PROGRAM is native/hostheap/test/random.c, built. What is read is what users get: the overview, its JSON, the list of
blocks, the collapsed stacks. N (200) programs run from the seed FIRST (1) on; with `--kills` each is killed at a random
moment. A seed that fails is printed with what is wrong; its files stay.
"""

import contextlib
import csv
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "build/bin/msmemscope"
HEADER = "addr,size,alloc_ts,Call Stack(C),Call Stack(Python)"
BOUNDS = (256, 1024, 4096, 32768, 262144, 1048576)
# account.h
RECORD, PENDING, THREADS = struct.Struct("<BBHIQQQQ"), struct.Struct("<BBHIQQ"), 8192
ALLOC, FREE, BACK, START, MAIN, OPENED, CLOSED = range(1, 8)
ENTRIES = (
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
)
ROOTS = ("main", "worker", "visitor", "at_end_of_thread", "between")  # of random.c
FRAME = re.compile(r"random\(([\w.]+)\) \[0x[0-9a-f]+\](?: at .*:(\d+))?$")


class Wrong(Exception):
    """The reports say something else than the account."""


def expect(what, got, want, slack=0):
    if got != want and (not slack or abs(got - want) > slack):
        raise Wrong(f"{what}: the report has {got}, the account {want}")


def bucket(size):
    return sum(size >= b for b in BOUNDS)


class Block:
    def __init__(self, record, window):
        _, entry, _, path, self.address, self.size, _, self.stamp = record
        self.window, self.key = window, key_of(entry, path)


def key_of(entry, path):
    """Who allocates: entry, way, line, root; None: not the program itself."""
    if not path:
        return None
    way = "".join("lr"[path >> bit & 1] for bit in range(5))
    return ENTRIES[entry], way, path >> 8 & 0xFFFF, ROOTS[path >> 24 & 0x7F]


def key_of_stack(text):
    frames = [FRAME.search(line) for line in text.split("\n")]
    frames = frames[1:] if frames[0] and frames[0][1] == "resized" else frames  # account.c's own
    names = [f and f[1] for f in frames]
    if "get_from" not in names:
        return None
    at = names.index("get_from")
    way = "".join(n[0] for n in reversed(names[2:at]) if n in ("left", "right"))
    if names[1] != "leaf" or len(way) != at - 2:
        raise Wrong(f"a stack that is none of the program's:\n{text}")
    roots = [n for n in names[at:] if n in ROOTS]
    return names[0], way, int(frames[at + 1][2] or 0), roots[0] if roots else None


class Window:
    """What one window holds by the account."""

    def __init__(self):
        self.allocs, self.frees = Counter(), Counter()  # of each key: blocks
        self.alloc_bytes = self.free_bytes = 0
        self.prewindow = [[0, 0] for _ in range(7)]
        self.below = [0, 0]
        self.blocks = {}


class Account:
    def __init__(self, path, threshold):
        with open(path, "rb") as file:
            count, self.pid = struct.unpack("<QQ", file.read(16))
            pending = list(PENDING.iter_unpack(file.read(PENDING.size * THREADS)))
            records = list(RECORD.iter_unpack(file.read(RECORD.size * count)))
        self.pending = [p for p in pending if p[0]]
        dead_in_call = [i for i, p in enumerate(pending) if p[0]]
        self.windows, self.threshold = [], threshold
        self.live, self.taken = {}, {}
        window = None
        for record in records:
            kind = record[0]
            if kind in (MAIN, OPENED):
                self.begin()
                window = self.windows[-1]
            elif kind == CLOSED:
                window.blocks = {a: b for a, b in self.live.items() if b.window is window}
                window = None
            elif kind == ALLOC:
                self.alloc(record, window)
            elif kind == FREE:
                self.free(record, window)
            elif kind == BACK:
                self.back(record)
            elif kind == START and record is not records[0]:
                raise Wrong("the account does not begin with the program")
        if window:
            window.blocks = {a: b for a, b in self.live.items() if b.window is window}
        # What the calls in which threads have died may have freed.
        self.broken_off = [self.live.get(p[4]) for p in self.pending]
        self.broken_off += [self.taken[i][0] for i in dead_in_call if i in self.taken]

    def begin(self):
        if not self.windows and self.live:
            raise Wrong("libraries have allocated before the program began: nobody knows from when on the hook saw it")
        self.windows.append(Window())

    def alloc(self, record, window):
        address, size = record[4], record[5]
        if address in self.live:
            raise Wrong(f"the account has {address:#x} twice")
        small = size < self.threshold
        self.live[address] = block = Block(record, None if small else window)
        block.small = small and window  # the window that does not track it
        if not window:
            return
        if small:
            window.below[0] += 1
            window.below[1] += size
        else:
            window.allocs[block.key] += 1
            window.alloc_bytes += size

    def free(self, record, window):
        block = self.live.pop(record[4], None)
        undo = None
        if window and block and block.window is window:
            window.frees[block.key] += 1
            window.free_bytes += block.size
            undo = "free"
        elif window and not (block and block.small is window) and record[6] >= self.threshold:
            size = window.prewindow[bucket(record[6])]
            size[0] += 1
            size[1] += record[6]
            undo = "prewindow"
        self.taken[record[2]] = block, undo, window, record[6]

    def back(self, record):
        block, undo, window, usable = self.taken.pop(record[2])
        if block:
            self.live[block.address] = block
        if undo == "free":
            window.frees[block.key] -= 1
            window.free_bytes -= block.size
        elif undo == "prewindow":
            size = window.prewindow[bucket(usable)]
            size[0] -= 1
            size[1] -= usable


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        if file.readline() != HEADER + "\n":
            raise Wrong(f"{path}: header")
        return [(int(r[0], 16), int(r[1]), int(r[2]), r[3]) for r in csv.reader(file)]


def compare_blocks(rows, window, opened, pending):
    """The list of blocks, block for block. Returns the differences that a death explains: how many."""
    stacks = defaultdict(set)
    if [r[:2] for r in rows] != sorted((r[:2] for r in rows), key=lambda r: (-r[1], r[0])):
        raise Wrong("the list of blocks is not sorted by size")
    keys, open_calls, seen = {}, list(pending), set()
    for address, size, stamp, stack in rows:
        if stack not in keys:
            keys[stack] = key_of_stack(stack)
            stacks[keys[stack]].add(stack)
        block = window.blocks.get(address)
        seen.add(address)
        if block and (block.size, block.key) == (size, keys[stack]):
            if not opened - 1_000_000 <= stamp <= block.stamp + 1_000_000:
                raise Wrong(f"block {address:#x} is of {stamp}, the window of {opened}, the account of {block.stamp}")
            continue
        reasons = [
            p
            for p in open_calls
            if p[4] == address or p[0] != FREE and (p[5], key_of(p[1], p[3])) == (size, keys[stack])
        ]
        if not reasons:
            known = f"{block.size} bytes by {block.key}" if block else "none"
            raise Wrong(f"block {address:#x} of {size} bytes by {keys[stack]}; the account has {known}")
        open_calls.remove(reasons[0])
    missing = window.blocks.keys() - seen - {p[4] for p in pending}
    if missing:
        block = window.blocks[min(missing)]
        raise Wrong(
            f"{len(missing)} blocks are not in the report, as {block.address:#x}, {block.size} bytes by {block.key}"
        )
    several = [k for k, s in stacks.items() if k and len(s) > 1]
    if several:
        raise Wrong(f"{several[0]} has several stacks")


def compare_sites(overview, window, slack):
    for site in overview["top_leak_sites"] + overview["resident_baselines"]:
        key = key_of_stack("\n".join(site["c_stack"] or []))
        if key is None:
            continue  # a library's
        left = sum(b.key == key for b in window.blocks.values())
        expect(f"{key} allocations", site["allocations"]["blocks"], window.allocs[key], slack)
        expect(f"{key} frees", site["frees"]["blocks"], window.frees[key], slack)
        expect(f"{key} unfreed", site["unfreed"]["blocks"], left, slack)


def compare(folder, stage, account, sampled):
    """One window's files against the account. Returns the number of its blocks."""
    window, pending = account.windows[stage - 1], account.pending
    text = (folder / f"leak_overview_{stage}.txt").read_text()
    overview = json.loads((folder / f"leak_overview_{stage}.json").read_text())
    health, unfreed = overview["data_health"], overview["total_unfreed"]
    rows = read_rows(folder / f"block_detail_{stage}.csv")
    # Of a call that a death has broken off, either half may be in the report.
    bytes_off = sum(p[5] for p in pending) + sum(b.size for b in account.broken_off if b)
    if not health["usable_as_leak_conclusion"]:
        raise Wrong(f"not usable: {health['incomplete_because']}")
    if f"\n  {'Unfreed':<24}: {unfreed['blocks']} blocks, {unfreed['bytes']} bytes" not in text:
        raise Wrong("the text has another total than its twin")
    sizes = overview["unfreed_sizes"]
    expect("number of rows", len(rows), unfreed["blocks"])
    expect("bytes in rows", sum(r[1] for r in rows), unfreed["bytes"])
    expect("blocks in buckets", sum(b["blocks"] for b in sizes), unfreed["blocks"])
    expect("bytes in buckets", sum(b["bytes"] for b in sizes), unfreed["bytes"])
    for i, b in enumerate(sizes):
        expect(f"bucket {b['size']}", b["blocks"], sum(bucket(r[1]) == i for r in rows))
        expect(f"bucket {b['size']} bytes", b["bytes"], sum(r[1] for r in rows if bucket(r[1]) == i))
    folded = folder / f"live_stacks_{stage}.folded"  # not there when nothing is unfreed
    folded = folded.read_text().splitlines() if rows else []
    expect("bytes in the collapsed stacks", sum(int(line.rsplit(" ", 1)[1]) for line in folded), unfreed["bytes"])
    if sampled:
        left_out = health["unsampled_allocations"]
        expect("allocations", health["allocations"]["blocks"] + left_out["blocks"], window.allocs.total())
        expect("allocated bytes", health["allocations"]["bytes"] + left_out["bytes"], window.alloc_bytes)
        window.blocks = {r[0]: window.blocks[r[0]] for r in rows if r[0] in window.blocks}
        compare_blocks(rows, window, 0, ())
        return len(rows)
    n = len(pending)
    expect("allocations", health["allocations"]["blocks"], window.allocs.total(), n)
    expect("allocated bytes", health["allocations"]["bytes"], window.alloc_bytes, bytes_off)
    expect("frees", health["frees"]["blocks"], window.frees.total(), n)
    expect("freed bytes", health["frees"]["bytes"], window.free_bytes, bytes_off)
    expect("frees not seen", health["unseen_frees"]["blocks"], 0)
    expect("below the threshold", health["below_threshold_allocations"]["blocks"], window.below[0], n)
    expect("bytes below the threshold", health["below_threshold_allocations"]["bytes"], window.below[1], bytes_off)
    for b, (count, size) in zip(overview["prewindow_free_sizes"], window.prewindow):
        expect(f"frees from before the window, {b['size']}", b["blocks"], count, n)
        expect(f"bytes from before the window, {b['size']}", b["bytes"], size, bytes_off)
    expect("unfreed", unfreed["blocks"], len(window.blocks), n)
    compare_blocks(rows, window, stamp_of(health["opened"]), pending)
    compare_sites(overview, window, len(pending))
    return len(rows)


def stamp_of(text):
    """Nanoseconds of a time as Go writes it, rounded down to milliseconds."""
    m = re.fullmatch(r"(\d+-\d+-\d+T\d+:\d+:\d+)(?:\.(\d+))?(Z|[+-]\d+:\d+)", text)
    zone = 0 if m[3] == "Z" else int(m[3][0] + "1") * (int(m[3][1:3]) * 60 + int(m[3][4:])) * 60
    seconds = time.mktime(time.strptime(m[1] + " UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone - zone
    return int(seconds) * 10**9 + int((m[2] or "0").ljust(9, "0")[:9])


def run(program, seed, directory, kill):
    rng = random.Random(seed)
    options = ["--analysis=host-leaks", "--host-leak-mode=event", f"--output-path={directory}/out"]
    threshold = rng.choice([0, 0, 0, rng.randint(1, 2000)])
    sampled = not kill and rng.random() < 0.1
    options += [f"--block-size-threshold={threshold}"] if threshold else []
    options += [f"--sample-rate={rng.choice([2, 16, 64])}"] if sampled else []
    words = [TOOL, *options, "--", program, str(seed)] + (["forever"] if kill else [])
    log = directory / "account"
    (directory / "command").write_text(f"HEAP_ACCOUNT={log} " + " ".join(map(str, words)) + "\n")
    env = {**os.environ, "HEAP_ACCOUNT": str(log), "MSMEMSCOPE_HEAP_BEAT_MS": "50"}
    process = subprocess.Popen(words, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if kill:
            while process.poll() is None and head_of(log)[0] < 2:  # not in its main function yet
                time.sleep(0.002)
            time.sleep(rng.random() * 2)
            with contextlib.suppress(ProcessLookupError):  # it has died by itself: the status tells
                os.kill(head_of(log)[1], 9)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    if process.returncode not in ((137,) if kill else (0, 137)) or errors:
        raise Wrong(f"status {process.returncode}: {errors.decode()}")
    account = Account(log, threshold)
    folders = list((directory / "out").glob(f"msmemscope_{account.pid}_*/host_leak"))
    if len(folders) != 1:
        raise Wrong(f"{len(folders)} folders with reports")
    stages = sorted(int(p.stem.split("_")[-1]) for p in folders[0].glob("leak_overview_*.txt"))
    expect("windows", stages, list(range(1, len(account.windows) + 1)))
    how = json.loads((folders[0] / f"leak_overview_{stages[-1]}.json").read_text())["data_health"]["closed_by"]
    expect("end", how, "the process was killed" if process.returncode else "the process ended")
    return sum(compare(folders[0], stage, account, sampled) for stage in stages)


def head_of(log):
    """Number of records and process id, zeros before there are any."""
    if not log.exists():
        return 0, 0
    with open(log, "rb") as file:
        return struct.unpack("<QQ", file.read(16).ljust(16, b"\0"))


def test(program, seed, kill):
    """The number of blocks that were compared; None after a failure."""
    directory = Path(tempfile.mkdtemp(prefix=f"heap-{seed}-"))
    try:
        count = run(program, seed, directory, kill)
    except (Wrong, OSError, ValueError, LookupError, TypeError, subprocess.TimeoutExpired) as error:
        print(f"seed {seed} ({directory}): {error!r}\n", flush=True)
        return None
    shutil.rmtree(directory)
    return count


def main():
    words = [w for w in sys.argv[1:] if w != "--kills"]
    kill = len(words) < len(sys.argv) - 1
    program = Path(words[0]).resolve()
    count = int(words[1]) if len(words) > 1 else 200
    first = int(words[2]) if len(words) > 2 else 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(lambda seed: test(program, seed, kill), range(first, first + count)))
    good = [n for n in counts if n is not None]
    how = "that were killed at a random moment " if kill else ""
    print(f"{len(good)} of {count} random programs {how}have reports that equal their own account: {sum(good)} blocks")
    return len(good) != count or not sum(good)


if __name__ == "__main__":
    sys.exit(main())
