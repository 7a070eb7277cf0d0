#!/usr/bin/env python3
"""cost.py - what the Python module costs: a range, a traced call, an operator. Run by bench/python/run.

Each figure is the least of several rounds, interleaved with what it is compared with, in ns of CPU time of this thread.
"""

import cProfile
import gc
import sys
import time

import msmemscope
import torch
import torch_npu

ROUNDS = 25  # the ring is as new, with page faults, in its first lap: about ten of them


def least(*works):
    """The least CPU time in ns of each work, interleaved."""
    best = [float("inf")] * len(works)
    gc.disable()
    for _ in range(ROUNDS):
        for i, work in enumerate(works):
            begin = time.thread_time_ns()
            work()
            best[i] = min(best[i], time.thread_time_ns() - begin)
    gc.enable()
    return best


def ranges(n):
    record = msmemscope.RecordFunction

    def plain():
        for _ in range(n):
            pass

    def ranged():
        for _ in range(n):
            with record("range"):
                pass

    base, cost = least(plain, ranged)
    print(f"RecordFunction: {(cost - base) / n:.0f} ns for each range (at most 2000 are asked)")


def leaf(x):
    return x


def calls(n, kind, function):
    def work():
        for _ in range(n):
            function(1)

    def with_cprofile():
        profile = cProfile.Profile()
        profile.enable()
        work()
        profile.disable()

    def with_trace():
        msmemscope.tracer.start()
        work()
        msmemscope.tracer.stop()

    base, theirs, ours = least(work, with_cprofile, with_trace)
    theirs, ours = (theirs - base) / n, (ours - base) / n
    print(f"trace: {ours:.0f} ns for each {kind} function, cProfile {theirs:.0f} ns: {ours / theirs:.2f} of it (1)")


def operators(n):
    a = torch.empty(8, 8, device="npu:0")

    def work():
        for _ in range(n):
            a.add_(a)

    (base,) = least(work)
    for events in ("launch", "access", "launch,access"):
        msmemscope.config(events=events)
        msmemscope.start()
        (cost,) = least(work)
        msmemscope.stop()
        print(f"operator of two tensors, events={events}: {(cost - base) / n:.0f} ns more each")


def main():
    torch_npu.npu.set_device(0)
    msmemscope.config(events="alloc,free", analysis="none", output_path="out")
    msmemscope.start()
    ranges(20000)
    calls(50000, "Python", leaf)
    calls(50000, "C", abs)
    msmemscope.stop()
    operators(5000)
    print(f"CPython {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
