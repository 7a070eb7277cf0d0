#!/bin/sh
# tools/cover-tree.sh DIR: a copy of build/ in DIR whose Go programs count what they run (into $GOCOVERDIR).
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1"
for part in bin lib64 tools vnpu examples targets; do cp -R build/$part "$1/"; done
for program in run:msmemscope-run bin:msmemscope; do
    CGO_ENABLED=0 .tools/bin/go build -cover -coverpkg=memscope/internal/...,memscope/cmd/... -o "$1/bin/msmemscope.${program%%:*}" ./cmd/"${program#*:}"
done
