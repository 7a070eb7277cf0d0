#!/usr/bin/env bash
# Measures the offline questions: bench/offline/run.sh [ROWS ...]   (1000000 and 20000000 unless said otherwise)
# For each number of rows, dumps without and with call stacks; then the comparison of two dumps beside GNU diff.
# Above two million rows everything runs once, and the Python peers are left out. Everything lies below
# build/bench/offline; the big dumps go away again, and are left out if the disk has no room for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
go=.tools/bin/go
[ -x $go ] || go=go
out=build/bench/offline
mkdir -p "$out"
CGO_ENABLED=0 $go build -trimpath -o "$out/" ./bench/offline/gen ./bench/offline/dump ./bench/offline/names
[ $# -gt 0 ] || set -- 1000000 20000000
for rows; do
	for stacks in "" -stacks; do
		dump=$out/memscope_dump_$rows${stacks:+1}.csv
		if [ "$(df -Pk "$out" | awk 'END { print $4 }')" -lt $((rows / 2)) ]; then
			echo "$rows rows need $((rows / 2000000)) GB of disk, which are not there: left out"
			continue
		fi
		[ -s "$dump" ] || "$out/gen" -rows "$rows" $stacks -o "$dump"
		python3 bench/offline/measure.py "$out/dump" "$dump" $([ "$rows" -le 2000000 ] || echo --quick)
		[ "$rows" -le 2000000 ] || rm "$dump"
		echo
	done
done

# Two dumps of a million launches that differ by 2000 and by 50000 of them.
"$out/gen" -bare -rows 2000000 -o "$out/base.csv"
for edits in 2000 50000; do
	"$out/gen" -bare -rows 2000000 -edits "$edits" -o "$out/other.csv"
	echo "compare, $edits edits:"
	"$out/dump" compare "$out/base.csv" "$out/other.csv" --output-path "$out" | head -1
	rounds=3
	[ "$edits" -le 2000 ] || rounds=1
	for _ in $(seq $rounds); do # in turns
		/usr/bin/time -f '  whole command        %e s, %U + %S s of CPU, %M KB' "$out/dump" compare "$out/base.csv" "$out/other.csv" --output-path "$out" >"$out/compare.txt"
		"$out/names" "$out/base.csv" "$out/other.csv" "$out/base.txt" "$out/other.txt"
		[ "$edits" -gt 2000 ] || /usr/bin/time -q -f '  GNU diff -d of names %e s, %U + %S s of CPU' diff -d "$out/base.txt" "$out/other.txt" >"$out/diff.txt" || true
	done
done
