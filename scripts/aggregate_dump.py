#!/usr/bin/env python3
"""Questions to a memory dump, with the options that existing procedures use; `msmemscope dump` answers them.

The program is looked for in $MSMEMSCOPE, then in ../bin, in $PATH, and beside this script.
"""

import argparse
import os
import shutil
import subprocess
import sys


def program():
    here = os.path.dirname(os.path.abspath(__file__))
    places = [
        os.environ.get("MSMEMSCOPE"),
        shutil.which("msmemscope", path=os.path.join(here, "..", "bin")),
        shutil.which("msmemscope"),
        shutil.which("msmemscope", path=here),
    ]
    for place in places:
        if place:
            return place
    sys.exit("msmemscope is not found: put it in $PATH, or its path in $MSMEMSCOPE")


def run(words):
    try:
        return subprocess.call([program(), "dump"] + words)
    except OSError as error:
        sys.exit(f"msmemscope cannot be started: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump")
    ask = parser.add_mutually_exclusive_group(required=True)
    for name in (
        "stats",
        "check",
        "sort",
        "curve",
        "peak",
        "leak-candidates",
        "trend",
        "oom",
        "fragmentation",
        "hal-segments",
    ):
        ask.add_argument("--" + name, dest="question", action="store_const", const=name)
    ask.add_argument("--at-timestamp", metavar="NS")
    ask.add_argument("--window", nargs=2, metavar=("START", "END"))
    ask.add_argument("--group-by", choices=("owner", "event_type", "stack"))
    # Passed on as they are, where given.
    options = ("metric", "pool", "key", "bins", "limit", "detail", "buckets", "min-size", "device")
    for name in options:
        parser.add_argument("--" + name)
    switches = ("ascii", "overwrite", "json")
    for name in switches:
        parser.add_argument("--" + name, action="store_true")
    args = parser.parse_args()

    if args.at_timestamp:
        words = ["at", args.at_timestamp, args.dump]
    elif args.window:
        words = ["window"] + args.window + [args.dump]
    elif args.group_by:
        words = ["group", args.dump, "--by", args.group_by]
    else:
        words = [args.question, args.dump]
    given = vars(args)
    if args.question == "curve" and not args.limit and not args.bins:
        words += ["--limit", "0"]  # all points, unless asked otherwise
    for name in options:
        value = given[name.replace("-", "_")]
        if value is not None:
            words += ["--" + name, value]
    words += ["--" + name for name in switches if given[name]]
    return run(words)


if __name__ == "__main__":
    sys.exit(main())
