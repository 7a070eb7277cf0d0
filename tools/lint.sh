#!/bin/sh
# Formatters (they only look) and linters for Go, C, Python and shell. Every one runs; the status tells whether all agreed.
set -u
cd "$(dirname "$0")/.."
bin=.tools/bin
status=0

# check NAME COMMAND... passes when the command succeeds and prints nothing.
check() {
    name=$1
    shift
    if out=$("$@" 2>&1) && [ -z "$out" ]; then
        echo "lint: $name: ok"
    else
        printf '%s\nlint: %s: FAILED\n' "$out" "$name"
        status=1
    fi
}

# sources EXTENSION... lists the files that git tracks or would.
sources() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }

# each COMMAND... < LIST runs the command with the names of the list as its last arguments.
each() { xargs -r "$@"; }

c_files=$(sources 'native/*.[ch]' 'native/*.cpp' 'vnpu/*.cpp' 'test/*.cpp' 'vnpu/*.[ch]' 'examples/*.[ch]' 'examples/*.cpp' 'bench/*.[ch]' 'test/*.[ch]')
go_files=$(sources '*.go')
sh_files="$(sources '*.sh') scripts/msmemscope .ci/run"

check_c() { echo "$c_files" | each $bin/clang-format --dry-run -Werror; }
check_gofmt() { echo "$go_files" | each $bin/gofmt -l; }
check_sh() {
    for f in $sh_files; do
        case $(head -n 1 "$f") in
        *bash*) bash -n "$f" || return 1 ;;
        *) sh -n "$f" || return 1 ;;
        esac
    done
}

check gofmt check_gofmt
check "go vet" $bin/go vet ./...
check staticcheck $bin/go tool staticcheck ./...
check clang-format check_c
check "ruff check" $bin/ruff check --quiet .
check "ruff format" $bin/ruff format --quiet --check .
check "sh -n" check_sh
exit $status
