"""Leaks host memory in two places, beside a cache and a table that only look like it.

    PYTHONMALLOC=malloc msmemscope --analysis=host-leaks python3 hostleak.py

names the two lines, and the one that makes the keys which leak with the second. PYTHONMALLOC=malloc because Python
keeps small objects in arenas of its own otherwise, where no tool that watches malloc sees them.

It ends by os._exit: in an orderly exit the interpreter frees what its modules hold, also what has leaked, and a report
on the end of the process shows nothing of it. In a program of your own, close the window before the end, by stop().

Words: seconds to run (default 40), milliseconds between two rounds (default 100).
"""

import collections
import os
import sys
import time

handlers = []  # the classic: something is registered again and again
history = {}


def register(step):
    handlers.append(bytearray(700 + step % 3))  # leak 1


def remember(step):
    history[step] = bytearray(3000)  # leak 2


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 40
    pause = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.1
    table = [bytearray(64) for _ in range(5000)]  # made once
    cache = collections.OrderedDict()
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        register(step)
        remember(step)
        cache[step] = bytearray(2048)
        while len(cache) > 50:
            cache.popitem(last=False)
        step += 1  # a key of history, which stays
        time.sleep(pause)
    print(f"register {len(handlers)} blocks, remember {len(history)} blocks, table {len(table)} blocks", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
