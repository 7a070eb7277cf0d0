"""Views that subscribe to events of a bus, and requests that wait for an event of their own.

Leaks: a - a view that is closed by a key does not unsubscribe; b - what waits for a request that is cancelled stays in
the bus. Lookalike: views with cycles, which wait for a collection of garbage, and a history of what was done that is
full only late.
"""

import collections
import gc

import beats


class Bus:
    def __init__(self):
        self.topics = collections.defaultdict(list)

    def subscribe(self, topic, callback):
        self.topics[topic].append(callback)  # site topic

    def unsubscribe(self, topic, callback):
        self.topics[topic].remove(callback)  # here topic_less

    def fire(self, topic, value):
        return sum(callback(value) for callback in list(self.topics.get(topic, ())))

    def fire_once(self, topic, value):
        return sum(callback(value) for callback in self.topics.pop(topic, ()))


class View:
    def __init__(self, run, stay):
        self.rows = [f"row {i} of a table that is shown" for i in range(run.random.randint(5, 25))]  # site view
        self.pixels = bytearray(run.random.randint(300, 3000))  # site view
        self.ends = run.now + run.lifetime(stay)
        self.topic = f"model{run.random.randrange(60)}"
        self.parts = []
        if run.lookalike:
            self.parts.append(self)

    def changed(self, value):
        return value + len(self.rows)


def main():
    run = beats.Run()
    arrivals = run.random.uniform(0.3, 1.0)
    stay = run.random.uniform(8, 30)
    keys = run.random.uniform(0.05, 0.25)
    cancels = run.random.uniform(0.02, 0.15)
    requests = run.random.uniform(1, 4)
    actions = run.random.uniform(0.8, 3)
    done = collections.deque(maxlen=int(0.7 * actions * run.ticks) if run.lookalike else 50)
    idle = run.random.randint(30, 90)  # ticks between two collections
    models = {f"model{i}": list(range(20)) for i in range(60)}
    bus = Bus()
    views, waiting = [], []
    total = number = 0
    for now in run:
        for _ in range(run.poisson(arrivals)):
            view = View(run, stay)  # site view
            bus.subscribe(view.topic, view.changed)  # site subscription
            views.append(view)
            del view
        total += bus.fire(f"model{run.random.randrange(60)}", now)
        for view in [view for view in views if view.ends <= now]:
            by_key = run.chance(keys)
            if not (by_key and run.leak("a")):
                bus.unsubscribe(view.topic, view.changed)
        views = [view for view in views if view.ends > now]
        view = None
        if now % idle == 0:
            gc.collect()
        for _ in range(run.poisson(requests)):
            number += 1
            answer = bytearray(run.random.randint(100, 1000))  # site answer
            topic = f"done {number}"  # site answer_name
            bus.subscribe(topic, lambda value, answer=answer: value + len(answer))  # site waiter
            waiting.append((now + run.lifetime(6), topic))
            del answer
        for _, topic in [wait for wait in waiting if wait[0] <= now]:
            if run.chance(cancels):
                if not run.leak("b"):
                    bus.topics.pop(topic)
            else:
                total += bus.fire_once(topic, now)
        waiting = [wait for wait in waiting if wait[0] > now]
        for _ in range(run.poisson(actions)):
            done.append(("edit", now, "x" * run.random.randint(10, 100)))
    run.end(total + len(models) + len(done))


if __name__ == "__main__":
    main()
