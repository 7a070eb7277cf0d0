"""The agent of a build farm: every job has a log of its own, a handler that is there as long as the job is, and every
request to its interface logs in its own context.

Leak a: the handler of a job that fails stays on the logger of the jobs, and has the job, its workspace and its lines.
Leak b: a request has a logger of its own name, and the logging module never forgets a logger.
"""

import collections
import contextvars
import copy
import json
import logging
import logging.handlers
import re
import zlib

import beats

STAGES = ["checkout", "configure", "compile", "link", "test", "package", "upload"]
WORDS = [
    "parser",
    "lexer",
    "linker",
    "driver",
    "kernel",
    "shader",
    "codec",
    "index",
    "schema",
    "socket",
    "timer",
    "heap",
]
ROUTES = ["/jobs", "/jobs/{id}", "/jobs/{id}/log", "/health", "/metrics", "/queue", "/cache/{key}"]
ENVIRONMENT = ["PATH", "HOME", "CC", "CXX", "CFLAGS", "LDFLAGS", "TMPDIR", "LANG", "JOBS", "TARGET"]

context = contextvars.ContextVar("context", default=None)


class Settings:
    def __init__(self, run):
        dice, late = run.random, run.lookalike
        self.jobs = dice.uniform(0.12, 0.22)  # per tick
        self.job_life = dice.uniform(50, 90) if late else dice.uniform(12, 30)
        self.chatter = dice.uniform(0.15, 0.3) if late else dice.uniform(0.3, 0.7)  # lines of a job per tick
        self.failures = dice.uniform(0.3, 0.5)
        self.requests = dice.uniform(0.5, 1.2)
        self.request_life = dice.uniform(8, 25) if late else dice.uniform(1.5, 5)
        self.workspace = dice.randint(1000, 4000)
        filled = run.ticks * (dice.uniform(0.35, 0.5) if late else dice.uniform(0.08, 0.2))
        self.archive = int(filled * self.jobs * 0.8) + 4
        self.errors = int(filled * self.jobs * self.failures * 0.7) + 4
        self.ring = int(filled * self.requests * 1.5) + 40
        self.capacity = dice.randint(300, 600) if late else dice.randint(20, 80)
        self.segment, self.backups = dice.randint(6000, 12000), dice.randint(8, 14) if late else dice.randint(3, 5)
        self.ship = dice.randint(60, 140) if late else dice.randint(4, 15)
        self.taps = dice.uniform(0.01, 0.03)
        self.tap_life = dice.uniform(80, 120) if late else dice.uniform(20, 50)
        self.messages = dice.randint(100, 150) if late else dice.randint(30, 60)
        self.artifacts = int(filled * 0.3) + 10


class Clock:
    now = 0


def make_record(*arguments, **more):
    record = logging.LogRecord(*arguments, **more)
    record.tick, record.context = Clock.now, context.get()
    return record


class JsonFormatter(logging.Formatter):
    def format(self, record):
        entry = {"tick": record.tick, "level": record.levelname, "logger": record.name, "text": record.getMessage()}
        if record.context is not None:
            entry["context"] = record.context.name
        if record.exc_info:
            entry["error"] = repr(record.exc_info[1])
        return json.dumps(entry, separators=(",", ":"))


class RingHandler(logging.Handler):
    """The last records, for the page that shows them."""

    def __init__(self, size):
        super().__init__(logging.INFO)
        self.lines = collections.deque(maxlen=size)

    def emit(self, record):
        self.lines.append(self.format(record))


class ErrorHandler(logging.Handler):
    """The last errors, as records, with what their tracebacks hold."""

    def __init__(self, size):
        super().__init__(logging.ERROR)
        self.records = collections.deque(maxlen=size)

    def emit(self, record):
        self.records.append(record)


class CountHandler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def emit(self, record):
        key = record.name.split(".")[1], record.levelno
        self.counts[key] = (self.counts[key] + 1) % 251


class SegmentHandler(logging.Handler):
    """A file that is rotated, in memory: segments are compressed when they are full."""

    def __init__(self, limit, backups):
        super().__init__()
        self.limit, self.size, self.lines = limit, 0, []
        self.segments = collections.deque(maxlen=backups)

    def emit(self, record):
        line = self.format(record)
        self.lines.append(line)
        self.size += len(line) + 1
        if self.size > self.limit:
            self.segments.append(zlib.compress("\n".join(self.lines).encode(), 1))
            self.lines.clear()
            self.size = 0


class ShipHandler(logging.Handler):
    """Copies of records, which are sent to a collector from time to time."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.queue, self.sent = collections.deque(), 0

    def emit(self, record):
        twin = copy.copy(record)
        twin.msg, twin.args, twin.exc_info, twin.context = record.getMessage(), None, None, None
        self.queue.append(twin)

    def drain(self):
        batch = [f"{record.tick}|{record.name}|{record.msg}" for record in self.queue]
        self.queue.clear()
        self.sent += zlib.crc32("\n".join(batch).encode()) % 1000


class Redact:
    """A filter: no tokens in the log."""

    pattern = re.compile(r"token=\w+")

    def filter(self, record):
        if isinstance(record.msg, str) and "token=" in record.msg:
            record.msg = self.pattern.sub("token=...", record.msg)
        return True


class Dampen:
    """A filter: how often a message may come. It remembers some messages, the least recent go."""

    def __init__(self, limit):
        self.limit, self.seen = limit, collections.OrderedDict()

    def filter(self, record):
        key = record.name, str(record.msg)[:60]
        count = self.seen.pop(key, 0)
        self.seen[key] = min(count + 1, 200)
        if len(self.seen) > self.limit:
            self.seen.popitem(last=False)
        return count < 150 or count % 2 == 0


class ContextFilter:
    """Lets pass what a job or a request has logged itself."""

    def __init__(self, owner):
        self.owner = owner

    def filter(self, record):
        return record.context is self.owner


class JobHandler(logging.Handler):
    def __init__(self, job):
        super().__init__(logging.DEBUG)  # site handler
        self.set_name(f"log of {job.name}")  # site handler
        self.addFilter(ContextFilter(job))  # site handler
        self.setFormatter(logging.Formatter(f"%(tick)06d {job.name} %(levelname)-7s %(message)s"))  # site handler
        self.lines = []  # site handler

    def emit(self, record):
        self.lines.append(self.format(record))  # site line


class TapHandler(logging.Handler):
    """Somebody follows a logger for a while."""

    def __init__(self, number, until):
        super().__init__(logging.INFO)
        self.until = until
        self.setFormatter(logging.Formatter(f"tap {number}: %(name)s: %(message)s"))
        self.tail = collections.deque(maxlen=30)

    def emit(self, record):
        self.tail.append(self.format(record))


class StageError(Exception):
    def __init__(self, stage, code):
        super().__init__(f"{stage} ended with status {code}")
        self.stage, self.code = stage, code


class Job:
    def __init__(self, number, settings, run):
        dice = run.random
        self.name = f"job-{number:05}"  # site job_parts
        self.modules = [f"{word}-{dice.randrange(100)}" for word in dice.sample(WORDS, 5)]  # site job_parts
        self.environment = [f"{name}=/opt/{dice.getrandbits(48):x}" for name in ENVIRONMENT]  # site job_parts
        self.workspace = bytearray(dice.randint(settings.workspace // 2, settings.workspace * 2))  # site workspace
        self.stage, self.left = 0, run.lifetime(settings.job_life)
        self.each = max(1, self.left // len(STAGES))
        self.fails_at = dice.randrange(self.left) if run.chance(settings.failures) else -1
        self.handler = None

    def step(self, log, dice, chatter):
        self.left -= 1
        if self.left % self.each == 0:
            self.stage = min(self.stage + 1, len(STAGES) - 1)
            log.info("%s begins: %s", STAGES[self.stage], self.modules[self.stage % len(self.modules)])
        if dice.random() < chatter:
            module = dice.choice(self.modules)
            self.workspace[dice.randrange(len(self.workspace))] = self.stage
            log.debug("%s/%s.o: %d bytes in %.3f s", module, dice.choice(WORDS), dice.getrandbits(20), dice.random())
        if self.left == self.fails_at:
            raise StageError(STAGES[self.stage], dice.randint(1, 127))
        return self.left <= 0


class Request:
    def __init__(self, number, dice, until):
        self.name = f"{number:06x}{dice.getrandbits(64):016x}"
        self.route, self.until = dice.choice(ROUTES), until
        self.query = f"token={dice.getrandbits(60):x}&page={dice.randrange(50)}"
        self.body = dice.randbytes(dice.randint(50, 400))
        self.log = None


class Agent:
    def __init__(self, run):
        self.run, self.settings = run, Settings(run)
        settings = self.settings
        logging.setLogRecordFactory(make_record)
        farm = logging.getLogger("farm")
        farm.setLevel(logging.DEBUG)
        farm.propagate = False
        self.ring, self.counts, self.errors = RingHandler(settings.ring), CountHandler(), ErrorHandler(settings.errors)
        self.segments, self.ship = SegmentHandler(settings.segment, settings.backups), ShipHandler()
        memory = logging.handlers.MemoryHandler(settings.capacity, logging.CRITICAL, self.segments, False)
        self.segments.setFormatter(JsonFormatter())
        self.ring.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.ring.addFilter(Dampen(settings.messages))
        for handler in (self.ring, self.counts, self.errors, self.ship, memory):
            handler.addFilter(Redact())
            farm.addHandler(handler)
        self.job_log = logging.getLogger("farm.job")
        self.api_log = logging.getLogger("farm.api")
        self.components = [logging.getLogger(f"farm.{name}") for name in ("scheduler", "cache", "agent")]
        self.jobs, self.requests, self.taps = [], [], []
        self.archive, self.artifacts = collections.OrderedDict(), collections.OrderedDict()
        self.job_number = self.request_number = self.tap_number = self.done = 0

    def start_jobs(self):
        for _ in range(self.run.poisson(self.settings.jobs)):
            self.job_number += 1
            job = Job(self.job_number, self.settings, self.run)  # here job
            job.handler = JobHandler(job)  # here handler
            self.job_log.addHandler(job.handler)  # site handlers
            self.components[0].info("%s starts, %d run", job.name, len(self.jobs))
            self.jobs.append(job)

    def run_job(self, job):
        """Whether it is over."""
        run = self.run
        token = context.set(job)
        failed = False
        try:
            if not job.step(self.job_log, run.random, self.settings.chatter):
                return False
            self.job_log.info("done: %d artifacts", job.stage)
        except StageError as error:
            self.job_log.error("%s failed: %s", job.name, error, exc_info=True)
            failed = True
        finally:
            context.reset(token)
        self.keep_log(job)
        if not (failed and run.leak("a")):
            self.close_log(job)
        self.done += 1
        return True

    def keep_log(self, job):
        self.archive[job.name] = zlib.compress("\n".join(job.handler.lines).encode(), 1)
        if len(self.archive) > self.settings.archive:
            self.archive.popitem(last=False)
        for module in job.modules[: job.stage]:
            self.artifacts[module] = bytes(job.workspace[:200])
            self.artifacts.move_to_end(module)
        while len(self.artifacts) > self.settings.artifacts:
            self.artifacts.popitem(last=False)

    def close_log(self, job):
        self.job_log.removeHandler(job.handler)
        job.handler.close()
        job.handler = None

    def logger_of(self, request):
        logger = self.api_log
        if self.run.leak("b"):
            logger = logging.getLogger(f"farm.api.{request.name}")  # site logger
        return logging.LoggerAdapter(logger, {"route": request.route})

    def serve(self, now):
        run, dice = self.run, self.run.random
        for _ in range(run.poisson(self.settings.requests)):
            self.request_number += 1
            request = Request(self.request_number, dice, now + run.lifetime(self.settings.request_life))
            request.log = self.logger_of(request)
            token = context.set(request)
            request.log.info("GET %s?%s", request.route, request.query)  # site level_cache
            context.reset(token)
            self.requests.append(request)
        for request in [request for request in self.requests if request.until <= now]:
            token = context.set(request)
            size = zlib.crc32(request.body) % 5000
            if size < 200:
                request.log.warning("%s: not found", request.route)  # site level_cache
            else:
                request.log.info("200, %d bytes", size)  # site level_cache
            context.reset(token)
            self.requests.remove(request)

    def follow(self, now):
        """Taps, on any of the loggers."""
        run = self.run
        for _ in range(run.poisson(self.settings.taps)):
            self.tap_number += 1
            logger = run.random.choice([self.api_log, self.job_log, *self.components])
            tap = TapHandler(self.tap_number, now + run.lifetime(self.settings.tap_life))
            logger.addHandler(tap)
            self.taps.append((logger, tap))
        for logger, tap in [entry for entry in self.taps if entry[1].until <= now]:
            logger.removeHandler(tap)
            tap.close()
            self.taps.remove((logger, tap))

    def tick(self, now):
        Clock.now = now
        self.start_jobs()
        self.jobs = [job for job in self.jobs if not self.run_job(job)]
        self.serve(now)
        self.follow(now)
        if self.run.chance(0.1):
            self.components[1].info("cache: %d artifacts, %d logs", len(self.artifacts), len(self.archive))
        if now % self.settings.ship == 0:
            self.ship.drain()
            self.components[2].debug("%d shipped", self.ship.sent)


def main():
    run = beats.Run()
    agent = Agent(run)
    for now in run:
        agent.tick(now)
    run.end(agent.done + agent.ship.sent + sum(agent.counts.counts.values()))


main()
