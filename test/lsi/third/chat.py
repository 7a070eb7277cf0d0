"""A chat server: people come and go, rooms have histories, and messages to somebody who is away wait.

Leaks: a - rooms that everybody has left stay in the table, with what was said; b - the messages to somebody who has
left for good go on waiting.
Lookalike: the profiles of people are loaded until late, and the digest is collected over a long time.
"""

import collections

import beats


class Room:
    def __init__(self, name, keep):
        self.name = name  # here room_part
        self.members = set()
        self.history = collections.deque(maxlen=keep)  # site history

    def say(self, author, text, now):
        self.history.append((author, text, now))  # site said


class Server:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.rate = dice.uniform(3, 7)
        self.opens = dice.uniform(0.1, 0.25)
        self.away = dice.uniform(0.1, 0.25)
        self.gone = dice.uniform(0.08, 0.2)
        self.people = dice.randint(60, 200)
        self.keep = dice.randint(5, 15)
        self.stay = dice.uniform(20, 60)
        self.lobby = [Room(f"lobby-{i}", 30) for i in range(dice.randint(3, 6))]
        self.rooms, self.closing = {}, collections.defaultdict(list)
        self.profiles = collections.OrderedDict()
        self.most_profiles = self.people if run.lookalike else self.people // 3
        self.waiting, self.back = {}, collections.defaultdict(list)
        self.digest, self.period = [], dice.randint(100, 200)
        self.sent = collections.deque(maxlen=dice.randint(100, 300))
        self.number = self.total = 0

    def known(self):
        """How many of the people have come by now; each that comes says something at once."""
        if not self.run.lookalike:
            return self.people
        return max(4, int(self.people * min(1.0, self.run.now / self.run.ticks / 0.65)))

    def profile(self, person):
        if person in self.profiles:
            self.profiles.move_to_end(person)
        else:
            colour = f"#{person * 7919 % 16777216:06x}"
            self.profiles[person] = {"name": f"person number {person}", "colour": colour, "said": 0}
            if len(self.profiles) > self.most_profiles:
                self.profiles.popitem(last=False)
        return self.profiles[person]

    def open(self, now):
        self.number += 1
        name = f"room {self.number} about {self.run.random.getrandbits(30)}"  # site room_name
        room = self.rooms[name] = Room(name, self.keep)  # site room
        for _ in range(self.run.random.randint(2, self.keep)):
            room.say(self.run.random.randrange(self.people), self.text(), now)  # site room_said
        self.closing[now + self.run.lifetime(self.stay)].append(name)

    def text(self):
        return "some words " * self.run.random.randint(1, 9)  # here words

    def message(self, now):
        dice = self.run.random
        author = dice.randrange(self.known())
        profile = self.profile(author)
        profile["said"] += 1
        text = self.text()
        dice.choice(self.lobby).say(profile["name"], text, now)
        self.sent.append(f"{now} {profile['name']}: {text}")
        self.total += len(text)
        if self.run.chance(self.away):
            self.wait(now)
        if self.run.lookalike:
            self.digest.append({"author": author, "text": text.upper()})

    def wait(self, now):
        self.number += 1  # here number
        letter = {"to": self.number, "text": self.text() + "(you were away)", "at": now}  # site letter
        if self.run.chance(self.gone) and self.run.leak("b"):
            self.waiting[self.number] = letter  # site waiting
            return
        self.waiting[self.number] = letter
        self.back[now + self.run.lifetime(self.stay)].append(self.number)

    def tick(self, now):
        if self.run.lookalike:  # who is new looks round
            self.profile(self.known() - 1)
        for _ in range(self.run.poisson(self.rate)):
            self.message(now)
        for _ in range(self.run.poisson(self.opens)):
            self.open(now)
        for number in self.back.pop(now, ()):
            self.total += len(self.waiting.pop(number)["text"])
        for name in self.closing.pop(now, ()):
            self.total += len(self.rooms[name].history)
            if not self.run.leak("a"):
                del self.rooms[name]
        if now % self.period == 0:
            self.total += len("".join(entry["text"] for entry in self.digest))
            self.digest = []


def main():
    run = beats.Run()
    server = Server(run)
    for now in run:
        server.tick(now)
    run.end(server.total)


main()
