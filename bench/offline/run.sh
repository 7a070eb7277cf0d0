#!/usr/bin/env bash
# Measures the offline questions: bench/offline/run.sh [rows ...]   (default 1000000; 20000000 needs 4 GB of disk)
# For each number of rows, dumps without and with call stacks; then the comparison of two dumps beside GNU diff.
# The Python peers are left out above two million rows. Everything lies below build/bench/offline.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=build/bench/offline
mkdir -p "$out"
CGO_ENABLED=0 go build -trimpath -o "$out/" ./bench/offline/gen ./bench/offline/dump ./bench/offline/names
for rows in "${@:-1000000}"; do
	for stacks in "" -stacks; do
		dump=$out/memscope_dump_$rows${stacks:+1}.csv
		[ -s "$dump" ] || "$out/gen" -rows "$rows" $stacks -o "$dump"
		python3 bench/offline/measure.py "$out/dump" "$dump" $([ "$rows" -le 2000000 ] || echo --no-peers)
		echo
	done
done

# Two dumps of a million launches that differ by 2000 and by 50000 of them.
"$out/gen" -bare -rows 2000000 -o "$out/base.csv"
for edits in 2000 50000; do
	"$out/gen" -bare -rows 2000000 -edits "$edits" -o "$out/other.csv"
	echo "compare, $edits edits:"
	/usr/bin/time -f '  whole command %e s, %M KB' "$out/dump" compare "$out/base.csv" "$out/other.csv" --output-path "$out" | head -2
	"$out/names" "$out/base.csv" "$out/other.csv" "$out/base.txt" "$out/other.txt"
	[ "$edits" -gt 2000 ] || { /usr/bin/time -f '  GNU diff -d of the names %e s' diff -d "$out/base.txt" "$out/other.txt" >"$out/diff.txt" || true; }
done
