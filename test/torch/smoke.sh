#!/bin/bash
# Runs torch and torch_npu as PyPI has them on the virtual NPU, under msmemscope: smoke.sh BUILD [SCRIPT…]
# The wheels are kept in a virtual environment outside of the tree, TORCH_VENV, which is made when it is not there.
set -eu
build=$(realpath "$1")
shift
here=$(dirname "$(realpath "$0")")
version=${TORCH_VERSION:-2.13.0}
venv=${TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/msmemscope/torch-$version}

skip() {
    echo "SKIPPED: torch $version: $1"
    exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "the stand-ins for CUDA are made for x86_64 only, and this is $(uname -m)"
[ -e "$build/vnpu/lib64/libopapi.so" ] || skip "the operators of the virtual NPU need a g++"
if [ ! -e "$venv/ready" ]; then
    python=$(command -v python3.11) || skip "there is no python3.11"
    rm -rf "$venv"
    "$python" -m venv "$venv" || skip "python3.11 cannot make a virtual environment"
    # Without the libraries of CUDA, of 2.5 GB, which torch links and nobody calls: symbols.py puts empty ones in their place.
    "$venv/bin/pip" install -q --no-deps "torch==$version" "torch_npu==$version" typing_extensions filelock fsspec jinja2 \
        markupsafe networkx sympy mpmath numpy pyyaml || skip "pip cannot get the wheels"
    "$venv/bin/python" "$here/symbols.py" cuda "$venv"/lib/python3.11/site-packages >/dev/null
    touch "$venv/ready"
fi
# What torch_npu looks up and the virtual NPU does not have: said when it is called.
"$venv/bin/python" "$here/symbols.py" operators "$venv"/lib/python3.11/site-packages "$build/vnpu/lib64" "$venv/operators"
exec "$venv/bin/python" "$here/run.py" "$venv" "$build" "$@"
