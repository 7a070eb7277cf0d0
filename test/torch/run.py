#!/usr/bin/env python3
"""Runs torch and torch_npu on the virtual NPU under msmemscope and compares the dump with what torch_npu says itself.

run.py VENV BUILD [CASE…]     all cases without one

At each point of a script (scripts/points.py) the last row of the pool has to say the same bytes as
torch.npu.memory_allocated() and memory_reserved(), and at the end the blocks that live by the dump have to be those
of torch.npu.memory_snapshot().
"""

import collections
import csv
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
from harness import attributes  # noqa: E402

BLOCKING = {"ASCEND_LAUNCH_BLOCKING": "1"}  # as the documents say for watching
EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}


def owners(rows, told, _report, _out):
    """By the owners in the dump, what lives at the end is what the script says."""
    live = {}
    for row in rows:
        if row["Event Type"] == "PTA" and int(row["Timestamp(ns)"]) <= told[-1]["time"]:
            if row["Event"] == "MALLOC":
                live[row["Ptr"]] = row["Attr"]
            elif row["Event"] == "FREE":
                live.pop(row["Ptr"], None)
    wrong = []
    for label, (tensors, blocks) in next(line["owners"] for line in told if "owners" in line).items():
        size = sum(int(a["size"]) for a in live.values() if f"@{label}" in a.get("owner", ""))
        print(f"  {label}: {tensors} bytes in blocks of {size}")
        if size != blocks:
            wrong.append(f"{label}: {size} bytes in the dump; the script has {blocks}")
    return wrong


def out_of_memory(rows, _told, _report, _out):
    """Trigger, recent and top are there, each with the line that asked for the memory."""
    line = next(
        n for n, text in enumerate((HERE / "scripts/oom.py").read_text().splitlines(), 1) if "kept.append" in text
    )
    wrong = []
    for kind in "OOM_TRIGGER", "OOM_RECENT_ALLOC", "OOM_TOP_ALLOC":
        found = [r for r in rows if r["Event Type"] == kind]
        print(f"  {kind}: {len(found)} rows")
        if not any(
            f"oom.py({line})" in text or f"oom.py:{line}" in text for r in found for text in map(str, r.values())
        ):
            wrong.append(f"no {kind} with line {line} of oom.py: {found[:2]}")
    return wrong


def leaks(rows, _told, report, _out=None, script="accumulate.py", steps=range(2, 6)):
    """What the report has as leaks is what the planted line has allocated, in every step that is judged."""
    text = (HERE / "scripts" / script).read_text().splitlines()
    line = next(n for n, content in enumerate(text, 1) if "planted" in content)
    found = re.findall(r"Direct Pytorch Caching memory pool leak of .* at (0x\w+) .*at step (\d+)", report)
    births = {}  # the last one at each address
    for row in rows:
        if row["Event"] == "MALLOC" and row["Event Type"] == "PTA":
            births[int(row["Ptr"], 16)] = f"{script}({line})" in str(row)
    others = sorted(address for address, _ in found if not births.get(int(address, 16)))
    of = sorted({int(step) for _, step in found})
    print(f"  {len(found)} leaks of steps {of}")
    wrong = [f"reported, and not of line {line}: {others}"] if others else []
    return wrong if of == list(steps) else [*wrong, f"steps {of}, not {list(steps)}"]


def of_one(rows, told, report, _out):
    """Of two processes the one with card 1 leaks, and only that one."""
    card = next(point["device"] for point in told if "device" in point)
    return leaks(rows, told, report, None, "pair.py", range(2, 6) if card else [])


def operators(rows, told, _report, _out):
    """Names and numbers of the operators are those of PyTorch's profiler."""
    begin, end = next(line["window"] for line in told if "window" in line)
    profiled = next(line["operators"] for line in told if "operators" in line)
    found = collections.Counter()
    for row in rows:
        if row["Event Type"] == "ATEN_START" and begin <= int(row["Timestamp(ns)"]) <= end:
            _torch, _ops, space, name, _form = row["Name"].split(".")
            if space in ("aten", "npu"):  # not marks of ranges
                found[f"{space}::{name}"] += 1
    print(f"  {sum(found.values())} operators, {len(found)} different ones")
    names = sorted(found.keys() | profiled.keys())
    differ = {n: (found[n], profiled.get(n, 0)) for n in names if found[n] != profiled.get(n, 0)}
    return [f"rows and the profiler's operators: {differ}"] if differ or not found else []


def stacks(rows, _told, _report, _out):
    """What the program's own thread allocates, without the GIL, has a line; threads of autograd have none."""
    threads = {True: set(), False: set()}
    for row in rows:
        if row["Event"] == "MALLOC" and row["Event Type"] == "PTA":
            text = row["Call Stack(Python)"]
            own = row["Thread Id"] == row["Process Id"]
            threads[own].add("a line" if "accumulate.py(" in text else text)
    print(f"  stacks of the program's thread: {threads[True]}, of others: {threads[False]}")
    return [] if threads == {True: {"a line"}, False: {"NA"}} else [f"stacks: {threads}"]


def watched(_rows, _told, _report, out):
    """The first operator on the tensor, before and after: two times, as asked, and nothing that comes later."""
    directory = out / "watch_dump"
    files = sorted(path.name for path in directory.glob("*.bin"))
    if files:
        names = [name for name in files if (directory / name).stat().st_size == 512]
    else:
        table = next(directory.glob("watch_dump_data_check_sum_0_*.csv"))
        names = [name for name, hash in csv.reader(table.open()) if re.fullmatch("[0-9a-f]{16}", hash)]
    print(f"  watched: {names}")
    names = sorted(re.sub(r"^0_\d+[/_]", "", name) for name in names)
    expected = [f"torch._ops.aten.add.Tensor_1-test_0_{when}.bin" for when in ("after", "before")]
    return [] if names == expected else [f"watched: {names} of {files}, not {expected}"]


def sanitizer(_rows, told, _report, _out):
    """The example is right; that two streams write the same is told with the operator's name."""
    first, *errors = (line["sanitizer"] for line in told if "sanitizer" in line)
    print(f"  sanitizer: {[text for text in ''.join(errors).splitlines() if 'my_ext' in text]}")
    ok = first == "" and len(errors) == 1 and "my_ext.my_fused_op" in errors[0]
    return [] if ok else [f"sanitizer: {errors}"]


LEAKS = ["--analysis=leaks", "--call-stack=python"]
CASES = {  # name: script, environment, options, check of its own
    "mlp": ("mlp.py", {}),
    "values": ("values.py", {"VNPU_STRICT": "1"}),
    "transformer": ("transformer.py", {}),
    "accumulate": ("accumulate.py", {}, LEAKS, leaks),
    "stacks": ("accumulate.py", {}, ["--level=kernel", "--call-stack=python"], stacks),
    "memory": ("memory.py", {}),
    "expandable": ("memory.py", EXPANDABLE),
    "workspace": ("mlp.py", {"VNPU_WORKSPACE": "1M,aclnnMm=5M"}),
    "loader": ("loader.py", {"VNPU_STRICT": "1"}),
    "gloo": ("pair.py gloo", {"VNPU_STRICT": "1"}, LEAKS, of_one),
    "ddp": ("pair.py ddp", {"VNPU_STRICT": "1"}),
    "fsdp2": ("pair.py fsdp2", {"VNPU_STRICT": "1"}, LEAKS, of_one),
    "owners": ("owners.py", {}, ["--analysis=decompose"], owners),
    "operators": ("operators.py", {"VNPU_STRICT": "1"}, ["--level=op"], operators),
    "watch": ("watched.py", BLOCKING, ["--watch=,token0/layer0/module0/op1"], watched),
    "watch-address": ("watched.py address", BLOCKING, ["--watch=token0/op0,token0/op1,full-content"], watched),
    "sanitizer": ("sanitizer.py", {}, [], sanitizer),
    "oom": ("oom.py", {"VNPU_HBM_BYTES": "1G"}, ["--analysis=oom:3", "--call-stack=python"], out_of_memory),
}
TIMEOUT_S = 1800


def cann(home, build):
    """Makes a folder to be ASCEND_HOME_PATH, with CANN's package mstx; torch_npu wants the other parts to be there."""
    for part in "runtime", "compiler", "opp", "python":
        (home / part).mkdir(parents=True, exist_ok=True)
    if not (home / "lib64").exists():
        (home / "lib64").symlink_to(build / "vnpu/lib64")
        (home / "python/mstx.py").symlink_to(HERE.parent / "python/standin/mstx.py")
    return home


def environment(venv, build, home, more):
    """As set_env.sh of CANN leaves it, but for the places."""
    result = {k: v for k, v in os.environ.items() if not k.startswith(("MSMEMSCOPE", "LD_", "VNPU_", "PYTORCH"))}
    result.update(
        ASCEND_HOME_PATH=str(home),
        ASCEND_OPP_PATH=str(home / "opp"),
        LD_LIBRARY_PATH=f"{build}/vnpu/lib64:{venv}/operators",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH=f"{home}/python:{build}/python",
        **more,
    )
    return result


def rows_of(directory, pid):
    rows = []
    for path in glob.glob(f"{directory}/out/**/msmemscope_{pid}_*/**/memscope_dump_*.csv", recursive=True):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                row["Attr"] = attributes(row["Attr"])
                rows.append(row)
    return sorted(rows, key=lambda row: int(row["Timestamp(ns)"]))


def report_of(pid, report):
    """What the report says about a process; with one process there is no line that names it."""
    head, *parts = re.split(r"^====== Process (\d+) .*$", report, flags=re.M)
    return dict(zip(parts[::2], parts[1::2])).get(pid, "") if parts else head


def compare(rows, points):
    """Lines about what differs."""
    wrong = []
    rows = [r for r in rows if r["Event"] in ("MALLOC", "FREE")]
    for number, point in enumerate(p for p in points if "allocated" in p):
        device = str(point["device"])
        before = [r for r in rows if int(r["Timestamp(ns)"]) <= point["time"] and r["Device Id"] == device]
        pool = [r["Attr"] for r in before if r["Event Type"] == "PTA"]
        used, total = (int(pool[-1]["used"]), int(pool[-1]["total"])) if pool else (0, 0)
        if (used, total) != (point["allocated"], point["reserved"]):
            torch_npu = f"torch_npu {point['allocated']}, {point['reserved']}"
            wrong.append(f"point {number}, card {device}: PTA used {used}, total {total}; {torch_npu}")
        driver = [r["Attr"] for r in before if r["Event Type"] == "HAL"]
        used = int(driver[-1]["used"]) if driver else 0
        if used != point["driver"]:
            wrong.append(f"point {number}, card {device}: HAL used {used}; the driver {point['driver']}")
    last = points[-1]
    live = {}
    for row in rows:
        if int(row["Timestamp(ns)"]) <= last["time"] and row["Event Type"] == "PTA":
            key = int(row["Device Id"]), int(row["Ptr"], 16)
            if row["Event"] == "MALLOC":
                live[key] = int(row["Attr"]["size"])
            else:
                live.pop(key, None)
    blocks = {(device, address): size for device, address, size in last["blocks"]}
    for what, one, other in ("the dump", live, blocks), ("the snapshot", blocks, live):
        for key in sorted(one.keys() - other.keys())[:5]:
            wrong.append(f"only {what} has {one[key]} bytes at {key[1]:#x} of card {key[0]}")
    for key, size in live.items():
        if blocks.get(key, size) != size:
            wrong.append(f"{key[1]:#x}: {size} bytes, in the snapshot {blocks[key]}")
    return wrong


def run(name, venv, build, home):
    script, more, *rest = CASES[name]
    options, check = rest or ([], None)
    with tempfile.TemporaryDirectory() as directory:
        points = pathlib.Path(directory, "points")
        points.mkdir()
        script, *arguments = script.split()
        program = [str(venv / "bin/python"), str(HERE / "scripts" / script), *arguments]
        done = subprocess.run(
            [f"{build}/bin/msmemscope", "--output-path=out", *options, *program],
            cwd=directory,
            env=environment(venv, build, home, {**more, "TORCH_POINTS": str(points)}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        pids = {path.name for path in points.iterdir()}
        if done.returncode or not pids:
            return [f"status {done.returncode}", done.stdout[-3000:], done.stderr[-6000:]]
        recorded = {path.name.split("_")[1] for path in pathlib.Path(directory, "out").glob("msmemscope_*")}
        wrong = [f"rows of process {pid}, which is none of the script's" for pid in sorted(recorded - pids)]
        for pid in sorted(pids):
            told = [json.loads(line) for line in (points / pid).read_text().splitlines()]
            rows = rows_of(directory, pid)
            wrong += compare(rows, told)
            if check:
                wrong += check(rows, told, report_of(pid, done.stdout), pathlib.Path(directory, "out"))
            print(f"  {len(told)} points, {len(told[-1]['blocks'])} blocks at the end, {len(rows)} rows")
        for line in done.stdout.splitlines() + done.stderr.splitlines():
            if line.startswith(("loss", "caught", "vnpu:")):
                print("  " + line)
        if wrong and os.environ.get("TORCH_KEEP"):
            subprocess.run(["cp", "-r", directory, os.environ["TORCH_KEEP"]], check=False)
        return wrong


def main():
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(CASES):
        sys.exit(f"{__doc__}\ncases: {' '.join(CASES)}")
    venv, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        for name in sys.argv[3:] or CASES:
            print(name, flush=True)
            wrong = run(name, venv, build, cann(pathlib.Path(home), build))
            for line in wrong:
                print(f"  {name}: {line}")
            failed += bool(wrong)
    count = len(sys.argv[3:] or CASES)
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
