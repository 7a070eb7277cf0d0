#!/bin/sh
# tools/cover-tree.sh DIR: a copy of build/ in DIR whose Go program counts what it runs (into $GOCOVERDIR).
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1"
for part in bin lib64 tools vnpu examples targets; do cp -R build/$part "$1/"; done
CGO_ENABLED=0 .tools/bin/go build -cover -coverpkg=memscope/internal/...,memscope/cmd/... -o "$1/bin/msmemscope.bin" ./cmd/msmemscope
