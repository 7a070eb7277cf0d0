#!/usr/bin/env python3
"""Turns a CSV dump into a database, or back; `msmemscope dump convert` does it."""

import argparse
import sys

from aggregate_dump import run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--to-csv", dest="to", action="store_const", const="csv")
    form.add_argument("--to-db", dest="to", action="store_const", const="db")
    parser.add_argument("--table", help="name of the table, leaks_dump for older tools")
    parser.add_argument("--output", help="file to write; beside the input unless given")
    args = parser.parse_args()
    words = ["convert", args.dump, "--to", args.to]
    for name in ("table", "output"):
        if getattr(args, name):
            words += ["--" + name, getattr(args, name)]
    if args.output:
        words.append("--overwrite")  # a named file is meant to be replaced
    return run(words)


if __name__ == "__main__":
    sys.exit(main())
