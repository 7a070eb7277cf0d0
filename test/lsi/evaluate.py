#!/usr/bin/env python3
"""How well suspected_leak tells leaks: runs the programs of a folder under the tool, and compares with its labels.json.

`make lsi`, or after it `test/lsi/evaluate.py [options]`. Nothing of this is read by the tool. Each program runs clean
(plain and lookalike) and with each of its leaks; a report is judged by the source lines in its stacks. README.md here
says how programs and labels are written. A run that could not be judged is in the tables as such.
"""

import argparse
import collections
import concurrent.futures
import functools
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Milliseconds. Shorter beats are possible, but then the start of a program is more of its window than it is in life,
# where a beat is a second.
BEAT_MS = 200
# A run in which the program waited longer for the processor, in beats, is repeated, and not judged: what it did over
# time is not what it means to do.
MOST_DELAY = 3
TRIES = 4
GRACE = 15  # seconds that a run may take beside its beats, on a busy machine

Case = collections.namedtuple("Case", "program beats seed leaks base")


class NotJudged(Exception):
    """A run that is not judged: FAILED, LATE, or NOT_REACHED."""


FAILED, LATE, NOT_REACHED = "failed", "late", "not reached"


class Programs(collections.namedtuple("Programs", "folder binaries")):
    """The programs of a folder, and where their binaries are."""

    def labels(self):
        with open(os.path.join(self.folder, "labels.json"), encoding="utf-8") as file:
            return json.load(file)

    def binary(self, name):
        """None: it is a program in Python."""
        return None if self.script(name) else os.path.join(self.binaries, name)

    def script(self, name):
        path = os.path.join(self.folder, name + ".py")
        return path if os.path.exists(path) else None

    def there(self, name):
        return self.script(name) or os.path.exists(self.binary(name))


@functools.lru_cache(maxsize=None)
def marks(folder, program):
    """The named lines of a program, and of its clock: {(file, line): (name, whether only as the innermost one)}."""
    found = {}
    for place, name in ((folder, program + ".cpp"), (folder, program + ".py"), (HERE, "beats.py")):
        if os.path.exists(os.path.join(place, name)):
            with open(os.path.join(place, name), encoding="utf-8") as source:
                for number, line in enumerate(source, 1):
                    if mark := re.search(r"(?://|#) (site|here) (\w+)$", line):
                        found[name, number] = mark[2], mark[1] == "here"
    return found


@functools.lru_cache(maxsize=None)
def lines_at(binary, address):
    """The source lines at a return address, inlined functions included. The report has the innermost only."""
    out = subprocess.run(
        ["addr2line", "-i", "-e", binary, hex(address - 1)], capture_output=True, text=True, check=True
    ).stdout
    return [(os.path.basename(file), int(line)) for file, line in re.findall(r"^(.+):(\d+)", out, re.MULTILINE)]


def names_of(lines, program, marked):
    """The names of the marked ones among the lines of a stack, innermost first; of "here" only the innermost line that
    is of the program itself."""
    own = [line for line in lines if line[0].split(".")[0] in (program, "beats")]
    found = [(marked[line], line == own[0]) for line in own if line in marked]
    return {name for (name, here), innermost in found if innermost or not here}


def names_in(site, program, programs):
    """The names of the marked lines that a site of the report goes through."""
    lines, binary = [], programs.binary(program)
    for frame in site["python_stack"] or []:
        if place := re.match(r"(.+)\((\d+)\): ", frame):
            lines.append((os.path.basename(place[1]), int(place[2])))
    for frame in site["c_stack"] or []:
        if binary and frame.startswith(binary):
            lines += lines_at(binary, int(re.search(r"\[0x([0-9a-f]+)\]", frame)[1], 16))
    return names_of(lines, program, marks(programs.folder, program))


def run(case, out, programs):
    """Runs one case; the report as data, and the delay in beats."""
    script = programs.script(case.program)
    words = [sys.executable, script] if script else [programs.binary(case.program)]
    words += [str(case.beats), str(BEAT_MS), str(case.seed), case.leaks or "-", case.base]
    work = tempfile.mkdtemp(prefix="lsi.")
    try:
        environment = dict(
            os.environ,
            MSMEMSCOPE_HEAP_BEAT_MS=str(BEAT_MS),
            MSMEMSCOPE_HEAP_TOP="1024",  # every suspect is to be judged
            PYTHONMALLOC="malloc",
            PYTHONPATH=HERE,
        )
        tool = [os.path.join(out, "bin", "msmemscope"), "--analysis=host-leaks", "--output-path=" + work, "--"]
        limit = 300 + 3 * case.beats * BEAT_MS / 1000
        done = subprocess.run(
            tool + words, cwd=work, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
        reports = glob.glob(os.path.join(work, "*", "host_leak", "leak_overview_1.json"))
        if done.returncode != 0 or len(reports) != 1:
            raise NotJudged(FAILED, f"status {done.returncode}, {len(reports)} reports: {done.stderr[-300:]}")
        with open(reports[0], encoding="utf-8") as file:
            return json.load(file), float(done.stdout.split()[1]) * 1000 / BEAT_MS
    except subprocess.TimeoutExpired as error:
        raise NotJudged(FAILED, f"no end within {limit:.0f} s") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def judge(case, out, programs, end):
    """One line of the results: what was suspected, and what of it is right. No run that would not be over at `end`."""
    reason, text = NOT_REACHED, ""
    for _ in range(TRIES):
        if time.monotonic() + case.beats * BEAT_MS / 1000 + GRACE > end:
            raise NotJudged(reason, text)
        report, delay = run(case, out, programs)
        if delay <= MOST_DELAY:
            break
        reason, text = LATE, f"{delay:.0f} beats"
    else:
        raise NotJudged(reason, text)
    label = programs.labels()[case.program].get(case.leaks, {"leaks": [], "part_of_it": []})
    sites = []
    for site in [*report["top_leak_sites"], *report["resident_baselines"]]:
        names = names_in(site, case.program, programs)
        leaks = names & set(label["leaks"])
        suspected = site["class"] == "suspected_leak"
        if not leaks and not suspected:
            continue
        kept = {
            k: site.get(k)
            for k in ("class", "rank", "lsi", "growth", "release", "lifetime", "pattern", "notes", "degraded")
        }
        kept |= {"blocks": site["unfreed"]["blocks"], "bytes": site["unfreed"]["bytes"], "names": sorted(names)}
        kept |= {"leak": bool(leaks), "part": bool(names & set(label["part_of_it"]))}
        kept |= {"stack": (site["python_stack"] or site["c_stack"] or ["?"])[:4]}
        sites.append(kept)
    suspected = sum(site["class"] == "suspected_leak" for site in sites)
    return case._asdict() | {
        "ticks": report["series"]["ticks"],
        "delay": delay,
        "usable": report["data_health"]["usable_as_leak_conclusion"],
        "unlisted": report["suspected_leaks"] - suspected,
        "stacks_with_series": report["series"]["stacks_with_series"],
        "sites": sites,
    }


def right(site):
    return site["leak"] or site["part"]


def summary(results):
    """The numbers of one set of results, as text for a table."""
    skipped = collections.Counter(r["not_judged"] for r in results if "not_judged" in r)
    results = [r for r in results if "not_judged" not in r]
    clean = [r for r in results if not r["leaks"]]
    leaky = [r for r in results if r["leaks"]]
    suspected = [s for r in results for s in r["sites"] if s["class"] == "suspected_leak"]
    found = sum(any(s["class"] == "suspected_leak" and right(s) for s in r["sites"]) for r in leaky)
    first = sum(any(s["rank"] == 1 and right(s) for s in r["sites"]) for r in leaky)
    alarms = sum(any(s["class"] == "suspected_leak" for s in r["sites"]) for r in clean)
    true = sum(map(right, suspected))
    return [
        f"{true} of {len(suspected)}" + (f" = {true / len(suspected):.3f}" if suspected else ""),
        f"{found} of {len(leaky)}" + (f" = {found / len(leaky):.2f}" if leaky else ""),
        f"{first} of {len(leaky)}",
        f"{alarms} of {len(clean)}",
        ", ".join(f"{n} {reason}" for reason, n in skipped.items()) or "0",
    ]


def print_tables(results):
    for beats in sorted({r["beats"] for r in results}):
        some = [r for r in results if r["beats"] == beats]
        print(f"\n{beats} beats\n")
        print("| program | suspected, and right | leaks found | right in first place | clean with alarm | not judged |")
        print("|---|---|---|---|---|---|")
        for program in sorted({r["program"] for r in some}):
            print("| " + " | ".join([program, *summary([r for r in some if r["program"] == program])]) + " |")
        print("| **all** | " + " | ".join(summary(some)) + " |")
        for r in some:
            if r.get("not_judged") in (FAILED, LATE):
                print(f"{r['not_judged']}: {named(r)}: {r['why']}")
        some = [r for r in some if "not_judged" not in r]
        if not some:
            continue
        least, late = min(r["ticks"] / r["beats"] for r in some), max(r["delay"] for r in some)
        unlisted, unusable = sum(r["unlisted"] for r in some), sum(not r["usable"] for r in some)
        print(f"\nAt least {least:.2f} of the beats were taken; no program was more than {late:.1f} beats late.")
        print(f"Suspected, but not listed, and so not judged: {unlisted}.")
        print(f"Reports that call themselves unusable: {unusable}.\n")
        for r in some:
            case = named(r)
            if r["leaks"] and not any(s["class"] == "suspected_leak" and right(s) for s in r["sites"]):
                print(f"missed: {case}: " + "; ".join(map(describe, r["sites"][:2])))
            for s in r["sites"]:
                if s["class"] == "suspected_leak" and not right(s):
                    print(f"wrong: {case}: {describe(s)} {' < '.join(s['stack'])}")


def named(result):
    return f"{result['program']} {result['leaks'] or '-'} {result['base']} seed {result['seed']}"


def describe(site):
    factors = " ".join(
        f"{k[0].upper()}={'-' if site[k] is None else format(site[k], '.2f')}"
        for k in ("growth", "release", "lifetime", "pattern")
    )
    remarks = ", ".join([*(site["notes"] or []), *([site["degraded"]] if site["degraded"] else [])])
    names = ",".join(site["names"]) or "?"
    return f"{names} {site['class']} {site['lsi']:.0f} {factors} {site['blocks']} blocks {remarks}".rstrip()


def cases(labels, arguments):
    for beats in arguments.beats:
        for program in arguments.programs:
            for base in arguments.bases:
                for seed in range(arguments.first_seed, arguments.first_seed + arguments.clean_seeds):
                    yield Case(program, beats, seed, "", base)
                for seed in range(arguments.first_seed, arguments.first_seed + arguments.leak_seeds):
                    for leak in labels[program]:
                        yield Case(program, beats, seed, leak, base)


def run_all(todo, arguments, programs, results):
    """Runs the cases; True when none has failed. In random order, so that what the clock cuts off is a fair draw."""
    random.Random(1).shuffle(todo)
    end = time.monotonic() + 60 * arguments.minutes
    failed = False
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(judge, case, arguments.out, programs, end): case for case in todo}
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            case = futures[future]
            try:
                result = future.result()
            except NotJudged as skipped:
                reason, why = skipped.args
                failed |= reason == FAILED
                result = case._asdict() | {"not_judged": reason, "why": why}
            except Exception as error:  # a report that cannot be read does not end the other runs
                failed = True
                result = case._asdict() | {"not_judged": FAILED, "why": repr(error)}
            results.write(json.dumps(result) + "\n")
            results.flush()
            if done % 20 == 0:
                print(f"{done} of {len(todo)}", file=sys.stderr)
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names; all of the folder without any")
    parser.add_argument("--folder", default=HERE, help="of the programs and their labels.json; default: this one")
    parser.add_argument("--out", default=os.path.join(ROOT, "build"), help="the build tree")
    parser.add_argument("--beats", type=int, nargs="+", default=[300, 60])
    parser.add_argument("--bases", nargs="+", default=["plain", "lookalike"], choices=["plain", "lookalike"])
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--clean-seeds", type=int, default=6, help="clean runs of each program, base and length")
    parser.add_argument("--leak-seeds", type=int, default=2, help="runs of each leak, base and length")
    parser.add_argument("--jobs", type=int, default=8, help="runs at once; they mostly sleep")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run begins that takes longer")
    parser.add_argument("--results", help="each run, as a line of JSON; default OUT/NAME OF FOLDER/results.jsonl")
    parser.add_argument("--resume", action="store_true", help="only what the results do not have as judged")
    parser.add_argument("--print", action="store_true", help="run nothing, print the tables of the results")
    arguments = parser.parse_args()
    arguments.out = os.path.abspath(arguments.out)
    folder = os.path.abspath(arguments.folder)
    programs = Programs(folder, os.path.join(arguments.out, os.path.basename(folder)))
    path = arguments.results or os.path.join(programs.binaries, "results.jsonl")
    labels = programs.labels()
    if unknown := set(arguments.programs) - set(labels):
        sys.exit(f"evaluate.py: no label for {', '.join(sorted(unknown))}; there are {', '.join(labels)}")
    for program in list(labels):
        if not programs.there(program):
            print(f"SKIPPED {program}: not built; is its library installed?", file=sys.stderr)
            del labels[program]
    arguments.programs = [p for p in arguments.programs or labels if p in labels]
    fine, old = True, []
    if arguments.print or arguments.resume:
        with open(path, encoding="utf-8") as file:
            old = [json.loads(line) for line in file]
    if not arguments.print:
        old = [r for r in old if "not_judged" not in r]
        judged = {tuple(r[k] for k in Case._fields) for r in old}
        todo = [case for case in cases(labels, arguments) if tuple(case) not in judged]
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as results:
            results.writelines(json.dumps(r) + "\n" for r in old)
            fine = run_all(todo, arguments, programs, results)
        with open(path, encoding="utf-8") as file:
            old = [json.loads(line) for line in file]
    print_tables(old)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
