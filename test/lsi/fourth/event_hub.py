"""A control room: devices publish readings, and panels, rules, recorders and commands subscribe to topics of a hub.

Leak a: a panel that is closed takes its view of alarms off the hub, but by a closure that was made anew, which is not
the one that was subscribed. So the hub keeps the closure, and with it the panel and all that it has shown.
Leak b: subscriptions of commands are weak. The commands go away, but nobody is told to remove what was subscribed.
"""

import bisect
import collections
import functools
import gc
import itertools
import weakref
import zlib
from array import array

import beats

KINDS = {"pump": "bar", "boiler": "degC", "valve": "percent", "fan": "rpm", "tank": "litre"}
ACTIONS = ["start", "stop", "open", "close", "purge", "calibrate"]


class Settings:
    def __init__(self, run):
        dice, late = run.random, run.lookalike
        self.devices = dice.randint(14, 28)
        self.readings = dice.uniform(3, 7)  # per tick
        self.panels = dice.uniform(0.1, 0.22)
        self.panel_life = dice.uniform(80, 130) if late else dice.uniform(20, 50)
        self.points = dice.randint(20, 50)  # of a series
        self.commands = dice.uniform(0.25, 0.6)
        self.command_life = dice.uniform(40, 80) if late else dice.uniform(6, 20)
        self.alarms = dice.uniform(0.1, 0.3)
        self.alarm_life = dice.uniform(60, 120) if late else dice.uniform(10, 30)
        self.rules = dice.randint(10, 30)
        self.reload = dice.randint(150, 250) if late else dice.randint(40, 90)
        filled = run.ticks * (dice.uniform(0.35, 0.5) if late else dice.uniform(0.08, 0.2))
        self.history = int(filled * self.readings / self.devices) + 4  # readings of a topic that the hub keeps
        self.journal = int(filled * self.alarms) + 10
        self.results = int(filled * self.commands) + 10
        self.record = dice.randint(64, 256) if late else dice.randint(16, 48)
        self.collect = dice.randint(80, 140) if late else 0  # ticks between collections of garbage
        self.budget = int(self.readings * dice.uniform(1.3, 1.6)) + 2  # messages of a tick that are delivered


class Subscription:
    __slots__ = ("number", "pattern", "target", "weak", "once", "priority")

    def __init__(self, number, pattern, target, priority, weak, once):
        self.number, self.pattern, self.target = number, pattern, target
        self.priority, self.weak, self.once = priority, weak, once


class Node:
    """A level of the tree of topics."""

    __slots__ = ("children", "subscriptions")

    def __init__(self):
        self.children, self.subscriptions = {}, []


class Hub:
    """Callbacks by topic. A pattern has + for any level, and # at its end for all that are left."""

    def __init__(self, settings, leaky):
        self.settings, self.leaky = settings, leaky
        self.root = Node()
        self.queue = collections.deque()
        self.by_number = {}
        self.numbers = itertools.count(1000)
        self.gone = []
        self.retained, self.history = {}, {}
        self.delivered = 0

    def insert(self, pattern, target, priority, weak=False, once=False):
        node = self.root
        for level in pattern.split("/"):
            if level not in node.children:
                node.children[level] = Node()
            node = node.children[level]
        subscription = Subscription(next(self.numbers), pattern, target, priority, weak, once)  # here panel_entry
        bisect.insort(node.subscriptions, subscription, key=lambda other: -other.priority)  # site subscribers
        self.by_number[subscription.number] = subscription  # site subscribers
        return subscription

    def subscribe(self, pattern, callback, priority=0, once=False):
        return self.insert(pattern, callback, priority, once=once)

    def subscribe_weakly(self, pattern, method, priority=0):
        if self.leaky:
            target = weakref.WeakMethod(method)  # site weak_method
            return self.insert(pattern, target, priority, weak=True)  # site weak_subscription
        number = []
        target = weakref.WeakMethod(method, lambda _: self.gone.extend(number))
        subscription = self.insert(pattern, target, priority, weak=True)
        number.append(subscription.number)
        return subscription

    def find(self, pattern):
        path = [self.root]
        for level in pattern.split("/"):
            path.append(path[-1].children[level])
        return path

    def remove(self, subscription):
        if self.by_number.pop(subscription.number, None) is None:
            return
        path = self.find(subscription.pattern)
        path[-1].subscriptions.remove(subscription)
        levels = subscription.pattern.split("/")
        while len(path) > 1 and not path[-1].subscriptions and not path[-1].children:
            path.pop()
            del path[-1].children[levels.pop()]

    def discard(self, pattern, callback):
        """By what was subscribed, as those do it who have kept no subscription."""
        for subscription in self.find(pattern)[-1].subscriptions:
            if not subscription.weak and subscription.target == callback:
                self.remove(subscription)
                break

    def matches(self, node, levels):
        rest = node.children.get("#")
        if rest:
            yield from rest.subscriptions
        if not levels:
            yield from node.subscriptions
            return
        for level in (levels[0], "+"):
            child = node.children.get(level)
            if child:
                yield from self.matches(child, levels[1:])

    def publish(self, topic, payload, retain=False):
        self.queue.append((topic, payload))
        if retain:
            self.retained[topic] = payload

    def pump(self):
        for _ in range(min(len(self.queue), self.settings.budget)):
            topic, payload = self.queue.popleft()
            if topic.startswith("plant/"):
                past = self.history.get(topic)
                if past is None:
                    past = self.history[topic] = collections.deque(maxlen=self.settings.history)
                past.append(payload)
            for subscription in list(self.matches(self.root, topic.split("/"))):
                callback = subscription.target() if subscription.weak else subscription.target
                if callback is None:
                    continue
                callback(topic, payload)
                self.delivered += 1
                if subscription.once:
                    self.remove(subscription)
        while self.gone:
            self.remove(self.by_number[self.gone.pop()])


class Reading:
    __slots__ = ("device", "value", "unit", "quality", "when")

    def __init__(self, device, value, unit, quality, when):
        self.device, self.value, self.unit, self.quality, self.when = device, value, unit, quality, when


class Device:
    def __init__(self, number, kind, dice):
        self.name = f"{kind}{number:02}"
        self.topic = f"plant/{dice.randrange(3)}/{self.name}"
        self.unit, self.level, self.spread = KINDS[kind], dice.uniform(20, 80), dice.uniform(0.5, 4)
        self.serial = dice.randbytes(16).hex()

    def read(self, dice, now):
        self.level += dice.gauss(0, self.spread) + (50 - self.level) * 0.02  # site level
        value = round(self.level, 2)  # site level
        return Reading(self.name, value, self.unit, 0 if dice.random() < 0.97 else 1, now)  # site reading


class Series:
    """The points of a curve."""

    __slots__ = ("topic", "colour", "points", "low", "high")

    def __init__(self, topic, colour, length):
        self.topic, self.colour = topic, colour
        self.points = collections.deque(maxlen=length)  # site points
        self.low = self.high = None

    def add(self, topic, reading):
        self.points.append(reading)  # site points
        self.low = reading.value if self.low is None else min(self.low, reading.value)
        self.high = reading.value if self.high is None else max(self.high, reading.value)


class Panel:
    __slots__ = ("hub", "title", "series", "alarms", "canvas", "subscriptions", "show", "__weakref__")

    def __init__(self, hub, number, devices, settings, dice):
        self.hub = hub
        self.title = f"Panel {number}: {', '.join([device.name for device in devices])}"  # site title
        self.series = [Series(device.topic, dice.randrange(256), settings.points) for device in devices]  # site series
        self.alarms = collections.deque(maxlen=6)  # site alarm_list
        self.canvas = bytearray(dice.randint(400, 3000))  # site canvas
        self.subscriptions, self.show = [], None  # here panel_parts

    def open(self):
        for series in self.series:
            self.subscriptions.append(self.hub.subscribe(series.topic, series.add))  # here panel_entry

    def watch_alarms(self):
        self.show = self.alarm_view()
        self.hub.subscribe("alarm/#", self.show, priority=1)

    def watch_alarms_leaky(self):
        self.hub.subscribe("alarm/#", self.alarm_view(), priority=1)  # site view

    def alarm_view(self):
        def show(topic, alarm):
            self.alarms.append(alarm)  # site alarm_list
            self.canvas[len(self.alarms)] = len(topic)

        return show

    def close(self, leaky):
        for subscription in self.subscriptions:
            self.hub.remove(subscription)
        self.hub.discard("alarm/#", self.alarm_view() if leaky else self.show)

    def dispose(self):
        """Breaks the cycles, so that it is freed at once."""
        self.subscriptions.clear()
        self.show = None


class Alarm:
    def __init__(self, number, device, text, now):
        self.number, self.device, self.text, self.raised = number, device, text, now
        self.cleared = None


class Command:
    """Waits for the answer of a device; the hub has a weak reference only."""

    def __init__(self, number, device, action, operator, finished):
        self.number, self.device, self.action, self.operator = number, device, action, operator
        self.finished = finished
        self.arguments = [action.encode() * 3, f"{operator}@{number}"]

    def on_answer(self, topic, answer):
        if answer[0] == self.number:
            self.finished.append((self.number, topic, answer[1]))


class Recorder:
    """A curve of the whole time in bounded space: where it is full, every second point goes."""

    def __init__(self, limit):
        self.limit, self.step, self.skipped = limit, 1, 0
        self.values = array("d")

    def record(self, device, topic, reading):
        self.skipped += 1
        if self.skipped < self.step:
            return
        self.skipped = 0
        self.values.append(reading.value)
        if len(self.values) >= self.limit:
            self.values = self.values[::2]
            self.step = min(self.step * 2, 4)


class ControlRoom:
    def __init__(self, run):
        self.run, self.settings = run, Settings(run)
        dice = run.random
        self.hub = Hub(self.settings, run.leak("b"))
        kinds = list(KINDS)
        self.devices = [Device(n, kinds[n % len(kinds)], dice) for n in range(self.settings.devices)]
        self.recorders = {}
        for device in self.devices:
            recorder = self.recorders[device.name] = Recorder(self.settings.record)
            self.hub.subscribe(device.topic, functools.partial(recorder.record, device))
        self.rules, self.notes = [], weakref.WeakKeyDictionary()
        self.panels, self.directory = [], weakref.WeakValueDictionary()
        self.active, self.journal = {}, collections.deque(maxlen=self.settings.journal)
        self.commands, self.answers, self.finished = {}, [], []
        self.results = collections.deque(maxlen=self.settings.results)
        self.numbers = {"panel": 1000, "alarm": 2000, "command": 3000}
        self.hub.subscribe("alarm/+/raise", self.journal_alarm)
        self.load_rules()

    def next_number(self, what):
        self.numbers[what] += 1
        return self.numbers[what]

    def journal_alarm(self, topic, alarm):
        self.journal.append((alarm.number, topic, alarm.text))

    def load_rules(self):
        """Closures, all of which are replaced when the rules have changed."""
        for subscription in self.rules:
            self.hub.remove(subscription)
        self.rules.clear()
        for _ in range(self.settings.rules):
            device = self.run.random.choice(self.devices)
            rule = self.rule(device, self.run.random.uniform(60, 90))
            self.rules.append(self.hub.subscribe(f"plant/+/{device.name}", rule, priority=2))

    def rule(self, device, limit):
        over = []

        def check(topic, reading):
            if reading.value < limit:
                over.clear()
            elif len(over) < 5:
                over.append(reading.when)

        return check

    def measure(self, now):
        run = self.run
        for _ in range(run.poisson(self.settings.readings)):
            device = run.random.choice(self.devices)
            self.hub.publish(device.topic, device.read(run.random, now), retain=True)

    def alarm(self, now):
        run, settings = self.run, self.settings
        for _ in range(run.poisson(settings.alarms)):
            device = run.random.choice(self.devices)
            text = f"{device.name} at {device.level:.1f} {device.unit}, serial {device.serial}"
            alarm = Alarm(self.next_number("alarm"), device.name, text, now)
            self.active[alarm.number] = alarm, now + run.lifetime(settings.alarm_life)
            self.hub.publish(f"alarm/{device.name}/raise", alarm)
        for number in [number for number, (_, until) in self.active.items() if until <= now]:
            alarm = self.active.pop(number)[0]
            alarm.cleared = now
            self.hub.publish(f"alarm/{alarm.device}/clear", alarm)

    def look(self, now):
        run, settings = self.run, self.settings
        leaky = run.leak("a")
        for _ in range(run.poisson(settings.panels)):
            devices = run.random.sample(self.devices, run.random.randint(3, 6))
            panel = Panel(self.hub, self.next_number("panel"), devices, settings, run.random)  # here panel
            panel.open()
            if leaky:
                panel.watch_alarms_leaky()
            else:
                panel.watch_alarms()
            self.panels.append((now + run.lifetime(settings.panel_life), panel))
            self.directory[panel.title] = panel  # site directory
        for entry in [entry for entry in self.panels if entry[0] <= now]:
            self.panels.remove(entry)
            entry[1].close(leaky)
            if not run.lookalike:
                entry[1].dispose()

    def operate(self, now):
        run, settings = self.run, self.settings
        for _ in range(run.poisson(settings.commands)):
            device, action = run.random.choice(self.devices), run.random.choice(ACTIONS)
            operator = f"operator {run.random.randrange(6)}"
            number = self.next_number("command")
            command = Command(number, device, action, operator, self.finished)
            self.commands[number] = command
            self.notes[command] = f"{operator} asked for {action} at {now}"
            self.hub.subscribe_weakly(f"answer/{device.name}", command.on_answer)  # site pattern
            self.answers.append((now + run.lifetime(settings.command_life), number, device.name))
        for entry in [entry for entry in self.answers if entry[0] <= now]:
            self.answers.remove(entry)
            self.hub.publish(f"answer/{entry[2]}", (entry[1], zlib.crc32(entry[2].encode())))
        for number, topic, code in self.finished:
            self.results.append(f"{topic} {number}: {code:08x}, {len(self.notes)} are open")
            del self.commands[number]
        self.finished.clear()

    def tick(self, now):
        self.measure(now)
        self.alarm(now)
        self.look(now)
        self.operate(now)
        self.hub.pump()
        if now % self.settings.reload == 0:
            self.load_rules()
        if self.settings.collect and now % self.settings.collect == 0:
            gc.collect()


def main():
    run = beats.Run()
    room = ControlRoom(run)
    for now in run:
        room.tick(now)
    run.end(room.hub.delivered)


main()
