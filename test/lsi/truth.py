#!/usr/bin/env python3
"""Whether the labels of a folder are true: what leaks, and what is level without a leak, by the programs' own account.

`test/lsi/truth.py [--folder FOLDER] [NAME...]`. Nothing of the tool under test has a part in it: programs in Python run
under tracemalloc, those in C++ with account.hpp compiled in, both with a clock that is many times faster. README.md
here has the rule. Says what a label lacks or has in excess, and what grows to the end though nothing leaks; status 1
then.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile

import evaluate

MOMENTS = 12  # of a run, at which the account is read, from half time on; account.hpp has the same
PAST = MOMENTS * 3 // 2  # up to which a run goes on
BEAT_MS = 8
DEPTH = 6  # Python frames
LEAST = (8, 16384)  # blocks, or bytes, that are lost at the end, at least


def account_python(end, script, words):
    """Runs a program in this process, and writes its account to the standard error as account.hpp does, but with
    FILE:LINE for addresses."""
    import tracemalloc

    import beats

    lines = []

    def take(moment):
        places = collections.defaultdict(lambda: [0, 0])
        for trace in tracemalloc.take_snapshot().traces._traces:  # its statistics() take ten times as long
            places[trace[2]][0] += 1
            places[trace[2]][1] += trace[1]
        for frames, (blocks, size) in places.items():
            text = " ".join(f"{os.path.basename(file)}:{line}" for file, line in frames)
            if not text.startswith(("truth.py:", "tracemalloc.py:")):
                lines.append(f"{moment} {blocks} {size} {text}\n")

    original, last = beats.Run.__iter__, beats.Run.end

    def iterate(run):
        run.end_tick = run.ticks * end // MOMENTS
        for now in original(run):
            moment = (now - 1) * MOMENTS // run.ticks
            if moment >= MOMENTS // 2 and moment != (now - 2) * MOMENTS // run.ticks:
                take(moment)
            yield now
        take(end)

    def finish(run, total):
        sys.stderr.writelines(lines)
        sys.stderr.flush()
        last(run, total)

    beats.Run.__iter__, beats.Run.end = iterate, finish
    sys.argv = [script, *words]
    tracemalloc.start(DEPTH)
    runpy.run_path(script, run_name="__main__")


def build(folder, name, into):
    source, binary = os.path.join(folder, name + ".cpp"), os.path.join(into, name)
    with open(source, encoding="utf-8") as file:
        libraries = re.findall(r"^// link (\S+)", file.read(), re.MULTILINE)
    compiler = os.environ.get("CXX", "g++")
    options = ["-std=c++17", "-O2", "-g", "-no-pie", "-pthread", "-DLSI_ACCOUNT", "-I", evaluate.HERE]
    subprocess.run([compiler, *options, "-o", binary, source, *libraries], check=True)
    return binary


class Program:
    """A program, and how its account is read."""

    def __init__(self, folder, name, into):
        self.folder, self.name = folder, name
        self.script = os.path.join(folder, name + ".py")
        self.binary = None if os.path.exists(self.script) else build(folder, name, into)
        self.names = evaluate.marks(folder, name)
        self.lines = {}  # of an address

    def account(self, beats, seed, leaks, base):
        """By moment, the blocks and bytes of each place: the lines of the program that led to them, innermost first."""
        words = [str(beats), str(BEAT_MS), str(seed), leaks or "-", base]
        if self.binary:
            words = [self.binary, *words]
        else:
            words = [sys.executable, __file__, "--account", str(MOMENTS if leaks else PAST), self.script, *words]
        environment = dict(os.environ, PYTHONPATH=evaluate.HERE)
        run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900, check=True)
        rows = [line.split() for line in run.stderr.splitlines()]
        self.resolve({frame for row in rows for frame in row[3:]})
        account = [collections.defaultdict(lambda: [0, 0]) for _ in range(PAST + 1)]
        for row in rows:
            entry = account[int(row[0])][self.place(row[3:])]
            entry[0] += int(row[1])
            entry[1] += int(row[2])
        return account

    def resolve(self, frames):
        new = sorted(frame for frame in frames if frame not in self.lines)
        if not self.binary:
            self.lines |= {frame: [tuple(frame.rsplit(":", 1))] for frame in new}
        elif new:
            text = "".join(f"{int(frame, 16) - 1:#x}\n" for frame in new)
            command = ["addr2line", "-a", "-i", "-e", self.binary]
            out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
            for frame, part in zip(new, re.split(r"^0x[0-9a-f]+\n", out, flags=re.MULTILINE)[1:]):
                self.lines[frame] = re.findall(r"([^/\n]+):(\d+)", part)

    def place(self, frames):
        own = [line for frame in frames for line in self.lines[frame] if line[0].split(".")[0] in (self.name, "beats")]
        return tuple((file, int(number)) for file, number in own) or (("elsewhere", 0),)

    def marked(self, place):
        return evaluate.names_of(place, self.name, self.names)


def held(account, place, what):
    """What a place holds, by moment: blocks (0), or bytes (1)."""
    return [moment[place][what] if place in moment else 0 for moment in account]


def excess(leaky, clean, place, what):
    """How much more a place holds with a leak than without, at half time and at the end, and does not give back."""
    more = [a - b for a, b in zip(held(leaky, place, what), held(clean, place, what))][MOMENTS // 2 : MOMENTS + 1]
    return max(min(more), 0), more[-1]


def swing(values):
    """The greatest fall from an earlier value to a later one: how much of a place comes and goes."""
    most, fall = 0, 0
    for value in values[MOMENTS // 2 :]:
        most = max(most, value)
        fall = max(fall, most - value)
    return fall


def leaks_at(leaky, clean, place):
    """Whether the excess is that of a leak: at least LEAST, more than what comes and goes without it, and the last half
    of the time has a fair part in it. It counts by blocks, or by bytes for what is copied as it grows."""
    for what, least in enumerate(LEAST):
        half, end = excess(leaky, clean, place, what)
        early = half >= end / 8 or what == 0  # a table that has grown once is not what leaks
        if end >= max(least, swing(held(clean, place, what))) and end - half >= end / 4 and early:
            return True
    return False


def show(place):
    return " < ".join(f"{file}:{line}" for file, line in place[:4])


def check_leak(program, letter, label, accounts):
    """Whether the label of one leak is right. A place counts when it leaks with most of the seeds and bases."""
    found, last, seen = collections.Counter(), {}, set()
    for clean, leaky in accounts:
        for place in leaky[MOMENTS]:
            size = excess(leaky, clean, place, 1)
            if size[1] > size[0]:
                seen |= program.marked(place)
            if leaks_at(leaky, clean, place):
                found[place] += 1
                last[place] = excess(leaky, clean, place, 0), size
    names = set(label["leaks"]) | set(label["part_of_it"])
    for place in sorted(found, key=lambda p: -last[p][1][1]):
        if 2 * found[place] > len(accounts):
            marked = program.marked(place) & names
            (_, blocks), (half, size) = last[place]
            note = ",".join(sorted(marked)) or "NOT LABELLED"
            text = f"leak {letter}: {blocks} blocks, {size} bytes ({half} at half time): {note}: {show(place)}"
            yield not marked, text
    for name in sorted(names - seen):
        yield True, f"leak {letter}: {name} is labelled, but nothing of it is lost"


def check_clean(case, account):
    """What is not level without a leak: places that have more all through the time beyond the end than ever in the last
    quarter before it."""
    total = [sum(entry[1] for entry in moment.values()) // 1024 for moment in account]
    yield False, f"{case}: KiB from half time on, and beyond the end: {' '.join(map(str, total[MOMENTS // 2 :]))}"
    for place in account[PAST]:
        blocks = held(account, place, 0)
        before, after = max(blocks[MOMENTS * 3 // 4 : MOMENTS + 1]), min(blocks[MOMENTS * 5 // 4 :])
        if after - before >= max(LEAST[0], swing(blocks)) and after > 1.05 * before:
            yield True, f"{case}: goes on growing, {before} to {after} blocks: {show(place)}"


def check(name, folder, labels, into, arguments):
    program, said = Program(folder, name, into), []
    accounts = collections.defaultdict(list)
    for base in arguments.bases:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            clean = program.account(arguments.beats, seed, "", base)
            said += check_clean(f"clean {base} seed {seed}", clean)
            for letter in labels[name]:
                accounts[letter].append((clean, program.account(arguments.beats, seed, letter, base)))
    for letter, label in labels[name].items():
        said += check_leak(program, letter, label, accounts[letter])
    return name, said


def main():
    if sys.argv[1:2] == ["--account"]:
        account_python(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names; all of the folder without any")
    parser.add_argument("--folder", default=evaluate.HERE, help="of the programs and labels; default: this one")
    parser.add_argument("--beats", type=int, default=300)
    parser.add_argument("--bases", nargs="+", default=["plain", "lookalike"])
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2, help="for each leak and base")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="also what is right")
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    with open(os.path.join(folder, "labels.json"), encoding="utf-8") as file:
        labels = json.load(file)
    wrong = False
    names, threads = arguments.programs or labels, concurrent.futures.ThreadPoolExecutor(arguments.jobs)
    with tempfile.TemporaryDirectory(prefix="truth.") as into, threads as pool:
        todo = [pool.submit(check, name, folder, labels, into, arguments) for name in names]
        for future in concurrent.futures.as_completed(todo):
            name, said = future.result()
            for bad, text in said:
                wrong |= bad
                if bad or arguments.verbose:
                    print(f"{name}: {'WRONG: ' if bad else ''}{text}")
            print(f"{name}: checked", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
