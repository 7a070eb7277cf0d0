"""A data loader with a thread that reads ahead, and a training loop that takes its batches.

Leaks: a - a few batches of each epoch are kept to be looked at, and never are; b - the loss of each step is kept with
all that it was computed from. Lookalike: reading is faster than training, so a backlog grows for most of an epoch and
then drains.
"""

import queue
import threading

import beats


class Loss:
    def __init__(self, value, size):
        self.value = value
        self.graph = bytearray(size)  # site loss


class Reader(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.wanted = queue.Queue()
        self.batches = queue.Queue()
        self.start()

    def read(self, size):
        batch = bytearray(size)  # site batch
        batch[::512] = b"x" * len(batch[::512])
        return batch

    def run(self):
        while True:
            size = self.wanted.get()
            self.batches.put(self.read(size))


class Epoch:
    """Which samples are read, in which order, and how far we are."""

    def __init__(self, run, length):
        self.order = list(range(600))
        run.random.shuffle(self.order)
        self.end = run.now + length
        self.begin = run.now

    def part(self, now):
        return (now - self.begin) / (self.end - self.begin)


def main():
    run = beats.Run()
    epochs = run.random.randint(1, 3) if run.lookalike else run.random.randint(4, 7)
    length = run.ticks // epochs
    size = run.random.randint(2000, 12000)
    produced = run.random.uniform(1, 3)
    keep = run.random.uniform(0.01, 0.06)
    graph = run.random.randint(200, 1500)
    table = {f"sample {i}": (i, i * 4096) for i in range(600)}
    reader = Reader()
    kept, history = [], []
    epoch = Epoch(run, length)
    ahead = steps = 0  # batches asked for and not taken yet
    total = 0.0
    for now in run:
        if now >= epoch.end:
            epoch = Epoch(run, length)
            while not reader.batches.empty():  # the rest of the epoch before
                reader.batches.get()
                ahead -= 1
        # 60 % of an epoch are enough to read it when nothing holds the reader back.
        reading = not run.lookalike or epoch.part(now) < 0.6
        for _ in range(run.poisson(produced if reading else 0)):
            if run.lookalike or ahead < 8:
                reader.wanted.put(size + run.random.randint(0, 200))
                ahead += 1
        for _ in range(run.poisson(produced * 0.65) if run.lookalike else ahead):
            if ahead == 0:
                break
            batch = reader.batches.get()
            ahead -= 1
            steps += 1
            loss = Loss(len(batch) / (1 + steps), graph)  # site loss
            if run.leak("b"):
                history.append(loss)  # site history
            total += loss.value
            if run.leak("a") and run.chance(keep):
                kept.append(batch)  # site kept
            del batch, loss
    run.end(total + len(table))


if __name__ == "__main__":
    main()
