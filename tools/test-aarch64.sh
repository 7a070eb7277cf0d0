#!/bin/sh
# The cross-built libraries and demo under qemu-user give the report of the native ones. The launcher and the collector
# are native here: qemu-user cannot start an aarch64 program from an aarch64 one without the kernel's help (binfmt_misc).
# On a machine that is aarch64 itself there is nothing to emulate.
set -eu
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "aarch64: this machine is $(uname -m), nothing to emulate"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
qemu="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
export VNPU_DEVICES=2

# report FILE prints what two runs have in common: the report without addresses.
report() { grep -E '^(=|Direct |M(in|ax)Gap)' "$1" | sed 's/ at 0x[0-9a-f]*/ at ADDRESS/'; }

build/bin/msmemscope -o "$work/native" build/examples/train >"$work/native.txt"
# shellcheck disable=SC2086
LD_PRELOAD_PATH=$PWD/build/aarch64/lib64 build/bin/msmemscope -o "$work/aarch64" \
    $qemu build/aarch64/examples/train >"$work/aarch64.txt"
report "$work/native.txt" >"$work/native.report"
report "$work/aarch64.txt" >"$work/aarch64.report"
grep -q SUMMARY "$work/native.report"
diff -u "$work/native.report" "$work/aarch64.report"

# rows DIR prints the events and sizes of every dump in DIR, in order.
rows() { find "$1" -name 'memscope_dump_*.csv' | sort | while read -r f; do cut -d, -f2,3 "$f"; done; }
rows "$work/native" >"$work/native.rows"
rows "$work/aarch64" >"$work/aarch64.rows"
diff "$work/native.rows" "$work/aarch64.rows"

version=$($qemu build/aarch64/bin/msmemscope.bin --version)
[ "$version" = "msmemscope $(cat VERSION)" ] || { echo "aarch64: the program says $version" >&2; exit 1; }
echo "aarch64: same report of $(wc -l <"$work/native.report") lines, same $(wc -l <"$work/native.rows") rows"
