#!/usr/bin/env python3
"""What the wheels of torch and torch_npu need from libraries that are not there, read from the wheels (with binutils).

symbols.py missing SITE VNPU        symbols that torch_npu links or looks up and the virtual NPU lacks, by library
symbols.py operators SITE VNPU OUT  makes OUT/libaclnn_math.so, with every operator that torch_npu knows and
                                    VNPU/libopapi.so lacks: it says its name and computes nothing
symbols.py cuda SITE                makes empty CUDA libraries, so that the wheel of torch loads without the real ones

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
    rows = (line for library in libraries for line in lines("nm", "-D", "--defined-only", library))
    return {row.split()[-1].partition("@")[0] for row in rows}


def texts(library, pattern):
    """Texts in the library that are the whole of what the pattern says: names for dlsym."""
    return {s for s in lines("strings", "-n", "5", library) if re.fullmatch(pattern, s)}


def wheel(site):
    """The libraries of torch_npu."""
    return [*site.glob("torch_npu/lib/*.so"), *site.glob("torch_npu/*.so")]


def compile_library(source, path, *libraries, script=None):
    """Makes a library of C++ source, linked with others; `script` gives its symbols versions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder, "code.cpp")
        code.write_text(source)
        options = []
        if script:
            pathlib.Path(folder, "versions").write_text(script)
            options = [f"-Wl,--version-script={folder}/versions"]
        lines(
            "g++",
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-o",
            path,
            code,
            f"-Wl,-soname,{path.name}",
            *options,
            *libraries,
            "-ldl",
        )


def missing(site, vnpu):
    own, there = wheel(site), {p.name for p in vnpu.glob("*.so")}
    system = {m[1] for lib in own for line in lines("ldd", lib) if (m := re.search(r"=> (/\S+)", line))}
    have = defined(*vnpu.glob("*.so"), *own, *site.glob("torch/lib/*.so*"), *system)
    for library in own:
        linked = sorted(n for n, _ in undefined(library) if n not in have and not re.match("_?Py|__tls_get_addr", n))
        looked_up = sorted(texts(library, r"(acl|aclrt|aclmdl|aclprof|aclop|Hccl|hal|mstx)[A-Z]\w+") - have)
        print(f"{library.name}: {len(linked)} linked, {len(looked_up)} looked up")
        for kind, names in ("linked", linked), ("looked up", looked_up):
            for name in names:
                print(f"  {kind:9}  {name}")
    names = {n for library in own for n in needed(library)} - there - {p.name for p in own}
    for name in sorted(n for n in names if not any(pathlib.Path(s).name == n for s in system)):
        print(f"library that is not there: {name}")


def operators(site, vnpu, out):
    """torch_npu hands over a size of 0 and no executor, to be changed: what does nothing need not change them."""
    have = defined(vnpu / "libopapi.so")
    found = {n.removesuffix("GetWorkspaceSize") for library in wheel(site) for n in texts(library, r"aclnn[A-Z]\w+")}
    names = sorted(n for n in found if n not in have)
    code = ['extern "C" int vnpu_missing_operator(const char *name, void *stream);']
    for name in names:
        code.append(f'extern "C" int {name}GetWorkspaceSize() {{ return 0; }}')
        code.append(f'extern "C" int {name}(void *workspace, unsigned long size, void *executor, void *stream)')
        code.append(f'{{ return vnpu_missing_operator("{name}", stream); }}')
    compile_library("\n".join(code), out / "libaclnn_math.so", vnpu / "libnnopbase.so")
    print(f"{len(found) - len(names)} operators of {len(found)} compute their values")


# torch_npu is made for the CPU build of torch. That of PyPI is the CUDA build, of which libc10_cuda.so enters the names
# of its settings of the allocator into a set of libc10.so when it is loaded; torch_npu's are the same, and who finds
# one there already fails (seen with 2.13). The libcudart.so that we make comes before both, so that libc10_cuda.so
# enters its names into a set that nobody reads.
KEYS = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeysB5cxx11Ev"
KEEP_OUT = """
#include <dlfcn.h>
#include <string.h>
#include <string>
#include <unordered_set>
extern "C" void *KEYS()
{
    static std::unordered_set<std::string> unread;
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libc10_cuda"))
        return &unread;
    static auto real = reinterpret_cast<void *(*)()>(dlsym(dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD), "KEYS"));
    return real();
}
""".replace("KEYS", KEYS)


CUDA = r"lib(cu|nccl|nv)"  # names of its libraries

# The text for a status: torch 2.7 prints it when its profiler begins, whatever this returns.
RESULT_STRING = """extern "C" int cuptiGetResultString(int, const char **text)
{
    *text = "no CUDA device";
    return 0;
}
"""


def cuda(site):
    """Every function of theirs returns 100, "no CUDA device"; torch finds none and goes on.

    They go where every wheel looks.
    """
    libraries = collections.defaultdict(set)
    torch = [lib for lib in site.glob("torch/lib/*.so*") if not re.match(CUDA, lib.name)]
    have = defined(*torch)
    for library in torch:
        absent = [n for n in needed(library) if re.match(CUDA, n)]
        for name in absent:
            libraries[name].update()
        for name, version in undefined(library) if absent else ():
            if version in absent:
                libraries[version].add((name, version))
            elif name not in have and re.match(r"_*(cu|nccl|nv)", name):
                # Without a version the symbol may come from any of them: one of them is enough.
                libraries[absent[0]].add((name, version))
    for soname, symbols in libraries.items():
        body = "".join(
            RESULT_STRING if n == "cuptiGetResultString" else f'extern "C" int {n}() {{ return 100; }}\n'
            for n in sorted({n for n, _ in symbols})
        )
        script = ""
        for version in {v for _, v in symbols if v}:
            names = "".join(f"{n}; " for n, v in symbols if v == version)
            script += f'"{version}" {{ global: {names}}};\n'
        if soname.startswith("libcudart") and KEYS in have:
            body += KEEP_OUT
        compile_library(body, site / "torch/lib" / soname, script=script)
        print(f"{soname}: {len(symbols)} symbols")


def main():
    words = {"missing": (missing, 2), "operators": (operators, 3), "cuda": (cuda, 1)}
    if len(sys.argv) < 2 or sys.argv[1] not in words or len(sys.argv) - 2 != words[sys.argv[1]][1]:
        sys.exit(__doc__)
    words[sys.argv[1]][0](*map(pathlib.Path, sys.argv[2:]))


if __name__ == "__main__":
    main()
