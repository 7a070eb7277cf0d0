"""Renders pages through a cache, and converts money at the rate of the moment.

Leaks: a - pages that are asked for with a trace id are cached by it, and never found again; b - rates are remembered by
the moment, in a memo without a bound. Lookalike: a cache without a bound over a catalogue that has one.
"""

import collections
import functools

import beats


@functools.lru_cache(maxsize=None)
def rate_of(moment):
    return b"rate" * (20 + moment % 7)  # site rate


@functools.lru_cache(maxsize=64)
def bounded_rate_of(moment):
    return b"rate" * (20 + moment % 7)


class Renderer:
    def __init__(self, run, requests):
        self.run = run
        self.templates = {f"template {i}": ["part"] * (i % 30) for i in range(300)}
        self.pages = collections.OrderedDict()
        self.traced = {}
        self.bound = None if run.lookalike else run.random.randint(80, 300)
        self.catalogue = int(requests * run.ticks / 3) if run.lookalike else 4000

    def render(self, page):
        parts = [f"<p>{page} {i}</p>" for i in range(5 + page % 30)]
        return "".join(parts)

    def page(self):
        number = self.run.random.randrange(self.catalogue) if self.run.lookalike else self.run.skewed(self.catalogue)
        if number in self.pages:
            self.pages.move_to_end(number)
            return self.pages[number]
        body = self.render(number)
        self.pages[number] = body
        if self.bound and len(self.pages) > self.bound:
            self.pages.popitem(last=False)
        return body

    def traced_page(self, trace):
        number = self.run.skewed(self.catalogue)  # site traced_number
        key = (number, f"trace {trace:032x}")  # site traced
        body = self.render(number)  # site traced
        if self.run.leak("a"):
            self.traced[key] = body  # site traced_table
        return body


def main():
    run = beats.Run()
    requests = run.random.uniform(1.5, 6)
    traced = run.random.uniform(0.05, 0.3)
    moments = run.random.uniform(0.3, 2)
    renderer = Renderer(run, requests)
    total = trace = 0
    moment = 0
    for _ in run:
        for _ in range(run.poisson(requests)):
            if run.chance(traced):
                trace += 1
                total += len(renderer.traced_page(trace))
            else:
                total += len(renderer.page())
        for _ in range(run.poisson(moments)):
            moment += 1  # site moment
            if run.leak("b"):
                total += len(rate_of(moment))  # site rate
            else:
                total += len(bounded_rate_of(moment))
    run.end(total)


if __name__ == "__main__":
    main()
