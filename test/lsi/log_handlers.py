"""Jobs that log, each into a buffer of its own, and a record of the latest lines.

Leaks: a - the handler of a job that fails is not removed; b - a logger by the name of the job, which the logging module
keeps for ever. Lookalike: a record of so many lines that it is full only late.
"""

import collections
import io
import logging

import beats


class Latest(logging.Handler):
    """Keeps the latest lines."""

    def __init__(self, count):
        super().__init__()
        self.lines = collections.deque(maxlen=count)

    def emit(self, record):
        self.lines.append(self.format(record))


class Job:
    def __init__(self, run, number, stay):
        self.number = number
        self.ends = run.now + run.lifetime(stay)
        self.log = logging.getLogger(f"slot{number % 40}")
        self.detail = None
        self.handler = logging.StreamHandler(io.StringIO())  # site handler
        self.log.addHandler(self.handler)  # site handler_list

    def step(self, run):
        self.log.info("job %d at tick %d: %s", self.number, run.now, "x" * run.random.randint(5, 120))  # site lines
        if self.detail is not None:
            self.detail.debug("not shown")  # site detail

    def close(self, leaked):
        if not leaked:
            self.log.removeHandler(self.handler)
            self.handler.close()


def main():
    run = beats.Run()
    arrivals = run.random.uniform(0.2, 0.8)
    stay = run.random.uniform(8, 30)
    fails = run.random.uniform(0.05, 0.25)
    named = run.random.uniform(0.1, 0.6)
    # Lines of a run: jobs, times how long they are there, times how often they say something.
    lines = arrivals * stay * 0.3 * run.ticks
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(Latest(int(0.65 * lines) if run.lookalike else 100))
    for i in range(200):
        logging.getLogger(f"component{i}")
    jobs = []
    number = 0
    for now in run:
        for _ in range(run.poisson(arrivals)):
            number += 1
            job = Job(run, number, stay)
            if run.chance(named):
                name = f"job{number}" if run.leak("b") else f"kind{number % 20}"  # site logger_name
                job.detail = logging.getLogger(name)  # site logger
            jobs.append(job)
        for job in jobs:
            if run.chance(0.3):
                job.step(run)
        for job in [job for job in jobs if job.ends <= now]:
            job.close(run.chance(fails) and run.leak("a"))
        jobs = [job for job in jobs if job.ends > now]
    run.end(number)


if __name__ == "__main__":
    main()
