"""Times `msmemscope dump` on one dump, each question beside its Python peer and beside `wc -l`; called by run.sh.

measure.py PROGRAM DUMP [--no-peers]
"""

import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command):
    """Seconds, and the largest memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}")
    return took, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def best(times, *command):
    return min(run(*command) for _ in range(times))


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


def main(program, dump, peers):
    size = os.path.getsize(dump)
    with open(dump, "rb") as f:
        lines = sum(block.count(b"\n") for block in iter(lambda: f.read(1 << 20), b""))
    wc = best(5, "wc", "-l", dump)[0]
    start, end = middle(dump)
    print(f"{os.path.basename(dump)}: {lines} lines, {size / 1e6:.0f} MB; wc -l takes {wc:.3f} s")
    print(
        f"{'question':18} {'s':>8} {'cpu s':>8} {'rows/s':>12} {'MB/s':>8} {'MB mem':>8} "
        f"{'x Python':>10} {'x wc -l':>8}"
    )
    for name, words in (
        ("stats", []),
        ("check", []),
        ("peak", []),
        ("curve", ["--bins", "100"]),
        ("at", [end]),
        ("window", [start, end]),
        ("group", []),
        ("group-stack", ["--by", "stack"]),
        ("leak-candidates", []),
        ("trend", []),
        ("oom", []),
        ("fragmentation", []),
        ("hal-segments", []),
        ("kernels", []),
    ):
        question = "group" if name == "group-stack" else name
        times = [w for w in words if w.isdigit() and name in ("at", "window")]
        rest = [w for w in words if w not in times]
        took, memory, cpu = (
            best(3, program, question, *times, dump, *rest, "--pool", "all")
            if name in ("group", "at", "window", "leak-candidates")
            else best(3, program, question, dump, *rest)
        )
        ratio = ""
        if peers:
            ratio = "%.1f" % (run(sys.executable, os.path.join(HERE, "peer.py"), name, dump, *times)[0] / took)
        print(
            f"{name:18} {took:8.3f} {cpu:8.3f} {lines / took:12.0f} {size / took / 1e6:8.0f} {memory:8.0f} {ratio:>10} "
            f"{took / wc:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--no-peers" not in sys.argv[3:])
