"""A web server of a magazine: pages are rendered from articles and kept by request, with what they depend on.

Leak a: a page that is dropped leaves the index of the tag for which it was dropped, or of its article, but not those of
its other tags. Nobody ever invalidates an author.
Leak b: the statistics are by URL as it came, with the token of a campaign in it, and not by route.
"""

import collections
import hashlib
import heapq
import re
import zlib
from array import array

import beats

WORDS = [
    "harbour",
    "copper",
    "winter",
    "ledger",
    "signal",
    "orchard",
    "granite",
    "theatre",
    "voltage",
    "meadow",
    "parcel",
    "lantern",
    "census",
    "bridge",
    "archive",
    "saddle",
    "engine",
    "coral",
]
LOCALES = ["en", "de", "pt-BR", "ja", "nl"]
KINDS = ["article", "print", "amp"]
FIXED_HEADERS = {
    "Cache-Control": "public, max-age=60",
    "Content-Type": "text/html; charset=utf-8",
    "Server": "magazine",
    "Vary": "Accept-Language, Accept-Encoding",
    "X-Frame-Options": "DENY",
}
STATUS = {200: "OK", 304: "Not Modified", 404: "Not Found"}
TEMPLATES = {
    "article": "<!doctype html><title>{{title}}</title>{{header}}<h1>{{title}}</h1>{{body}}{{comments}}{{related}}",
    "print": "<!doctype html><title>{{title}}</title><main>{{body}}</main><footer>{{author}}</footer>",
    "amp": "<!doctype html><html amp><title>{{title}}</title>{{header}}{{body}}{{related}}",
    "front": "<!doctype html><title>{{section}}</title>{{header}}<ol>{{related}}</ol>",
}


class Settings:
    """What differs between the variants."""

    def __init__(self, run):
        dice, late = run.random, run.lookalike
        self.articles = dice.randint(60, 150)
        self.authors = [f"{dice.choice(WORDS)}-{n}" for n in range(dice.randint(5, 12))]
        self.sections = dice.sample(WORDS, dice.randint(4, 8))
        self.locales = LOCALES[: dice.randint(2, len(LOCALES))]
        self.requests = dice.uniform(1.2, 2.6)  # per tick
        self.edits = dice.uniform(0.08, 0.14)
        self.fronts = dice.uniform(0.01, 0.03)
        self.campaign = dice.uniform(0.25, 0.5)
        self.render = dice.uniform(1.5, 4)
        fill = dice.uniform(0.35, 0.5) if late else dice.uniform(0.05, 0.15)
        self.crawl = dice.uniform(0.3, 0.8)  # pages per tick that the crawler asks for
        self.pages = int(run.ticks * fill * self.crawl) + 20
        self.ttl = int(run.ticks * (dice.uniform(0.4, 0.5) if late else dice.uniform(0.1, 0.25)))
        self.session = dice.uniform(90, 160) if late else dice.uniform(20, 60)
        self.arrivals = dice.uniform(0.15, 0.4)
        self.flush = dice.randint(80, 160) if late else dice.randint(4, 12)
        self.referrers = dice.randint(150, 250) if late else dice.randint(30, 60)
        self.window = dice.randint(300, 600) if late else dice.randint(50, 120)
        self.desk = dice.randint(12, 22)  # articles that are worked on; the others are an archive
        self.comments = dice.randint(4, 7)  # that are kept
        full = run.ticks * (dice.uniform(0.4, 0.55) if late else dice.uniform(0.2, 0.3))
        self.commenting = self.desk * self.comments / full


class Article:
    def __init__(self, number, settings, dice):
        self.number, self.revision = number, 0
        self.title = " ".join(dice.sample(WORDS, 4)).title()
        self.author = dice.choice(settings.authors)
        self.section = dice.choice(settings.sections)
        self.comments = collections.deque(maxlen=settings.comments)
        self.paragraphs = []
        self.write(dice)

    def write(self, dice):
        self.revision += 1
        self.paragraphs = [" ".join(dice.choices(WORDS, k=dice.randint(20, 50))) for _ in range(dice.randint(3, 9))]
        self.etag = hashlib.sha1(f"{self.number}/{self.revision}".encode()).hexdigest()


class Template:
    """Text and names, alternately."""

    def __init__(self, source):
        self.parts = re.split(r"\{\{(\w+)\}\}", source)

    def render(self, values):
        out = []
        for position, part in enumerate(self.parts):
            out.append(values.get(part, "") if position % 2 else part)
        return "".join(out)


class Request:
    __slots__ = ("url", "key", "session", "referrer", "seen", "arrived")

    def __init__(self, url, key, session, referrer, arrived):
        self.url, self.key, self.session, self.referrer, self.arrived = url, key, session, referrer, arrived
        self.seen = session.etags.get(key) if session else None


class Session:
    def __init__(self, number, dice, locale):
        self.name = hashlib.md5(f"session {number} {dice.random()}".encode()).hexdigest()
        self.locale = locale
        self.viewed = collections.deque(maxlen=8)
        self.etags = {}
        self.settings = {"theme": dice.choice(["dark", "light"]), "csrf": dice.randbytes(24)}

    def remember(self, key, etag):
        self.viewed.append(key)
        self.etags[key] = etag
        if len(self.etags) > 10:
            del self.etags[next(iter(self.etags))]


class Page:
    """A rendered page as it is kept."""

    def __init__(self, key, body, etag, tags, until):
        self.key, self.body, self.etag, self.until = key, body, etag, until
        self.tags = tags
        self.hits = 0
        length = str(len(body))  # site headers
        quoted = f'"{etag[:16]}"'  # site headers
        self.headers = {**FIXED_HEADERS, "ETag": quoted, "Content-Length": length}  # site headers


class PageCache:
    """Pages by request, the least recently used ones first, and an index by tag for invalidation."""

    def __init__(self, settings, leaky):
        self.limit, self.ttl, self.leaky = settings.pages, settings.ttl, leaky
        self.pages = collections.OrderedDict()
        self.index = {}
        self.expiry = collections.deque()
        self.counts = array("Q", [0] * 6)  # hit, miss, stale, evicted, invalidated, stored

    def get(self, key):
        page = self.pages.get(key)
        self.counts[page is None] += 1
        if page:
            self.pages.move_to_end(key)
            page.hits = min(page.hits + 1, 200)
        return page

    def put(self, page):
        old = self.pages.get(page.key)
        if old:
            self.drop(old)
        self.pages[page.key] = page
        for tag in page.tags:
            self.index.setdefault(tag, set()).add(page)  # site index
        self.expiry.append((page.until, page.key))
        self.counts[5] += 1
        while len(self.pages) > self.limit:
            self.drop(next(iter(self.pages.values())))
            self.counts[3] += 1

    def drop(self, page):
        if self.pages.get(page.key) is page:
            del self.pages[page.key]
        for tag in page.tags[:1] if self.leaky else page.tags:
            pages = self.index.get(tag)
            if pages:
                pages.discard(page)
                if not pages:
                    del self.index[tag]

    def invalidate(self, tag):
        for page in self.index.pop(tag, ()):
            self.drop(page)
            self.counts[4] += 1

    def expire(self, now):
        while self.expiry and self.expiry[0][0] <= now:
            until, key = self.expiry.popleft()
            page = self.pages.get(key)
            if page and page.until <= until:
                self.drop(page)
                self.counts[2] += 1


class RouteStatistics:
    def __init__(self, label):
        self.label = label
        self.counts = array("Q", [0] * len(STATUS))  # site route_counts
        self.latency = array("Q", [0] * 8)  # site route_counts

    def add(self, status, ticks):
        self.counts[list(STATUS).index(status)] += 1
        self.latency[min(ticks, 7)] += 1


class Statistics:
    def __init__(self, settings, leaky):
        self.leaky, self.limit = leaky, settings.referrers
        self.routes = {}
        self.referrers = {}
        self.recent = collections.deque(maxlen=settings.window)
        self.slowest = []
        self.log = []
        self.written = 0

    def add(self, request, status, size, now):
        label = request.url if self.leaky else f"{request.key[0]} {request.key[2]} {status}"
        route = self.routes.get(label)
        if route is None:
            route = self.routes[label] = RouteStatistics(label)  # here route
        took = now - request.arrived
        route.add(status, took)
        self.recent.append((request.key[1], status, took, size))
        self.note_referrer(request.referrer)
        heapq.heappush(self.slowest, (took, now, request.key[1], request.key[2]))
        if len(self.slowest) > 40:
            heapq.heappop(self.slowest)
        self.log.append(f"{now} {request.key[0]}/{request.key[1]} {status} {STATUS[status]} {size} {request.referrer}")

    def note_referrer(self, referrer):
        """The frequent ones, by the algorithm "space saving"."""
        if referrer in self.referrers:
            self.referrers[referrer] += 1
        elif len(self.referrers) < self.limit:
            self.referrers[referrer] = 1
        else:
            least = min(self.referrers, key=self.referrers.get)
            self.referrers[referrer] = min(self.referrers.pop(least) + 1, 250)

    def flush(self):
        self.written += zlib.crc32("\n".join(self.log).encode())
        self.log.clear()


class Job:
    """A page that is being rendered, and who waits for it."""

    def __init__(self, key, ready):
        self.key, self.ready = key, ready
        self.waiting = []


class Magazine:
    def __init__(self, run):
        self.run, self.settings = run, Settings(run)
        dice = run.random
        self.articles = {n: Article(n, self.settings, dice) for n in range(self.settings.articles)}
        self.by_section = collections.defaultdict(list)
        for article in self.articles.values():
            self.by_section[article.section].append(article)
        self.desk = collections.deque(self.articles[n] for n in range(self.settings.desk))
        self.talked_of = collections.deque(self.desk)
        self.templates, self.fragments = {}, {}
        self.pages = PageCache(self.settings, run.leak("a"))
        self.statistics = Statistics(self.settings, run.leak("b"))
        self.sessions, self.ends, self.jobs = {}, [], {}
        self.crawled, self.number, self.sent = 0, 0, 0

    def template(self, name):
        if name not in self.templates:
            self.templates[name] = Template(TEMPLATES[name])
        return self.templates[name]

    def fragment(self, name, section, locale):
        key = name, section, locale
        text = self.fragments.get(key)
        if text is None:
            if name == "header":
                links = [f'<a href="/{locale}/{other}">{other.title()}</a>' for other in self.settings.sections]
                text = f"<header><b>{section}</b><nav>{''.join(links)}</nav></header>"
            else:
                best = heapq.nlargest(6, self.by_section[section], key=lambda article: article.revision)
                text = "".join(f'<li><a href="/{locale}/{a.number}">{a.title}</a></li>' for a in best)
            self.fragments[key] = text
        return text

    def render(self, key, now):
        kind, number, locale, encoding = key
        article = self.articles[number]
        values = {
            "title": article.title,
            "author": article.author,
            "section": article.section,
            "header": self.fragment("header", article.section, locale),
            "related": self.fragment("related", article.section, locale),
            "body": "".join([f"<p lang={locale}>{text}</p>" for text in article.paragraphs]),
            "comments": "".join([f"<blockquote>{who}: {text}</blockquote>" for who, text in article.comments]),
        }
        body = self.template(kind).render(values).encode()  # here body
        if encoding == "deflate":
            body = zlib.compress(body, 1)  # here body
        etag = hashlib.sha1(body).hexdigest()  # site etag
        tags = [f"article:{number}", f"section:{article.section}", f"author:{article.author}"]  # site tags
        return Page(key, body, etag, tags, now + self.settings.ttl)  # here page

    def request(self, kind, number, locale, encoding, session, now):
        dice = self.run.random
        url = f"/{locale}/{kind}/{number}"  # site url
        if self.run.chance(self.settings.campaign):
            url = f"{url}?utm_source=mail&utm_id={dice.getrandbits(64):016x}"  # site url
        referrer = f"https://{dice.choice(WORDS)}-{dice.choice(WORDS)}.example" if self.run.chance(0.5) else "-"
        key = (kind, number, locale, encoding)  # site key
        request = Request(url, key, session, referrer, now)
        page = self.pages.get(key)
        if page:
            self.answer(request, page, now)
            return
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key, now + self.run.lifetime(self.settings.render))
        job.waiting.append(request)

    def answer(self, request, page, now):
        if request.seen == page.etag:
            status, size = 304, 0
        else:
            status, size = 200, len(page.body)
        self.sent = (self.sent + size) % 1000003
        if request.session:
            request.session.remember(request.key, page.etag)
        self.statistics.add(request, status, size, now)

    def finish_jobs(self, now):
        for job in [job for job in self.jobs.values() if job.ready <= now]:
            del self.jobs[job.key]
            page = self.render(job.key, now)
            self.pages.put(page)
            for request in job.waiting:
                self.answer(request, page, now)

    def visitors(self, now):
        run, settings = self.run, self.settings
        for _ in range(run.poisson(settings.arrivals)):
            session = Session(self.number, run.random, run.random.choice(settings.locales))
            self.number += 1
            self.sessions[session.name] = session
            heapq.heappush(self.ends, (now + run.lifetime(settings.session), session.name))
        while self.ends and self.ends[0][0] <= now:
            del self.sessions[heapq.heappop(self.ends)[1]]
        online = list(self.sessions.values())
        for _ in range(run.poisson(settings.requests)):
            session = run.random.choice(online) if online and run.chance(0.8) else None
            locale = session.locale if session else settings.locales[0]
            kind = KINDS[run.skewed(len(KINDS))]
            encoding = "deflate" if run.chance(0.6) else "identity"
            self.request(kind, run.skewed(settings.articles), locale, encoding, session, now)

    def crawler(self, now):
        """Goes through everything, again and again."""
        if not self.run.chance(self.settings.crawl):
            return
        rest, number = divmod(self.crawled, self.settings.articles)
        rest, locale = divmod(rest, len(self.settings.locales))
        kind = KINDS[rest % len(KINDS)]
        self.crawled += 1
        self.request(kind, number, self.settings.locales[locale], "identity", None, now)

    def take_turn(self, articles):
        """One of those that have waited long."""
        position = self.run.random.randrange(len(articles) // 4)
        article = articles[position]
        del articles[position]
        articles.append(article)
        return article

    def editors(self):
        run, settings = self.run, self.settings
        for _ in range(run.poisson(settings.edits)):
            article = self.take_turn(self.desk)
            article.write(run.random)
            self.pages.invalidate(f"article:{article.number}")
        for _ in range(run.poisson(settings.commenting)):
            article = self.take_turn(self.talked_of)
            who = run.random.choice(WORDS).title()
            article.comments.append((who, " ".join(run.random.choices(WORDS, k=run.random.randint(5, 30)))))
            self.pages.invalidate(f"article:{article.number}")
        if run.chance(settings.fronts):
            section = run.random.choice(settings.sections)
            for key in [key for key in self.fragments if key[1] == section]:
                del self.fragments[key]
            self.pages.invalidate(f"section:{section}")

    def tick(self, now):
        self.editors()
        self.visitors(now)
        self.crawler(now)
        self.finish_jobs(now)
        self.pages.expire(now)
        if now % self.settings.flush == 0:
            self.statistics.flush()


def main():
    run = beats.Run()
    magazine = Magazine(run)
    for now in run:
        magazine.tick(now)
    run.end(magazine.sent + sum(magazine.pages.counts))


main()
