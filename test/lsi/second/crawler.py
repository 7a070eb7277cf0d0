"""A crawler on asyncio: a frontier of addresses, tasks in flight, and bodies that come in chunks through generators.

Leaks: a - tasks that try again, which stay in the set of running ones, with their pages; b - the generators of bodies
that are given up in the middle: the list of open streams keeps them, with what they have buffered.
Lookalike: the frontier drifts to its limit, the cache of names fills late, and the archive is written in large batches.
"""

import asyncio
import collections

import beats


class Page:
    def __init__(self, address, links, text):
        self.address, self.links, self.text = address, links, text


class Crawler:
    def __init__(self, run):
        self.run, dice = run, run.random
        self.rate = dice.uniform(0.8, 2.0)
        self.again = dice.uniform(0.1, 0.25)
        self.give_up = dice.uniform(0.04, 0.12)
        self.hosts = dice.randint(150, 400)
        self.limit = dice.randint(300, 700)
        self.batch = dice.randint(30, 90)
        self.frontier = collections.deque()
        self.running = set()
        self.wakes = collections.defaultdict(list)
        self.names = collections.OrderedDict()
        self.names_limit = self.hosts // 3 if run.lookalike else dice.randint(30, 60)
        self.open_streams = []
        self.archive = []
        self.seen = collections.deque(maxlen=dice.randint(300, 800))
        self.now = self.total = 0

    async def pause(self, ticks):
        """Of the clock of the run, so that a seed makes the same run on a slow machine."""
        future = asyncio.get_running_loop().create_future()
        self.wakes[self.now + ticks].append(future)
        await future

    def resolve(self, host):
        if host in self.names:
            self.names.move_to_end(host)
            return self.names[host]
        addresses = [f"192.0.2.{self.run.random.randrange(256)}" for _ in range(4)]
        self.names[host] = {"host": f"host-{host}.example", "addresses": addresses, "at": self.now}
        if len(self.names) > self.names_limit:
            self.names.popitem(last=False)
        return self.names[host]

    def chunks(self, size):
        """The body, as it comes; holds what has come so far, since a block may begin in any of the chunks."""
        held = bytearray()  # here held_buffer
        while len(held) < size:
            held += bytes(self.run.random.randrange(400, 1600))  # site held
            yield len(held)

    async def read(self, size):
        stream = self.chunks(size)  # site stream
        self.open_streams.append(stream)
        received = 0
        leave = size * self.run.random.random() if self.run.chance(self.give_up) else size
        while received < leave:
            received = next(stream)
            await self.pause(1)
        if leave == size or not self.run.leak("b"):
            stream.close()
            self.open_streams.remove(stream)
        return received

    async def attempt(self, host):
        name = self.resolve(host)
        await self.pause(self.run.lifetime(3))
        if self.run.chance(self.again):
            raise ConnectionError("no answer of " + name["host"])
        return await self.read(int(min(30000, 3000 * self.run.random.paretovariate(1.2))))  # here length

    async def fetch(self, host, number):
        address = f"https://host-{host}.example/document/{number}"  # site address
        try:
            size = await self.attempt(host)
        except ConnectionError:
            await self.pause(2)
            return self.start(host, number, again=True)
        dice = self.run.random
        links = [(dice.randrange(self.known()), dice.getrandbits(40)) for _ in range(dice.randint(1, 6))]  # site links
        page = Page(address, links, "text " * (size // 100))  # site page
        self.take(page)
        return page

    def start(self, host, number, again=False):
        if again:
            task = asyncio.ensure_future(self.fetch(host, number))  # site task
            self.running.add(task)  # site running
            if not self.run.leak("a"):
                task.add_done_callback(self.running.discard)
            return None
        task = asyncio.ensure_future(self.fetch(host, number))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return None

    def take(self, page):
        self.seen.append(page.address)
        self.total += len(page.text)
        for link in page.links:
            if len(self.frontier) < self.limit:
                self.frontier.append({"host": link[0], "number": link[1], "found": self.now})
        if self.run.lookalike:
            self.archive.append({"address": page.address, "text": page.text.upper(), "links": list(page.links)})
            if len(self.archive) >= self.batch:
                self.total += len(self.archive)
                self.archive = []

    def known(self):
        """How many of the hosts have been found by now."""
        if not self.run.lookalike:
            return self.hosts
        return max(5, int(self.hosts * min(1.0, self.run.now / self.run.ticks / 0.75)))

    def tick(self, now):
        self.now = now
        for _ in range(self.run.poisson(self.rate)):
            if self.frontier:
                entry = self.frontier.popleft()
                self.start(entry["host"], entry["number"])
            else:
                self.start(self.run.random.randrange(self.known()), now)
        # In the lookalike way the frontier is kept near a level that rises slowly, and then stays.
        level = self.limit * (min(1.0, now / self.run.ticks / 0.7) if self.run.lookalike else 0.3)
        while len(self.frontier) > level:
            self.frontier.pop()
        for future in self.wakes.pop(now, ()):
            future.set_result(None)

    async def main(self):
        for now in self.run:
            self.tick(now)
            for _ in range(4):  # what is ready, and what becomes ready by it
                await asyncio.sleep(0)
        self.run.end(self.total)


def main():
    asyncio.run(Crawler(beats.Run()).main())


main()
