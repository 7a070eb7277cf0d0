"""Does a bit of all that the C of Python can do, and tells where its libraries lie: everywhere.py libeverywhere.so"""

import ctypes
import os
import sys


class Meta(type):
    def __new__(mcs, name, bases, space):
        return super().__new__(mcs, name, bases, {**space, "made": dict(a=1)})


class Node(metaclass=Meta):
    __slots__ = ("left", "right")


def walk(n):
    yield from (walk(n - 1) if n else iter([Node(), [*range(n)], {**{"n": n}}]))


def everything():
    import argparse
    import ast
    import collections
    import csv
    import datetime
    import decimal
    import functools
    import hashlib
    import inspect
    import io
    import itertools
    import json
    import pickle
    import re
    import socket
    import struct
    import threading
    import unicodedata
    import xml.etree.ElementTree
    import zlib
    from pathlib import Path

    modules = argparse, ast, collections, inspect, re, threading
    trees = [compile(Path(m.__file__).read_text(), m.__file__, "exec", ast.PyCF_ONLY_AST) for m in modules]
    kept = [compile(tree, "tree", "exec") for tree in trees]
    numbers = [i**40 // 7 % (i + 3) for i in range(50)] + [int(str(i) * 30) for i in range(9)]
    kept += [f"{n:>40}".title().encode().decode("latin-1").split() for n in numbers]
    kept += [
        re.compile(p, re.I).findall("abc 123 xyz" * 9) for p in (r"(a|b)*c{1,3}?", r"(?P<x>\d+)(?=\s)", r"[^a-z\s]")
    ]
    data = json.loads(json.dumps({str(i): [i, i / 3, None, {"k": "é" * i}] for i in range(99)}, indent=1))
    kept += pickle.loads(pickle.dumps([data, {1, 2}, (3,), frozenset([4]), bytearray(5), range(6), decimal.Decimal(7)]))
    kept.append(xml.etree.ElementTree.fromstring("<a>" + "<b c='d'>e</b><!-- f -->" * 99 + "</a>"))
    kept += [str(decimal.Decimal(i).sqrt() / 7) for i in range(50)]
    kept += [hashlib.sha256(b"x").hexdigest(), hashlib.blake2b(b"x").digest()]
    kept += [datetime.datetime.fromtimestamp(i * 10**6).strftime("%c") for i in range(50)]
    kept += csv.reader(io.StringIO('a,"b ""c""",d\n' * 50))
    kept.append(zlib.decompress(zlib.compress(struct.pack("<99d", *range(99)) * 99)))
    kept += sorted(itertools.product("abc", repeat=4), key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)))
    kept += [unicodedata.normalize("NFD", chr(c)) + unicodedata.name(chr(c), "") for c in range(0xC0, 0x180)]
    ends = socket.socketpair()
    thread = threading.Thread(target=lambda: ends[0].sendall(memoryview(bytearray(99))))
    thread.start()
    thread.join()
    kept += [list(walk(n)) for n in range(20)]
    exec(kept[0], {"__name__": "again"})
    try:
        raise ValueError("x" * 99) from KeyError(1)
    except ValueError as error:
        kept.append(str(error))
    return kept


ctypes.CDLL(sys.argv[1]).everywhere_begin()
all_of_it = everything()
with open("/proc/self/maps") as maps:
    for line in maps:
        words = line.split()
        if len(words) == 6 and int(words[2], 16) == 0:
            print("library", words[0].split("-")[0], words[5])
sys.stdout.flush()
os._exit(0)
