#!/bin/bash
# Runs every fuzz target for a while, two at a time: tools/fuzz.sh [TIME [PACKAGE...]]   (10m, all packages)
# What a target finds lies below the testdata of its package and is a test from then on.
set -u
cd "$(dirname "$0")/.."
export go=$PWD/.tools/bin/go duration=${1:-10m}
shift

# fuzz PACKAGE TARGET: -fuzz takes one target at a time.
fuzz() {
    local log status=0
    log=$(mktemp)
    # The end of the time in the middle of an input is reported as a failure (golang.org/issue/75804), with no input to show for it.
    "$go" test -run '^$' -fuzz "^$2\$" -fuzztime "$duration" -fuzzminimizetime 2s -parallel 1 "$1" >"$log" 2>&1 ||
        { grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; } || status=1
    echo "--- $([ $status = 0 ] && echo PASS || echo FAIL): $2" >>"$log"
    printf '=== RUN   %s %s\n%s\n' "$1" "$2" "$(cat "$log")"
    rm "$log"
    return $status
}
export -f fuzz

for package in $("$go" list "${@:-./...}"); do
    "$go" test -list '^Fuzz' "$package" | sed -n "s|^Fuzz.*|$package &|p"
done | xargs -P 2 -L 1 bash -c 'fuzz "$@"' fuzz
