"""The clock and the dice of the Python programs here.

Words of each: BEATS BEAT_MS SEED LEAKS BASE, where LEAKS is the letters of the leaks that are switched on, or "-", and
BASE is "plain" or "lookalike": what is free of leaks then looks as if it were not.
"""

import math
import os
import random
import sys
import time

TICKS_PER_BEAT = 4


class Run:
    def __init__(self):
        if len(sys.argv) != 6 or sys.argv[5] not in ("plain", "lookalike"):
            sys.exit(f"usage: {sys.argv[0]} BEATS BEAT_MS SEED LEAKS plain|lookalike")
        self.ticks = self.end_tick = int(sys.argv[1]) * TICKS_PER_BEAT  # truth.py goes on for longer
        self.length = int(sys.argv[2]) / 1000 / TICKS_PER_BEAT
        self.random = random.Random(int(sys.argv[3]))
        self.leaks = sys.argv[4]
        self.lookalike = sys.argv[5] == "lookalike"
        self.now = 0
        self.delay = 0.0  # the greatest, in seconds

    def __iter__(self):
        """The quarters of beats, from 1. Deadlines are absolute, so that delays do not add up."""
        begin = time.monotonic()
        while self.now < self.end_tick:
            self.now += 1  # here beat_now
            wait = begin + self.now * self.length - time.monotonic()
            self.delay = max(self.delay, -wait)
            time.sleep(max(0.0, wait))
            yield self.now

    def leak(self, letter):
        return letter in self.leaks

    def chance(self, p):
        return self.random.random() < p

    def poisson(self, mean):
        limit, product, count = math.exp(-mean), self.random.random(), 0
        while product > limit:
            product *= self.random.random()
            count += 1
        return count

    def lifetime(self, mean):
        """Exponential, in ticks."""
        return 1 + int(self.random.expovariate(1 / mean))

    def skewed(self, n):
        """0 to n-1, the low ones often."""
        return int(n * self.random.random() ** 3)

    def end(self, total):
        """As a service that is stopped: modules are not cleared. Says the greatest delay, too, by which a run is known
        that did not get the processor when it should."""
        print(total, f"{self.delay:.3f}", flush=True)
        os._exit(0)
