#!/usr/bin/env python3
"""wheel.py TREE DIRECTORY - packs a build tree as a wheel (PEP 427) into a directory, and prints its path.

The wheel has the Python package, the commands msmemscope, mssanitizer and what is behind them for bin/, the native
libraries for lib64/ and what programs are built with for tools/ beside it, so that the front script, which is sourced
too, finds them as in the tree. Standard library only: nothing is fetched to build it. A wheel knows no symbolic links;
the one library that the names in lib64 lead to has everything.
"""

import base64
import hashlib
import os
import sys
import zipfile

NAME = "msmemscope"
REQUIRES_PYTHON = ">=3.8"


def files(directory):
    """Regular files below a directory, relative to it."""
    for base, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            path = os.path.join(base, name)
            if not os.path.islink(path) and not name.endswith(".pyc"):
                yield os.path.relpath(path, directory)


def machine(program):
    """The architecture of an ELF file, e_machine at offset 18."""
    with open(program, "rb") as file:
        head = file.read(20)
    return {62: "x86_64", 183: "aarch64"}[int.from_bytes(head[18:20], "little")]


class Wheel:
    """A wheel in the making."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def add_tree(self, prefix, directory):
        for name in files(directory):
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                self.add(f"{prefix}/{name}", file.read(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def close(self, info):
        name = f"{info}/RECORD"
        self.zip.writestr(name, "".join(line + "\n" for line in [*self.record, f"{name},,"]))
        self.zip.close()


def main():
    tree, directory = sys.argv[1:]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "VERSION"), encoding="utf-8") as file:
        version = file.read().strip()
    tag = "py3-none-manylinux2014_" + machine(os.path.join(tree, "bin", "msmemscope.bin"))
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{NAME}-{version}-{tag}.whl")
    info, data = f"{NAME}-{version}.dist-info", f"{NAME}-{version}.data"
    wheel = Wheel(path)
    wheel.add_tree("msmemscope", os.path.join(tree, "python", "msmemscope"))
    wheel.add_tree(data + "/scripts", os.path.join(tree, "bin"))
    with open(os.path.join(tree, "bin", "mssanitizer"), "rb") as file:  # a link in the tree
        wheel.add(data + "/scripts/mssanitizer", file.read(), 0o755)
    wheel.add_tree(data + "/data/lib64", os.path.join(tree, "lib64"))
    wheel.add_tree(data + "/data/tools", os.path.join(tree, "tools"))
    with open(os.path.join(root, "LICENSE"), "rb") as file:
        wheel.add(info + "/LICENSE", file.read())
    wheel.add(
        info + "/METADATA",
        (
            f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nRequires-Python: {REQUIRES_PYTHON}\n"
            "Summary: Where the memory of Ascend NPUs goes: collection, analyses, reports\nLicense-File: LICENSE\n"
        ).encode(),
    )
    wheel.add(info + "/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close(info)
    print(path)


if __name__ == "__main__":
    main()
