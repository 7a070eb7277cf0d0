#!/usr/bin/env python3
"""A training or serving script that records its device memory with msmemscope; take from it what you need.

Prepare the shell before, and clean it up behind:

    source msmemscope --load-api-env
    python3 collection_template.py
    source msmemscope --unload-api-env

Without the module the script does its work and records nothing. Standard library only; your frameworks come where the
comments say so.
"""

import contextlib
import importlib.util
import sys

try:
    import msmemscope
except ImportError as error:  # not installed
    print(f"memory is not recorded: {error}", file=sys.stderr)
    msmemscope = None

FIRST_STEP, LAST_STEP = 3, 8  # what is recorded; the steps before settle the memory
STEPS = 10

OPTIONS = {  # all values are strings
    "events": "alloc,free",  # always both
    "output_path": "./memscopeDumpResults",  # a directory of its own for each run
    # "call_stack": "python:10",   where in the code; costs time
    # "analysis": "decompose",     owners: weights, gradients, optimizer state
    # "analysis": "oom:20",        what was live when memory runs out
    # "format": "db",              only for MindStudio Insight
}


@contextlib.contextmanager
def recording():
    """Records what happens in the block. An error in it ends the recording and goes on to the caller."""
    if msmemscope is None:
        yield
        return
    msmemscope.start()
    try:
        yield
    finally:
        msmemscope.stop()


def label(owner):
    """A with block whose allocations get `owner`, at most 128 bytes, as a part of their owner."""
    if msmemscope is None:
        return contextlib.nullcontext()
    from msmemscope import describe

    return describe.describer(owner=owner)


def end_of_step():
    if msmemscope is not None:
        msmemscope.step()


def snapshot(name):
    """One row with the figures of the card, now; needs no recording, but torch_npu: without it there is no row."""
    if msmemscope is not None and importlib.util.find_spec("torch_npu"):
        msmemscope.take_snapshot(name=name)


def train_step(step):
    """Your step: forward, backward, optimizer."""
    with label("forward"):
        pass


def main():
    if msmemscope is not None:
        msmemscope.config(**OPTIONS)
    # build the model, load the weights
    snapshot("after loading")
    for step in range(FIRST_STEP):
        train_step(step)
    with recording():
        for step in range(FIRST_STEP, LAST_STEP + 1):
            train_step(step)
            end_of_step()
    for step in range(LAST_STEP + 1, STEPS):
        train_step(step)
    snapshot("at the end")


if __name__ == "__main__":
    main()
