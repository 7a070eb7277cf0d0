#!/bin/bash
# Builds and vets the program, which there has the dump questions only, for the other systems. Nothing is kept.
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
for GOOS in windows darwin; do
    for GOARCH in amd64 arm64; do
        export GOOS GOARCH
        .tools/bin/go build -o /dev/null ./cmd/msmemscope
        .tools/bin/go vet ./cmd/... ./internal/query ./internal/compare ./internal/dump/read
        echo "$GOOS/$GOARCH: ok"
    done
done
