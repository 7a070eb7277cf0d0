#!/usr/bin/env python3
"""What the wheels of torch and torch_npu need from libraries that are not there, read from the wheels themselves (binutils).

symbols.py missing SITE VNPU          symbols that torch_npu links or looks up and the virtual NPU does not have, by library
symbols.py operators SITE VNPU OUT    builds OUT/libaclnn_math.so: every operator that torch_npu knows and VNPU/libopapi.so lacks
symbols.py cuda SITE                  builds empty CUDA libraries, so that the wheel of torch, which links the real ones, loads without them

SITE is the site-packages folder that the wheels are in, VNPU the lib64 of the virtual NPU.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile


def lines(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout.splitlines()


def needed(library):
    return [m[1] for line in lines("readelf", "-dW", library) if (m := re.search(r"\(NEEDED\).*\[(.*)\]", line))]


def undefined(library):
    """Pairs (symbol, version or "") of what the library must find elsewhere; weak ones need not be there."""
    for line in lines("nm", "-D", "--undefined-only", library):
        kind, symbol = line.split()[-2:]
        if kind == "U":
            name, _, version = symbol.partition("@")
            yield name, version.lstrip("@")


def defined(*libraries):
    return {line.split()[-1].partition("@")[0] for library in libraries for line in lines("nm", "-D", "--defined-only", library)}


def named(library, pattern):
    """Texts in the library that are the whole of what the pattern says: names for dlsym."""
    return {s for s in lines("strings", "-n", "5", library) if re.fullmatch(pattern, s)}


def wheel(site):
    """The libraries of torch_npu, and what they find beside the virtual NPU."""
    own = [*site.glob("torch_npu/lib/*.so"), *site.glob("torch_npu/*.so")]
    beside = {line.split(" => ")[1].split(" (")[0] for lib in own for line in lines("ldd", lib) if " => /" in line}
    python = [s for s in (sys.executable,) if s]
    return own, [*site.glob("torch/lib/*.so*"), *beside, *python]


def compile_library(source, path, script=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder, "stub.cpp")
        code.write_text(source)
        options = []
        if script:
            pathlib.Path(folder, "versions").write_text(script)
            options = [f"-Wl,--version-script={folder}/versions"]
        lines("g++", "-shared", "-fPIC", "-O1", "-w", "-o", path, code, f"-Wl,-soname,{path.name}", *options, "-ldl")


def missing(site, vnpu):
    own, beside = wheel(site)
    have = defined(*vnpu.glob("*.so"))
    elsewhere = defined(*own, *beside)
    for library in own:
        linked = sorted({name for name, _ in undefined(library)} - have - elsewhere - {n for n in elsewhere if n.startswith("Py")})
        linked = [n for n in linked if not n.startswith(("Py", "_Py"))]
        looked_up = sorted(named(library, r"(acl|aclrt|aclmdl|aclprof|aclop|Hccl|hal|mstx)[A-Z]\w+") - have - elsewhere)
        operators = [n for n in looked_up if n.startswith("aclnn")]
        looked_up = [n for n in looked_up if not n.startswith("aclnn")]
        print(f"{library.name}: {len(linked)} linked, {len(looked_up)} looked up, {len(operators)} of operators")
        for kind, names in ("linked", linked), ("looked up", looked_up):
            for name in names:
                print(f"  {kind:9}  {name}")
    absent = {n for library in own for n in needed(library)} - {p.name for p in (*vnpu.glob("*.so"), *own)}
    for library in sorted(n for n in absent if not any(n in str(b) for b in beside)):
        print(f"library that is not there: {library}")


def operators(site, vnpu, out):
    have = defined(vnpu / "libopapi.so")
    names = {n for library in wheel(site)[0] for n in named(library, r"aclnn[A-Z]\w+")}
    names = sorted(n.removesuffix("GetWorkspaceSize") for n in names if n not in have)
    code = ['extern "C" int vnpu_missing_operator(const char *name, void *stream);']
    for name in dict.fromkeys(names):
        # torch_npu hands over a size of 0 and no executor, to be changed: what does nothing asks for no workspace.
        code.append(f'extern "C" int {name}GetWorkspaceSize() {{ return 0; }}')
        code.append(f'extern "C" int {name}(void *w, unsigned long n, void *e, void *stream) {{ return vnpu_missing_operator("{name}", stream); }}')
    compile_library("\n".join(code), out / "libaclnn_math.so")
    print(f"{len(dict.fromkeys(names))} operators that are missing, in {out}/libaclnn_math.so")


# torch_npu is made for the CPU build of torch. That of PyPI is the CUDA build, of which libc10_cuda.so enters the names of its settings of the
# allocator into a set of libc10.so when it is loaded; torch_npu's are the same, and who finds one there already fails (2.10 and later). The
# libcudart.so that we make comes before both, so that libc10_cuda.so enters its names into a set that nobody reads.
KEYS = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeysB5cxx11Ev"
KEEP_OUT = """
#include <dlfcn.h>
#include <string.h>
#include <string>
#include <unordered_set>
extern "C" void *%(name)s()
{
    static std::unordered_set<std::string> unread;
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libc10_cuda"))
        return &unread;
    static auto real = reinterpret_cast<void *(*)()>(dlsym(dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD), "%(name)s"));
    return real();
}
""" % {"name": KEYS}


def cuda(site):
    """Every function of theirs returns 100, which is "no CUDA device"; torch then finds none and goes on. They go where the wheel looks first."""
    libraries = collections.defaultdict(set)
    have = defined(*site.glob("torch/lib/*.so*"))
    for library in site.glob("torch/lib/*.so*"):
        absent = [n for n in needed(library) if re.match(r"lib(cu|nccl|nv)", n)]
        for name, version in undefined(library) if absent else ():
            if version in absent or (name not in have and re.match(r"_*(cu|nccl|nv)", name)):
                # Without a version the symbol may come from any of them: one of them is enough.
                libraries[version if version in absent else absent[0]].add((name, version))
        for n in absent:
            libraries[n].update()
    for soname, symbols in libraries.items():
        versions = {v for _, v in symbols if v}
        body = "".join(f'extern "C" int {n}() {{ return 100; }}\n' for n, _ in sorted(symbols))
        script = "".join(f'"{v}" {{ global: {" ".join(n + ";" for n, w in symbols if w == v)} }};\n' for v in versions)
        if soname.startswith("libcudart") and KEYS in have:
            body += KEEP_OUT
        compile_library(body, site / "nvidia/cu13/lib" / soname, script or None)
        print(f"{soname}: {len(symbols)} symbols")


def main():
    words = {"missing": (missing, 2), "operators": (operators, 3), "cuda": (cuda, 1)}
    if len(sys.argv) < 2 or sys.argv[1] not in words or len(sys.argv) - 2 != words[sys.argv[1]][1]:
        sys.exit(__doc__)
    words[sys.argv[1]][0](*map(pathlib.Path, sys.argv[2:]))


if __name__ == "__main__":
    main()
