"""The questions of `msmemscope dump`, answered the straightforward way: csv.DictReader's rows and dictionaries.

    peer.py QUESTION FILE

It is the peer that bench/offline/run.sh measures against: correct on a dump in time order, written for clarity, with no
trick that an engineer would not use in a script of an afternoon.
"""

import csv
import json
import sys
from collections import Counter, defaultdict

csv.field_size_limit(1 << 30)


def rows(path):
    with open(path, newline="", encoding="utf-8", errors="replace") as f:
        yield from csv.DictReader(f)


def attrs(row):
    """The Attr cell as a dictionary; values may hold commas, keys have none."""
    text = row["Attr"].strip("{}")
    out = {}
    key = None
    for part in text.split(","):
        name, colon, value = part.partition(":")
        if colon:
            key = name
            out[key] = value
        elif key:
            out[key] += "," + part
    return out


def account(row):
    return row["Process Id"], row["Device Id"], row["Event Type"]


def blocks(path, until=None):
    """Follows the live blocks: (row, attributes, what was freed or None) for each MALLOC and FREE."""
    live = {}
    for row in rows(path):
        if until is not None and int(row["Timestamp(ns)"]) > until:
            break
        if row["Event"] not in ("MALLOC", "FREE"):
            continue
        a = attrs(row)
        key = account(row) + (row["Ptr"],)
        gone = None
        if row["Event"] == "MALLOC":
            live[key] = (int(a["size"]), int(row["Timestamp(ns)"]), a.get("owner", ""), row["Call Stack(Python)"])
        else:
            gone = live.pop(key, None)
        yield row, a, gone, live


def stats(path):
    events, devices, pids, threads = Counter(), Counter(), Counter(), set()
    first = last = None
    shadow = stacks = 0
    for row in rows(path):
        at = int(row["Timestamp(ns)"])
        first = at if first is None else min(first, at)
        last = at if last is None else max(last, at)
        events[row["Event"], row["Event Type"]] += 1
        devices[row["Device Id"]] += 1
        pids[row["Process Id"]] += 1
        threads.add(row["Thread Id"])
        shadow += "shadow:true" in row["Attr"]
        stacks += bool(row["Call Stack(Python)"])
    return {
        "rows": sum(events.values()),
        "first": first,
        "last": last,
        "shadow": shadow,
        "stacks": stacks,
        "events": {"/".join(k): v for k, v in events.items()},
        "devices": devices,
        "threads": len(threads),
    }


def check(path):
    n, ordered, prev, pairs = 0, True, 0, Counter()
    for row in rows(path):
        n += 1
        at = int(row["Timestamp(ns)"])
        ordered, prev = ordered and at >= prev, at
        if row["Event"] in ("MALLOC", "FREE"):
            pairs[row["Process Id"], attrs(row)["allocation_id"]] += 1 if row["Event"] == "MALLOC" else -1
    return {"rows": n, "sorted": ordered, "unpaired": sum(v != 0 for v in pairs.values())}


def peak(path):
    best = {}
    for row in rows(path):
        if row["Event"] in ("MALLOC", "FREE"):
            used = attrs(row).get("used")
            if used is not None and int(used) > best.get(account(row), (-1,))[0]:
                best[account(row)] = int(used), int(row["Timestamp(ns)"])
    return {"/".join(k): v for k, v in best.items()}


def curve(path, bins=100):
    points = defaultdict(list)
    for row in rows(path):
        if row["Event"] in ("MALLOC", "FREE"):
            used = attrs(row).get("used")
            if used is not None:
                points[account(row)].append((int(row["Timestamp(ns)"]), int(used)))
    out = {}
    for key, line in points.items():
        first, last = line[0][0], line[-1][0]
        width = (last - first) // bins + 1
        best = [0] * bins
        for at, used in line:
            i = (at - first) // width
            best[i] = max(best[i], used)
        out["/".join(key)] = best
    return out


def at(path, moment):
    live = {}
    for _, _, _, live in blocks(path, int(moment)):  # noqa: B007 - wanted behind the loop
        pass
    held = Counter()
    for key, (size, _, owner, _) in live.items():
        held[key[:3] + (owner,)] += size
    return {"/".join(k): v for k, v in held.items()}


def window(path, start, end):
    came, went = Counter(), Counter()
    for row, a, gone, _ in blocks(path, int(end)):
        if int(row["Timestamp(ns)"]) >= int(start):
            if row["Event"] == "MALLOC":
                came[account(row) + (a.get("owner", ""),)] += int(a["size"])
            elif gone:
                went[account(row) + (gone[2],)] += gone[0]
    return {"/".join(k): (came[k], went[k]) for k in came | went}


def group(path, by=2):
    live, top = Counter(), Counter()
    for row, a, gone, blocks_live in blocks(path):
        if row["Event"] == "MALLOC":
            key = account(row) + (blocks_live[account(row) + (row["Ptr"],)][by],)
            live[key] += int(a["size"])
            top[key] = max(top[key], live[key])
        elif gone:
            live[account(row) + (gone[by],)] -= gone[0]
    return {"/".join(k): v for k, v in top.items()}


def leak_candidates(path):
    found = Counter()
    live = {}
    for row, a, gone, live in blocks(path):  # noqa: B007 - wanted behind the loop
        if gone and a.get("shadow") == "true":
            found[account(row) + (gone[2],)] += gone[0]
    for key, block in live.items():
        found[key[:3] + (block[2],)] += block[0]
    return {"/".join(k): v for k, v in found.items()}


def trend(path):
    return {k: [v[i * len(v) // 20] for i in range(20)] for k, v in curve(path).items()}


def oom(path):
    return [
        dict(attrs(r), type=r["Event Type"], at=r["Timestamp(ns)"]) for r in rows(path) if r["Event"] == "OOM_DETAIL"
    ]


def fragmentation(path):
    worst, grown, last = {}, defaultdict(list), {}
    for row in rows(path):
        if row["Event"] in ("MALLOC", "FREE"):
            a = attrs(row)
            if "total" in a and "used" in a:
                key, total = account(row), int(a["total"])
                worst[key] = max(worst.get(key, 0), 1 - int(a["used"]) / total)
                if total > last.get(key, total):
                    grown[key].append((row["Timestamp(ns)"], last[key], total))
                last[key] = total
    return {"/".join(k): (v, len(grown[k])) for k, v in worst.items()}


def hal_segments(path):
    found = []
    for row in rows(path):
        if row["Event"] == "MALLOC" and row["Event Type"] == "HAL":
            a = attrs(row)
            if int(a["size"]) >= 100 << 20:
                found.append((int(a["size"]), row["Ptr"], a.get("owner"), a.get("page_type"), a.get("alloc_type")))
    return sorted(found, reverse=True)


def kernels(path):
    net, sums = Counter(), Counter()
    for row in rows(path):
        if row["Event"] in ("MALLOC", "FREE") and row["Event Type"] == "PTA":
            a = attrs(row)
            if a.get("shadow") != "true":
                net[row["Device Id"]] += int(a["size"]) if row["Event"] == "MALLOC" else -int(a["size"])
        elif row["Event Type"] == "KERNEL_LAUNCH":
            sums[row["Device Id"], row["Name"]] += net[row["Device Id"]]
            net[row["Device Id"]] = 0
    return {"/".join(k): v for k, v in sums.most_common(20)}


QUESTIONS = {
    "stats": stats,
    "check": check,
    "peak": peak,
    "curve": curve,
    "at": at,
    "window": window,
    "group": group,
    "group-stack": lambda path: group(path, 3),
    "leak-candidates": leak_candidates,
    "trend": trend,
    "oom": oom,
    "fragmentation": fragmentation,
    "hal-segments": hal_segments,
    "kernels": kernels,
}

if __name__ == "__main__":
    json.dump(QUESTIONS[sys.argv[1]](sys.argv[2], *sys.argv[3:]), sys.stdout, default=str)
