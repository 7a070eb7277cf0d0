#!/bin/sh
# What is generated must be what `make generate` makes now; the files are put back as they were.
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files '*_gen.go')
[ -n "$files" ] || { echo "generated: no generated file is tracked" >&2; exit 1; }
keep=$(mktemp -d)
trap 'for f in $files; do cp "$keep/$(echo "$f" | tr / _)" "$f"; done; rm -rf "$keep"' EXIT
for f in $files; do cp "$f" "$keep/$(echo "$f" | tr / _)"; done
make --no-print-directory generate
for f in $files; do
    cmp "$keep/$(echo "$f" | tr / _)" "$f" || { echo "generated: $f is out of date; run make generate" >&2; exit 1; }
done
echo "generated: $(echo "$files" | wc -l) file(s) up to date"
