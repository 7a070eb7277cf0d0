#!/bin/bash
# Runs every fuzz target for a while: tools/fuzz.sh [TIME [PACKAGE...]]   (10m, all packages)
# What a target finds lies below the testdata of its package and is a test from then on.
set -u
cd "$(dirname "$0")/.."
go=$PWD/.tools/bin/go
duration=${1:-10m}
shift
status=0
for package in $("$go" list "${@:-./...}"); do
    # -fuzz takes one target at a time.
    for target in $("$go" test -list '^Fuzz' "$package" | grep '^Fuzz'); do
        printf '=== RUN   %s %s\n' "$package" "$target"
        if "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 2s "$package"; then
            printf -- '--- PASS: %s\n' "$target"
        else
            printf -- '--- FAIL: %s\n' "$target"
            status=1
        fi
    done
done
exit $status
