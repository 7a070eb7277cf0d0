"""A service that renders messages from templates, with rows from a source that sometimes has a fault.

Leaks: a - templates that are compiled after the name of the receiver was put into them, so that no other message ever
finds them in the table; b - the exceptions of failures, kept for a report, with the frames and the rows in them.
Lookalike: the templates in all languages are compiled when first used, until late; the monthly statement is large.
"""

import collections
import re
import string

import beats

FIELD = re.compile(r"\{\{(\w+)\}\}")


class Template:
    def __init__(self, source):
        self.parts = []
        last = 0
        for match in FIELD.finditer(source):
            self.parts.append(source[last : match.start()])
            self.parts.append((match[1], len(self.parts)))
            last = match.end()
        self.parts.append(source[last:])

    def render(self, values):
        out = []
        for part in self.parts:
            out.append(part if isinstance(part, str) else str(values[part[0]]))
        return "".join(out)


class Engine:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.kinds = dice.randint(6, 12)
        self.languages = dice.randint(6, 14)
        self.compiled = {}
        self.personal = {}
        self.texts = {}
        self.footers = [f"footer {i}: " + string.ascii_letters * 2 for i in range(20)]

    def source(self, kind, language):
        key = (kind, language)
        if key not in self.texts:
            body = f"Line of a message of kind {kind} in {language} for {{{{order}}}}: {{{{amount}}}}\n"
            self.texts[key] = "Dear {{name}},\n" + body * (2 + kind % 5) + self.footers[language % 20]
        return self.texts[key]

    def template(self, kind, language):
        key = (kind, language)
        if key not in self.compiled:
            self.compiled[key] = Template(self.source(kind, language))
        return self.compiled[key]

    def greeting(self, kind, language, name):
        """Puts the name in before it compiles."""
        text = self.source(kind, language).replace("{{name}}", name)  # site personal_text
        if not self.run.leak("a"):
            return Template(text)
        if text not in self.personal:
            self.personal[text] = Template(text)  # site personal
        return self.personal[text]


class Source:
    def __init__(self, run, fault):
        self.run, self.fault = run, fault

    def rows(self, count):
        dice = self.run.random
        rows = []  # here rows
        for i in range(count):
            order = f"order-{dice.getrandbits(26):08d}"  # site row
            rows.append({"order": order, "amount": dice.uniform(1, 900), "line": i})  # site row
        return rows

    def check(self, rows):
        if self.run.chance(self.fault):
            raise ValueError(f"row {self.run.random.randrange(len(rows))} has no amount")  # site fault


class Mailer:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.rate = dice.uniform(1.5, 4)
        self.personal = dice.uniform(0.05, 0.15)
        self.engine = Engine(run)
        self.source = Source(run, dice.uniform(0.03, 0.09))
        self.sent = collections.deque(maxlen=dice.randint(50, 200))
        self.outbox = collections.defaultdict(list)
        self.delay = dice.uniform(4, 16)
        self.failures = collections.deque(maxlen=None if run.leak("b") else dice.randint(5, 20))
        self.statement, self.period = [], dice.randint(60, 120)
        self.total = 0

    def render(self, rows):
        run, dice = self.run, self.run.random
        languages = self.engine.languages
        if run.lookalike:
            languages = max(1, int(languages * min(1.0, run.now / run.ticks / 0.75)))
        kind, language = dice.randrange(self.engine.kinds), dice.randrange(languages)
        name = f"customer {dice.getrandbits(40)}"
        if run.chance(self.personal):
            template = self.engine.greeting(kind, language, name)
        else:
            template = self.engine.template(kind, language)
        return "\n".join(template.render({"name": name, **row}) for row in rows)  # here frame_text

    def message(self, now):
        rows = self.source.rows(self.run.random.randint(4, 12))
        try:
            self.source.check(rows)  # site check
        except ValueError as error:
            self.failures.append(self.failure(error, now))  # site failure
            return
        text = self.render(rows)
        self.outbox[now + self.run.lifetime(self.delay)].append({"text": text, "at": now, "try": 1})  # here frame_mail
        if self.run.lookalike:
            self.statement.extend((row["order"].upper(), row["amount"] * 2) for row in rows)

    def failure(self, error, now):
        return error if self.run.leak("b") else f"{now}: {error}"

    def tick(self, now):
        for _ in range(self.run.poisson(self.rate)):
            self.message(now)  # here frame
        for letter in self.outbox.pop(now, ()):
            head = f"Received: at {now} after {now - letter['at']}\n"  # here frame_head
            self.sent.append(head + letter["text"])
            self.total += len(letter["text"])
        if now % self.period == 0:
            self.total += len("".join(f"{order} {amount:.2f};" for order, amount in self.statement))
            self.statement = []


def main():
    run = beats.Run()
    mailer = Mailer(run)
    for now in run:
        mailer.tick(now)
    run.end(mailer.total)


main()
