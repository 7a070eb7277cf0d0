"""An engine of workflows: each is a list of steps that wait for one another, with results that are kept for a time.

Leaks: a - what is to be called when a workflow is done is taken off the list when it ends, but not when it is
cancelled; b - the results of a function with a memory without bounds, of which the arguments have a moment in them.
Lookalike: the rules of customers are read until late, and the journal is written in large parts.
"""

import collections
import functools

import beats


class Step:
    __slots__ = ("name", "inputs", "state", "ends")

    def __init__(self, name, inputs, ends):
        self.name, self.inputs, self.state, self.ends = name, inputs, "ready", ends


class Workflow:
    def __init__(self, number, steps):
        self.number, self.steps, self.log = number, steps, []


class Engine:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.starts = dice.uniform(0.4, 1.0)
        self.cancel = dice.uniform(0.1, 0.25)
        self.prices = dice.uniform(0.15, 0.4)
        self.customers = dice.randint(40, 150)
        self.length = dice.uniform(6, 20)
        self.rules = {}
        self.done_calls = {}
        self.running = collections.defaultdict(list)
        self.results = collections.OrderedDict()
        self.most_results = dice.randint(60, 150)
        self.journal, self.period = [], dice.randint(120, 240)
        self.events = collections.deque(maxlen=dice.randint(100, 300))
        self.number = self.total = 0
        most = dice.randint(30, 90)
        self.price = functools.lru_cache(maxsize=None if run.leak("b") else most)(self.compute)

    def compute(self, customer, moment):
        return {"customer": customer, "total": moment * 1.19, "text": f"price as of {moment:.3f}"}  # site price

    def rule(self, customer):
        if customer not in self.rules:
            self.rules[customer] = [f"rule {i} of customer {customer}: allow" for i in range(2 + customer % 4)]
        return self.rules[customer]

    def known(self):
        if not self.run.lookalike:
            return self.customers
        return max(3, int(self.customers * min(1.0, self.run.now / self.run.ticks / 0.7)))

    def start(self, now):
        dice = self.run.random
        self.number += 1  # here number
        number = self.number
        self.total += len(self.rule(dice.randrange(self.known())))
        steps, ends = [], now  # here steps
        for i in range(dice.randint(2, 6)):
            ends += self.run.lifetime(self.length)  # here ends
            steps.append(Step(f"step {i} of workflow {number}", [step.name for step in steps], ends))  # site step
        workflow = Workflow(number, steps)  # site workflow
        self.watch(workflow, steps[-1])  # here watch
        for step in steps:
            self.running[step.ends].append((workflow, step))

    def watch(self, workflow, step):  # here watch
        notes = [f"watching {step.name}"]  # site notes

        def done(state):  # site call
            notes.append(state)
            workflow.log.append(f"{step.name} is {state}")

        self.done_calls[step.name] = done  # site calls

    def finish(self, workflow, step, now):
        if step is not workflow.steps[-1]:
            step.state = "done"
            return
        cancelled = self.run.chance(self.cancel)
        step.state = "cancelled" if cancelled else "done"
        if cancelled and self.run.leak("a"):
            return
        self.done_calls.pop(step.name)(step.state)
        self.results[workflow.number] = {"log": workflow.log, "at": now}
        if len(self.results) > self.most_results:
            self.results.popitem(last=False)
        self.events.append(f"workflow {workflow.number} is {step.state} at {now}")

    def tick(self, now):
        for _ in range(self.run.poisson(self.starts)):
            self.start(now)
        for workflow, step in self.running.pop(now, ()):
            self.finish(workflow, step, now)
        for _ in range(self.run.poisson(self.prices)):
            price = self.price(self.run.random.randrange(self.customers), now + self.run.random.random())  # site memo
            self.total += len(price["text"])
        if self.run.lookalike:
            self.rule(self.known() - 1)
            self.journal.append(f"at {now}: {self.number} workflows, {len(self.rules)} customers")
        if now % self.period == 0:
            self.total += len("\n".join(self.journal))
            self.journal = []


def main():
    run = beats.Run()
    engine = Engine(run)
    for now in run:
        engine.tick(now)
    run.end(engine.total)


main()
