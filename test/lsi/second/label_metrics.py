"""A registry of metrics with labels, which requests update and a scraper reads.

Leaks: a - the series of requests to no known route, whose label is the path itself, with the number in it; b - the
samples of a summary of slow requests, of which only the quantiles are asked, and the window is never cut.
Lookalike: the tenants come one after the other until late, each with its series; the daily export is large.
"""

import bisect
import collections

import beats

BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]


class Series:
    """A histogram of one set of labels."""

    def __init__(self, name, labels):
        self.name, self.labels = name, labels
        self.buckets = [0] * (len(BOUNDS) + 1)  # site buckets
        self.total, self.count, self.updated = 0.0, 0, 0.0

    def observe(self, value, now):
        self.buckets[bisect.bisect(BOUNDS, value)] += 1
        self.total += value  # here sum
        self.count += 1
        self.updated = now


class Summary:
    """Quantiles over a window of samples."""

    def __init__(self, bounded):
        self.bounded, self.samples = bounded, []

    def observe(self, now, value, trace):
        self.samples.append((now, value, f"trace-{trace:016x}"))  # site sample
        if self.bounded and len(self.samples) > 400:
            del self.samples[:200]

    def quantiles(self):
        last = sorted(value for _, value, _ in self.samples[-200:])
        return [last[int(len(last) * q)] for q in (0.5, 0.9, 0.99)] if last else []


class Registry:
    def __init__(self):
        self.families = collections.defaultdict(dict)
        self.help = {}

    def series(self, name, labels):
        family = self.families[name]
        if labels not in family:
            family[labels] = Series(name, labels)
        return family[labels]

    def unrouted(self, path, method):
        family = self.families["unrouted"]
        labels = (("path", path), ("method", method), ("outcome", "not_found"))  # site labels
        if labels not in family:
            family[labels] = Series("unrouted", labels)  # site series
        return family[labels]

    def scrape(self):
        """The text that a scraper gets: much at once, and soon gone."""
        lines = []
        for name, family in self.families.items():
            lines.append(f"# TYPE {name} histogram")
            for series in list(family.values())[-2000:]:
                text = ",".join(f'{key}="{value}"' for key, value in series.labels)
                lines.append(f"{name}_sum{{{text}}} {series.total:g}")
                lines.append(f"{name}_count{{{text}}} {series.count}")
        return "\n".join(lines)  # here scraped


class Service:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.rate = dice.uniform(4, 9)
        self.lost = dice.uniform(0.05, 0.1)
        self.slow = dice.uniform(0.15, 0.4)
        self.routes = [f"/v1/resource{i}/{{id}}" for i in range(dice.randint(4, 8))]
        self.tenants = [f"tenant-{i:04d}" for i in range(dice.randint(10, 20))]
        self.period = dice.randint(50, 90)
        self.registry = Registry()
        self.summary = Summary(not run.leak("b"))
        self.recent = collections.deque(maxlen=dice.randint(200, 500))
        self.text, self.export_text, self.total = "", [], 0

    def tenant(self):
        known = len(self.tenants)
        if self.run.lookalike:
            known = max(1, int(known * min(1.0, self.run.now / self.run.ticks / 0.75)))
        return self.tenants[self.run.random.randrange(known)]

    def request(self, now):
        dice = self.run.random
        method = dice.choice(("GET", "PUT", "POST"))
        took = dice.expovariate(8)  # here took
        number = dice.getrandbits(48)
        if self.run.chance(self.lost):
            path = f"/old/site/page/{number}/index.html"  # site path
            label = path if self.run.leak("a") else "(none)"
            self.registry.unrouted(label, method).observe(took, now)
            return
        route = dice.choice(self.routes)
        labels = (("route", route), ("method", method), ("tenant", self.tenant()))
        self.registry.series("request_seconds", labels).observe(took, now)
        self.registry.series("request_bytes", labels[:2]).observe(took / 3, now)
        if self.run.chance(self.slow):
            self.summary.observe(now + took, took, number)  # here moment
        self.recent.append({"route": route, "took": took, "trace": number})
        self.total += 1

    def tick(self, now):
        for _ in range(self.run.poisson(self.rate)):
            self.request(now)
        if now % 20 == 0:
            self.text = self.registry.scrape()
            self.total += len(self.text) + len(self.summary.quantiles())
        self.export(now)

    def export(self, now):
        """Collects rows in memory for some time, and hands them over together."""
        if not self.run.lookalike:
            return
        for _ in range(6):
            self.export_text.append(f"row {len(self.export_text)} of the export at {now}, with its columns")
        if now % self.period == 0:
            self.total += len("".join(self.export_text))
            self.export_text = []


def main():
    run = beats.Run()
    service = Service(run)
    for now in run:
        service.tick(now)
    run.end(service.total)


main()
