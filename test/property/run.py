#!/usr/bin/env python3
"""Random programs under the tool, each into CSV and into a database, compared with the model: run.py [N [FIRST]]

Seeds are FIRST (1) to FIRST + N - 1 (25). A seed that fails is printed with what is wrong; its files stay.
"""

import csv
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import model

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MSMEMSCOPE_BUILD") or ROOT / "build")
OPTIONAL = ("process_used", "device_used")  # depend on the machine
HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"
)


def read_csv(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if ",".join(rows[0]) != HEADER:
        raise AssertionError(f"{path}: header {rows[0]}")
    return [row[:9] + [model.attr_of_csv(row[9])] for row in rows[1:]]


def read_db(path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as base:
        rows = base.execute("SELECT * FROM memscope_dump ORDER BY rowid").fetchall()
    for i, row in enumerate(rows):
        cells = [str(cell) for cell in row[:9]]
        cells[3] = cells[3].strip('"')  # a name of MSTX keeps its quotes in the database
        rows[i] = cells + [model.attr_of_db(row[9])]
    return rows


def rows_of(project, form):
    """The rows of a process in the order of their IDs, after a look at each file by itself."""
    merged = {}
    files = sorted(project.glob(f"device_*/dump/memscope_dump_*.{form}"))
    for path in files:
        own = path.parent.parent.name[len("device_") :]
        rows = read_csv(path) if form == "csv" else read_db(path)
        ids = [int(row[0]) for row in rows]
        stamps = [int(row[4]) for row in rows]
        if ids != sorted(set(ids)):
            raise AssertionError(f"{path}: IDs do not ascend")
        if stamps != sorted(stamps):
            raise AssertionError(f"{path}: times do not ascend")
        for row in rows:
            if row[7] not in (own, model.NONE):
                raise AssertionError(f"{path}: a row of device {row[7]}")
            if merged.setdefault(int(row[0]), row) != row:
                raise AssertionError(f"{path}: ID {row[0]} is another row elsewhere")
    for path in files:
        rows = read_csv(path) if form == "csv" else read_db(path)
        missing = {i for i, row in merged.items() if row[7] == model.NONE} - {int(row[0]) for row in rows}
        if missing:
            raise AssertionError(f"{path}: rows {sorted(missing)}, which have no device, are not in this file")
    return [merged[i] for i in sorted(merged)]


def compare(process, rows):
    """The first difference between the model and the rows of a process; None without one."""
    rows = iter(rows)
    ids = {}  # the model's blocks -> allocation_id
    for group in process.shown():
        got = [next(rows, None) for _ in group]
        if None in got:
            return f"{got.count(None)} rows are missing at the end of {[r.cells() for r in group]}"
        waiting = list(group)
        for row in got:
            attr = [cell for cell in row[9] if cell[0] not in OPTIONAL]
            number = 0
            if row[1] in ("MALLOC", "FREE"):
                if not attr or attr[0][0] != "allocation_id":
                    return f"row {row} does not begin with allocation_id"
                number = int(attr.pop(0)[1])
            cells = (row[1], row[2], row[3], row[7], row[8], tuple(attr))
            fits = [r for r in waiting if r.cells() == cells and ids.get(r.block, number) == number]
            if not fits:
                return f"row {row}\nis none of " + "\n".join(str(r) for r in waiting)
            want = fits[0]
            waiting.remove(want)
            if want.block and ids.setdefault(want.block, number) != number:
                return f"row {row}: allocation_id is not {ids[want.block]}"
            if row[5] != str(process.pid) or want.tid is not None and row[6] != str(want.tid):
                return f"row {row}: not of process {process.pid}, thread {want.tid}"
            if not want.lowest <= int(row[4]) <= want.highest:
                return f"row {row}: its time is not in {want.lowest} to {want.highest}"
    if len(set(ids.values())) != len(ids):
        return "two blocks have one allocation_id"
    rest = list(rows)
    return f"{len(rest)} rows that nobody expects, first {rest[0]}" if rest else None


def choose(seed):
    """Options, environment and arguments of the program for a seed."""
    rng = random.Random(seed)
    device = rng.choice(["npu", "npu,cpu", "npu,cpu", "npu:0", "npu:1,cpu", "npu:0,npu:1,cpu"])
    visible = rng.choice([None, None, "1,0"])
    env = {"VNPU_DEVICES": "2", "VNPU_HBM_BYTES": "1T"}
    if visible:
        env["ASCEND_RT_VISIBLE_DEVICES"] = visible
    if rng.random() < 0.5:
        env["VNPU_FAIL_ALLOC_NTH"] = str(rng.randint(1, 30))
        env["VNPU_FAIL_ALLOC_CODE"] = rng.choice(["6", "7", "99"])
    if rng.random() < 0.5:
        env["VNPU_FAIL_FREE_NTH"] = str(rng.randint(1, 20))
    events = rng.choice(["alloc,free,launch"] * 4 + ["alloc", "free"])
    return device, visible, env, events, [str(seed), str(rng.choice([20, 60, 200, 600])), str(rng.randint(1, 4))]


def run(seed, form, directory):
    """Runs one program into files of one form: what is wrong, or the number of rows."""
    device, visible, env, events, arguments = choose(seed)
    out, log = directory / form, directory / f"{form}.log"
    words = [
        BUILD / "bin/msmemscope",
        f"--output-path={out}",
        f"--format={form}",
        f"--device={device}",
        "--pools=arena",
        f"--events={events}",
        ROOT / "build/targets/random",
        *arguments,
    ]
    (directory / f"{form}.sh").write_text(
        " ".join([f"{k}={v}" for k, v in env.items()] + [str(w) for w in words]) + "\n"
    )
    with open(log, "a") as file:
        done = subprocess.run(
            words, cwd=directory, env={**os.environ, **env}, stdout=file, stderr=subprocess.PIPE, timeout=170
        )
    complaints = [line for line in done.stderr.decode().splitlines() if "but nothing was recorded" not in line]
    if done.returncode not in (0, 137) or complaints:
        return f"status {done.returncode}: {complaints}"
    devices = tuple(None if d == "npu" else d.split(":")[-1] for d in device.split(","))
    processes = model.expect(log.read_text(), devices, events.split(","), visible.split(",") if visible else ["0", "1"])
    count = 0
    projects = {int(p.name.split("_")[1]): p for p in out.glob("msmemscope_*_ascend")}
    for pid, process in processes.items():
        rows = rows_of(projects[pid], form) if pid in projects else []
        wrong = compare(process, rows)
        if wrong:
            return f"process {pid}: {wrong}"
        count += len(rows)
    return count


def test(seed):
    """The number of rows that were compared; None after a failure."""
    count = 0
    directory = Path(tempfile.mkdtemp(prefix=f"property-{seed}-"))
    for form in ("csv", "db"):
        try:
            result = run(seed, form, directory)
        except (AssertionError, sqlite3.Error, json.JSONDecodeError, subprocess.TimeoutExpired) as error:
            result = repr(error)
        if not isinstance(result, int):
            print(f"seed {seed} ({form}, {directory}): {result}\n", flush=True)
            return None
        count += result
    shutil.rmtree(directory)
    return count


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(test, range(first, first + count)))
    good = [n for n in counts if n is not None]
    print(f"{len(good)} of {count} random programs are recorded as the model says: {sum(good)} rows")
    return len(good) != count or not sum(good)


if __name__ == "__main__":
    sys.exit(main())
