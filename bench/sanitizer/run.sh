#!/bin/sh
# What mssanitizer costs: ns of processor time for a hooked call (bound: 150), and bytes of the collector for a live block (bound: 200).
# A stack of ten frames is taken for each allocation. Runs with and without the tool take turns; printed are medians. Needs `make build`.
set -eu
cd "$(dirname "$0")/../.."
dir=build/bench/sanitizer
mkdir -p $dir
gcc -O2 -shared -fPIC -DSTACK -Wl,-soname,libascendcl.so -o $dir/libascendcl.so bench/sanitizer/pairs.c
gcc -O2 -o $dir/pairs bench/sanitizer/pairs.c -L$dir -lascendcl -Wl,-rpath,"$PWD/$dir"
tool="build/bin/mssanitizer --check-cann-heap=yes --log-file=$dir/report"
: >$dir/without
: >$dir/with
for _ in 1 2 3 4 5 6 7 8 9 10 11; do
    $dir/pairs time 200000 >>$dir/without
    $tool $dir/pairs time 200000 >>$dir/with
done
median() { sort -n "$1" | sed -n 6p; }
echo "$(median $dir/without) $(median $dir/with)" |
    awk '{ printf "a pair of calls: %s ns without, %s with; %.0f ns for each call (at most 150)\n", $1, $2, ($2 - $1) / 2 }'

# Resident memory of the collector with few and with many blocks.
resident() {
    mkfifo $dir/hold
    $tool $dir/pairs keep "$1" <$dir/hold >$dir/ready &
    exec 9>$dir/hold
    rm $dir/hold
    until grep -q ready $dir/ready 2>/dev/null; do sleep 0.1; done
    sleep 1
    pid=$(cat /proc/$!/task/*/children | tr ' ' '\n' | while read -r child; do
        [ -z "$child" ] || [ "$(cat /proc/"$child"/comm)" != msmemscope-coll ] || echo "$child"
    done)
    awk '$1 ~ /^Rss(Anon|File):/ { sum += $2 } END { print sum * 1024 }' /proc/"$pid"/status
    exec 9>&-
    wait
}
few=$(resident 1000)
: >$dir/ready
many=$(resident 1001000)
echo "$few $many" | awk '{ printf "1,000,000 live blocks: %.0f bytes of the collector for each (at most 200)\n", ($2 - $1) / 1e6 }'
