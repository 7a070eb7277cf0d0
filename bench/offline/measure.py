"""Times `msmemscope dump` on one dump: each question beside its Python peer and beside `wc -l`; called by run.sh.

    measure.py PROGRAM DUMP [--quick]

Every figure is the best of three rounds, in which the program and `wc -l` take turns; the Python peer runs once. With
--quick there is one round and no peer. On a busy machine the ratio of CPU times says more than that on the clock. No
memory below that of this script can be seen.
"""

import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY = ["group", "at", "window", "leak-candidates"]  # asked for all pools, as the peers do


class Run:
    """One run of a command: seconds on the clock and of CPU, the largest memory in MB."""

    def __init__(self, *command):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        self.clock = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)}: exit {process.returncode}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024


def middle(path):
    """Two times in the middle of the dump."""
    with open(path, "rb") as f:
        ends = []
        for place in (0.4, 0.6):
            f.seek(int(os.path.getsize(path) * place))
            while True:
                cells = f.readline().split(b",")
                if len(cells) > 8 and cells[1] in (b"MALLOC", b"FREE", b"OP_LAUNCH"):
                    ends.append(cells[4].decode())
                    break
    return ends


def main(program, dump, quick):
    size = os.path.getsize(dump)
    with open(dump, "rb") as f:
        rows = sum(block.count(b"\n") for block in iter(lambda: f.read(1 << 20), b""))  # about: stacks have many lines
    start, end = middle(dump)
    work = dump + ".work"
    os.makedirs(work, exist_ok=True)
    copy = os.path.join(work, "memscope_dump_1.csv")
    print(f"{os.path.basename(dump)}: {rows} lines, {size / 1e6:.0f} MB")
    print(
        f"{'question':18} {'s':>8} {'cpu s':>8} {'lines/s':>12} {'MB/s':>8} {'MB mem':>8} "
        f"{'x Python':>10} {'(cpu)':>8} {'x wc -l':>8} {'(cpu)':>8}"
    )
    for name, words, peer in (
        ("stats", [], True),
        ("check", [], True),
        ("peak", [], True),
        ("curve", ["--bins", "100"], True),
        ("at", [end], True),
        ("window", [start, end], True),
        ("group", [], True),
        ("group-stack", ["--by", "stack"], True),
        ("leak-candidates", [], True),
        ("trend", [], True),
        ("oom", [], True),
        ("fragmentation", [], True),
        ("hal-segments", [], True),
        ("kernels", [], True),
        ("check-leaks", ["--mstx-info", "step start"], False),
        ("diagnose", [], False),
        ("sort", [], False),
        ("convert", ["--overwrite", "--output", os.path.join(work, "memscope_dump_1.db")], False),
        ("check-inefficient", [], False),
    ):
        if quick and not peer and name not in ("diagnose", "sort"):
            continue
        question = "group" if name == "group-stack" else name
        times = words if name in ("at", "window") else []
        command = [program, question, *times, dump, *([] if times else words)]
        if question in MEMORY:
            command += ["--pool", "all"]
        if name == "check-inefficient":  # it writes into its input
            shutil.copyfile(dump, copy)
            command[command.index(dump)] = copy
        ours, wc = [], []
        for _ in range(1 if quick or not peer else 3):
            wc.append(Run("wc", "-l", dump))
            ours.append(Run(*command))
        clock, cpu = min(r.clock for r in ours), min(r.cpu for r in ours)
        python = ["", ""]
        if peer and not quick:
            p = Run(sys.executable, os.path.join(HERE, "peer.py"), name, dump, *times)
            python = [f"{p.clock / clock:.1f}", f"{p.cpu / cpu:.1f}"]
        print(
            f"{name:18} {clock:8.3f} {cpu:8.3f} {rows / clock:12.0f} {size / clock / 1e6:8.0f} "
            f"{max(r.memory for r in ours):8.0f} {python[0]:>10} {python[1]:>8} "
            f"{clock / min(r.clock for r in wc):8.1f} {cpu / min(r.cpu for r in wc):8.1f}",
            flush=True,
        )
    shutil.rmtree(work)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--quick" in sys.argv[3:])
