"""Collects telemetry: blocks of bytes come in, records are views into them; devices are arranged in trees for a time.

Leaks: a - alarms that clear themselves are not taken from the journal, and the view of the record in each keeps its
whole block; b - trees of devices are cycles, are not taken apart when they go, and the collector is off, as in a
service that was tuned for even response times.
Lookalike: the history of each device fills late; arrays of readings grow to the size of a shift and start again.
"""

import array
import collections
import gc

import beats


class Device:
    def __init__(self, name, parent):
        self.name, self.parent, self.children = name, parent, []  # site children
        self.settings = {"interval": 5, "unit": "celsius", "limit": len(name) * 1.5}  # site settings
        if parent is not None:
            parent.children.append(self)  # site child

    def take_apart(self):
        for child in self.children:
            child.take_apart()
        self.parent, self.children = None, []

    def count(self):
        return 1 + sum(child.count() for child in self.children)


class Alarm:
    def __init__(self, number, record, now):
        self.number, self.record, self.at = number, record, now
        self.text = f"alarm {number} at {now}: value out of range"  # site alarm_text


class Collector:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.blocks = dice.uniform(0.5, 1.2)
        self.alarm = dice.uniform(0.02, 0.06)
        self.clears = dice.uniform(0.3, 0.7)
        self.trees = dice.uniform(0.1, 0.3)
        self.stay = dice.uniform(15, 50)
        self.names = [f"sensor-{i:03d}" for i in range(dice.randint(20, 60))]
        self.history = {}
        self.depth = dice.randint(10, 30)
        if run.lookalike:  # per device, of what comes for it
            self.depth = int(run.ticks * self.blocks * 10 / len(self.names) * dice.uniform(0.55, 0.75))
        self.journal, self.closing, self.leaving = {}, collections.defaultdict(list), collections.defaultdict(list)
        self.latest = {}
        self.shift, self.shift_length = array.array("d"), dice.randint(2000, 5000)
        self.number = self.total = 0

    def receive(self):
        size = self.run.random.randint(3, 24) * 1024
        return bytearray(size)  # site block

    def block(self, now):
        dice = self.run.random
        view = memoryview(self.receive())  # site view
        step = len(view) // 10
        for i in range(10):
            record = view[i * step : i * step + 40]  # site record
            name = dice.choice(self.names)
            value = dice.gauss(20, 4)
            self.keep(name, now, value)
            self.latest[name] = bytes(record[:16])
            if self.run.chance(self.alarm):
                self.raise_alarm(record, now)

    def keep(self, name, now, value):
        if name not in self.history:
            self.history[name] = collections.deque(maxlen=self.depth)
        self.history[name].append((now + 0.5, value))
        self.shift.append(value)
        if self.run.lookalike and len(self.shift) < self.shift_length:
            self.shift.extend([value] * 8)
        if len(self.shift) >= self.shift_length:
            self.total += int(max(self.shift))
            self.shift = array.array("d")

    def raise_alarm(self, record, now):
        self.number += 1  # here number
        self.journal[self.number] = Alarm(self.number, record, now)  # site alarm
        if self.run.chance(self.clears) and self.run.leak("a"):
            return  # who would close it has nothing to do
        self.closing[now + self.run.lifetime(self.stay)].append(self.number)

    def plant(self, now):
        dice = self.run.random
        root = Device(f"gateway-{dice.getrandbits(24)}", None)  # site root
        devices = [root]
        for i in range(dice.randint(4, 12)):
            name = f"{root.name}/device-{i}"  # site device_name
            devices.append(Device(name, dice.choice(devices)))  # site device
        self.leaving[now + self.run.lifetime(self.stay)].append(root)

    def tick(self, now):
        for _ in range(self.run.poisson(self.blocks)):
            self.block(now)
        for _ in range(self.run.poisson(self.trees)):
            self.plant(now)
        for number in self.closing.pop(now, ()):
            self.total += len(self.journal.pop(number).text)
        for root in self.leaving.pop(now, ()):
            self.total += root.count()
            if not self.run.leak("b"):
                root.take_apart()
        if now % 40 == 0:
            lines = [f"{name}: {len(kept)} readings" for name, kept in self.history.items()]
            self.total += len("\n".join(lines))


def main():
    gc.disable()
    run = beats.Run()
    collector = Collector(run)
    for now in run:
        collector.tick(now)
    run.end(collector.total)


main()
