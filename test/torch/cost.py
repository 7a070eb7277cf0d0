#!/usr/bin/env python3
"""What msmemscope costs a training loop: cost.py VENV BUILD [ROUNDS]

Steps for each second, and for each second of processor time of all threads of the program, each way beside a run
without it, and the median ratios. The first mean something on a quiet machine only. Operators are computed by the
processor here, so that a step is longer than on a card.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from run import HERE, cann, environment

WAYS = {
    "alloc,free": ["--events=alloc,free"],
    "alloc,free, Python stacks": ["--events=alloc,free", "--call-stack=python"],
    "kernel level": ["--level=kernel"],
    "op level": ["--level=op"],
}


def speed(venv, build, options):
    """Steps for each second, and for each second of processor time."""
    script = [str(venv / "bin/python"), str(HERE / "scripts/transformer.py")]
    front = [] if options is None else [f"{build}/bin/msmemscope", "--output-path=out", "--analysis=none", *options]
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            front + script,
            cwd=directory,
            env=environment(venv, build, cann(pathlib.Path(directory, "cann"), build), {"STEPS": "100"}),
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r"([\d.]+) steps per second, ([\d.]+) per processor second", done.stdout)
    return [float(speed) for speed in found.groups()]


def main():
    venv, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    ratios = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, options in WAYS.items():
            base, now = speed(venv, build, None), speed(venv, build, options)
            wall, processor = (n / b for n, b in zip(now, base))
            ratios[name].append((wall, processor))
            print(
                f"{name}: {now[0]:.2f} of {base[0]:.2f} steps per second, {wall:.3f}; "
                f"{now[1]:.2f} of {base[1]:.2f} per processor second, {processor:.3f} (load {os.getloadavg()[0]:.0f})",
                flush=True,
            )
    for name, values in ratios.items():
        wall, processor = (statistics.median(column) for column in zip(*values))
        print(f"{name}: {wall:.3f} of the steps per second, {processor:.3f} of those per processor second")


if __name__ == "__main__":
    main()
