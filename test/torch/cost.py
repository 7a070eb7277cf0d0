#!/usr/bin/env python3
"""What msmemscope costs a training loop: cost.py VENV BUILD [ROUNDS]

Steps for each second of processor time of the program, each way beside a run without it, and the median ratios.
Operators are computed by the processor here, so that a step is longer than on a card.
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
    """Steps for each second of processor time."""
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
    return float(re.search(r"([\d.]+) steps per", done.stdout)[1])


def main():
    venv, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    ratios = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, options in WAYS.items():
            base, now = speed(venv, build, None), speed(venv, build, options)
            ratios[name].append(now / base)
            print(
                f"{name}: {now:.2f} of {base:.2f} steps per second, {now / base:.3f} (load {os.getloadavg()[0]:.0f})",
                flush=True,
            )
    for name, values in ratios.items():
        print(f"{name}: {statistics.median(values):.3f}")


if __name__ == "__main__":
    main()
