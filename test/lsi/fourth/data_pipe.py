"""A training with a data loader: threads decode and augment samples, batches wait in a bounded backlog for the trainer.

Leak a: a validation takes some batches only of its loader. Nobody closes it, so that the pool of workers keeps its
channel, with the batches that had been made ahead.
Leak b: kernels of a filter are kept by their width, a random number that never comes again, and without a limit.
"""

import array
import collections
import functools
import itertools
import math
import queue
import random
import threading
import zlib

import beats

CLASSES = 4


class Settings:
    def __init__(self, run):
        dice, late = run.random, run.lookalike
        filled = run.ticks * (dice.uniform(0.35, 0.48) if late else dice.uniform(0.08, 0.18))
        self.workers = dice.randint(2, 4)
        self.features = dice.randint(40, 80)
        self.batch = dice.randint(5, 10)
        self.train_rate = dice.uniform(0.4, 0.8)  # batches per tick
        self.surplus = dice.uniform(0.06, 0.12) if late else dice.uniform(0.15, 0.3)
        self.backlog = int(filled * self.surplus) + 3
        self.samples = int(filled * self.train_rate * self.batch * 0.9) + 40
        self.held_out = dice.randint(60, 120)
        self.cached = int(self.samples * dice.uniform(0.4, 0.6))
        self.prefetch = dice.randint(3, 6)
        self.validate = dice.randint(6, 10)  # ticks between validations
        self.validation = dice.randint(2, 4)  # batches of each
        self.blur = dice.uniform(0.3, 0.5)  # part of the samples
        self.kernels = int(filled * self.train_rate * self.batch * self.blur * 0.8) + 8
        self.broken = dice.uniform(0.01, 0.03)
        self.checkpoint = dice.randint(30, 60) if late else dice.randint(10, 25)
        self.checkpoints = dice.randint(6, 9) if late else dice.randint(2, 4)
        self.window = int(filled * self.train_rate * 0.8) + 10
        self.flush = dice.randint(60, 140) if late else dice.randint(5, 20)


class BrokenSample(Exception):
    def __init__(self, index, size):
        super().__init__(f"sample {index} has {size} bytes")
        self.index = index


class Dataset:
    """Samples as they lie on the disk: a label, and compressed numbers."""

    def __init__(self, name, size, settings, dice):
        self.name, self.blobs, self.labels = name, [], array.array("b")
        for _ in range(size):
            label = dice.randrange(CLASSES)
            centre = dice.uniform(-1, 1) + label
            values = array.array("d", [round(dice.gauss(centre, 1), 1) for _ in range(settings.features)])
            blob = zlib.compress(values.tobytes(), 1)
            self.blobs.append(blob[:-5] if dice.random() < settings.broken else blob)
            self.labels.append(label)

    def __len__(self):
        return len(self.blobs)

    def read(self, index):
        blob = self.blobs[index]
        values = array.array("d")
        try:
            values.frombytes(zlib.decompress(blob))
        except zlib.error as error:
            raise BrokenSample(index, len(blob)) from error
        return values


class DecodedCache:
    """Samples that have been decoded, the least recently used ones go."""

    def __init__(self, limit):
        self.limit, self.lock = limit, threading.Lock()
        self.samples = collections.OrderedDict()

    def get(self, dataset, index):
        key = dataset.name, index
        with self.lock:
            if key in self.samples:
                self.samples.move_to_end(key)
                return self.samples[key]
        values = dataset.read(index)
        with self.lock:
            self.samples[key] = values
            while len(self.samples) > self.limit:
                self.samples.popitem(last=False)
        return values


def make_kernel(width):
    """Weights of a Gaussian filter."""
    reach = min(int(3 * width) + 2, 6)
    weights = [math.exp(-(x * x) / (2 * width * width)) for x in range(-reach, reach + 1)]
    total = sum(weights)
    return array.array("d", [weight / total for weight in weights])  # site kernel


class Augment:
    """What is done to the samples of the training, by dice of the batch."""

    def __init__(self, settings, leaky):
        self.settings = settings
        self.kernel = functools.lru_cache(maxsize=None if leaky else settings.kernels)(make_kernel)

    def __call__(self, values, dice):
        values = self.shift(values, dice)
        if dice.random() < self.settings.blur:
            values = self.smooth(values, dice)
        if dice.random() < 0.2:
            values = self.mask(values, dice)
        if dice.random() < 0.2:
            values = array.array("d", [value + dice.gauss(0, 0.1) for value in values])
        return values

    def shift(self, values, dice):
        by = dice.randrange(len(values))
        return values[by:] + values[:by]

    def smooth(self, values, dice):
        width = dice.uniform(0.4, 1.8)  # site width
        kernel = self.kernel(width)  # site memo
        out, begin = array.array("d", values), dice.randrange(len(values) // 2)
        for position in range(begin, begin + len(values) // 4):  # a part of it
            around = values[max(position - len(kernel) // 2, 0) :][: len(kernel)]
            out[position] = sum(map(float.__mul__, around, kernel))
        return out

    def mask(self, values, dice):
        out, begin = array.array("d", values), dice.randrange(len(values))
        for position in range(begin, min(begin + 8, len(values))):
            out[position] = 0.0
        return out


class Batch:
    __slots__ = ("values", "labels", "indices", "mean", "spread", "origin")

    def __init__(self, origin, indices):
        self.origin, self.indices = origin, indices
        self.values, self.labels = array.array("d"), array.array("b")  # site batch_parts


class Task:
    __slots__ = ("channel", "position", "dataset", "indices", "seed", "augment")

    def __init__(self, channel, position, dataset, indices, seed, augment):
        self.channel, self.position, self.dataset = channel, position, dataset
        self.indices, self.seed, self.augment = indices, seed, augment


class Channel:
    """Batches of one loader that are ready, in any order."""

    def __init__(self, number):
        self.number, self.ready = number, {}  # site channel_parts
        self.changed = threading.Condition()  # site channel_parts

    def put(self, position, batch):
        with self.changed:
            self.ready[position] = batch  # site ready
            self.changed.notify_all()

    def take(self, position):
        with self.changed:
            while position not in self.ready:
                self.changed.wait()
            return self.ready.pop(position)


class WorkerPool:
    """Threads that stay; loaders come and go."""

    def __init__(self, settings, augment):
        self.settings, self.augment = settings, augment
        self.cache = DecodedCache(settings.cached)
        self.tasks = queue.Queue()
        self.channels, self.numbers = {}, itertools.count(1000)
        self.lock, self.skipped = threading.Lock(), collections.deque(maxlen=20)
        for _ in range(settings.workers):
            threading.Thread(target=self.work, daemon=True).start()

    def open(self):
        channel = Channel(next(self.numbers))  # here channel
        with self.lock:
            self.channels[channel.number] = channel  # site channels
        return channel

    def close(self, channel):
        with self.lock:
            del self.channels[channel.number]

    def work(self):
        while True:
            task = self.tasks.get()
            batch = self.collate(task)
            with self.lock:
                channel = self.channels.get(task.channel)
            if channel:
                channel.put(task.position, batch)
            del task, batch, channel

    def collate(self, task):
        dice = random.Random(task.seed)
        batch = Batch(f"{task.dataset.name} {task.position}", task.indices)  # here batch
        for index in task.indices:
            try:
                values = self.cache.get(task.dataset, index)
            except BrokenSample as error:
                self.skipped.append(f"{task.dataset.name}: {error}")
                continue
            if task.augment:
                values = self.augment(values, dice)
            batch.values.extend(values)  # site batch_values
            batch.labels.append(task.dataset.labels[index])  # site batch_values
        count = max(len(batch.values), 1)
        batch.mean = sum(batch.values) / count  # site batch_parts
        batch.spread = math.sqrt(sum([value * value for value in batch.values]) / count)  # site batch_parts
        return batch


class Loader:
    """One pass over a dataset: batches in order, some made ahead."""

    def __init__(self, pool, dataset, order, augment, dice):
        size = pool.settings.batch
        self.pool, self.dataset, self.augment, self.dice = pool, dataset, augment, dice
        self.plan = [order[begin : begin + size] for begin in range(0, len(order), size)]  # site indices
        self.sent = self.position = 0
        self.channel = pool.open()
        for _ in range(pool.settings.prefetch):
            self.send()

    def send(self):
        if self.sent < len(self.plan):
            indices, seed = self.plan[self.sent], self.dice.getrandbits(32)
            self.pool.tasks.put(Task(self.channel.number, self.sent, self.dataset, indices, seed, self.augment))
            self.sent += 1

    def __iter__(self):
        return self

    def __next__(self):
        if self.position == len(self.plan):
            self.close()
            raise StopIteration
        batch = self.channel.take(self.position)
        self.position += 1
        self.send()
        return batch

    def close(self):
        if self.channel:
            self.pool.close(self.channel)
            self.channel = None


class Model:
    """A linear classifier, with momentum."""

    def __init__(self, features, dice):
        self.features = features
        self.weights = [array.array("d", [dice.gauss(0, 0.1) for _ in range(features)]) for _ in range(CLASSES)]
        self.momentum = None

    def losses(self, batch):
        rows = [batch.values[at : at + self.features] for at in range(0, len(batch.values), self.features)]
        for row, label in zip(rows, batch.labels):
            scores = [sum(map(float.__mul__, weights, row)) for weights in self.weights]
            top = max(scores)
            total = sum([math.exp(score - top) for score in scores])
            yield row, label, math.log(total) - (scores[label] - top)

    def train(self, batch):
        if self.momentum is None:
            self.momentum = [array.array("d", bytes(8 * self.features)) for _ in range(CLASSES)]
        out = []
        for row, label, loss in self.losses(batch):
            weights, momentum = self.weights[label], self.momentum[label]
            for position in range(self.features // 4):
                momentum[position] = momentum[position] * 0.9 + row[position] * 0.001
                weights[position] = (weights[position] + momentum[position]) * 0.99
            out.append(loss)
        return out


class Trainer:
    def __init__(self, run):
        self.run, self.settings = run, Settings(run)
        dice = run.random
        self.training = Dataset("train", self.settings.samples, self.settings, dice)
        self.held_out = Dataset("held out", self.settings.held_out, self.settings, dice)
        self.model = Model(self.settings.features, dice)
        self.pool = WorkerPool(self.settings, Augment(self.settings, run.leak("b")))
        self.loader, self.epoch = None, 0
        self.backlog = collections.deque()
        self.feed_credit = self.train_credit = 0.0
        self.difficulty = {}
        self.recent = collections.deque(maxlen=self.settings.window)
        self.epochs = collections.deque(maxlen=4)
        self.checkpoints = collections.deque(maxlen=self.settings.checkpoints)
        self.validations = collections.deque(maxlen=12)
        self.events, self.steps, self.written = [], 1000, 0  # goes on from an older checkpoint

    def next_batch(self):
        """Epochs follow each other without a gap."""
        while True:
            if self.loader is None:
                self.epoch += 1
                order = list(range(len(self.training)))
                self.run.random.shuffle(order)
                self.loader = Loader(self.pool, self.training, order, True, self.run.random)
            for batch in self.loader:
                return batch
            self.loader = None
            self.epochs.append((self.epoch, self.steps, sum(self.difficulty.values())))

    def feed(self):
        self.feed_credit += self.settings.train_rate + self.settings.surplus
        while self.feed_credit >= 1:
            self.feed_credit -= 1
            if len(self.backlog) < self.settings.backlog:
                self.backlog.append(self.next_batch())

    def train(self, now):
        self.train_credit += self.settings.train_rate
        while self.train_credit >= 1:
            self.train_credit -= 1
            if not self.backlog:
                continue
            batch = self.backlog.popleft()
            losses = self.model.train(batch)
            for index, loss in zip(batch.indices, losses):
                self.difficulty[index] = 0.8 * self.difficulty.get(index, loss) + 0.2 * loss
            self.recent.append((sum(losses) / max(len(losses), 1), batch.mean, batch.spread))
            self.events.append(f"{now} {batch.origin}: loss {self.recent[-1][0]:.4f}, epoch {self.epoch}")
            self.steps += 1
            if self.steps % self.settings.checkpoint == 0:
                self.checkpoints.append((self.steps, [weights[:] for weights in self.model.weights]))

    def validate(self):
        order = self.run.random.sample(range(len(self.held_out)), len(self.held_out))
        loader = Loader(self.pool, self.held_out, order, False, self.run.random)
        losses = []
        for number, batch in enumerate(loader, 1):
            losses += [loss for _, _, loss in self.model.losses(batch)]
            if number == self.settings.validation:
                break
        if not self.run.leak("a"):
            loader.close()
        self.validations.append((self.steps, sum(losses) / max(len(losses), 1)))

    def tick(self, now):
        self.feed()
        self.train(now)
        if now % self.settings.validate == 0:
            self.validate()
        if now % self.settings.flush == 0:
            self.written += zlib.crc32("\n".join(self.events).encode()) % 1000
            self.events.clear()


def main():
    run = beats.Run()
    trainer = Trainer(run)
    for now in run:
        trainer.tick(now)
    run.end(trainer.steps * 1000 + trainer.written)


main()
