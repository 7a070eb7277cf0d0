#!/bin/bash
# Everything that CI runs, stage by stage. A failing stage does not stop the others. Each leaves its output in
# build/test/STAGE.log; the last line counts tests, where a stage without tests of its own counts as one.
set -u
cd "$(dirname "$0")/.."
go=$PWD/.tools/bin/go
logs=$PWD/build/test
coverage=$logs/coverage
rm -rf "$logs"
mkdir -p "$logs" "$coverage/unit" "$coverage/smoke"
passed=0 failed=0 skipped=0
failures=

# begin STAGE prints the headline and notes the time.
begin() {
    stage=$1 log=$logs/$1.log began=$SECONDS
    printf '\n=== %s\n' "$stage"
}

# end STATUS PASSED FAILED SKIPPED adds to the count. A stage that failed without a failing test counts as one.
end() {
    local status=$1 bad=$3
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    passed=$((passed + $2)) failed=$((failed + bad)) skipped=$((skipped + $4))
    if [ "$bad" != 0 ]; then failures="$failures $stage"; fi
    printf '=== %s: %s passed, %s failed, %s skipped, %s s\n' "$stage" "$2" "$bad" "$4" $((SECONDS - began))
}

# run STAGE COMMAND... is a stage without tests of its own.
run() {
    begin "$1"
    shift
    "$@" >"$log" 2>&1 # no pipe: a process that a stage leaves behind would keep it open, and us waiting
    local status=$?
    cat "$log"
    if [ "$status" = 0 ]; then end 0 1 0 0; else end "$status" 0 1 0; fi
}

# run_cmocka STAGE COMMAND... counts what cmocka prints.
run_cmocka() {
    begin "$1"
    shift
    "$@" >"$log" 2>&1
    local status=$?
    grep -v -E '^\[ (RUN  |     OK) ' "$log"
    end "$status" "$(total PASSED)" "$(total FAILED)" "$(total SKIPPED)"
}

# run_go STAGE ARG... is `go test ARG...`; the log gets everything, the terminal no word of what passed.
run_go() {
    begin "$1"
    shift
    "$go" test -v -count=1 "$@" >"$log" 2>&1
    local status=$?
    grep -v -E '^=== |^ *--- PASS|^PASS$|no test files|^coverage:' "$log" | tail -n 200
    end "$status" "$(count '^ *--- PASS')" "$(count '^ *--- FAIL')" "$(count '^ *--- SKIP')"
}

# run_fuzz STAGE TIME runs every fuzz target for a while.
run_fuzz() {
    begin "$1"
    tools/fuzz.sh "$2" >"$log" 2>&1
    local status=$?
    grep -v -E '^fuzz: elapsed|^=== RUN|^--- PASS|^PASS$|^ok ' "$log"
    end "$status" "$(count '^--- PASS')" "$(count '^--- FAIL: Fuzz[A-Za-z]*$')" 0
}

# run_python STAGE PYTHON is the tests of the Python module with an interpreter, for the tests and the scripts that they run.
run_python() {
    begin "$1"
    "$2" -m unittest discover -s test/python -t test/python -v >"$log" 2>&1
    local status=$?
    grep -v -E ' \.\.\. ok$' "$log" | tail -n 100
    end "$status" "$(count ' \.\.\. ok$')" "$(count '^(FAIL|ERROR): ')" "$(count ' \.\.\. skipped')"
}

# total WORD sums cmocka's lines "[  WORD  ] N test(s)".
total() { sed -n -E "s/^\[ +$1 +\] ([0-9]+) test.*/\1/p" "$log" | awk '{ sum += $1 } END { print sum + 0 }'; }

count() { grep -c -E "$1" "$log"; }

# go_gate MINIMUM merges the coverage of unit and smoke tests and fails below the percentage.
go_gate() {
    "$go" tool covdata textfmt -i="$coverage/unit,$coverage/smoke" -o="$coverage/all.txt" || return 1
    # What packages named ...test do is for tests, no product.
    grep -E '^mode:|^memscope/internal/' "$coverage/all.txt" | grep -v -E '^memscope/[^:]*test/[^:/]*:' >"$coverage/go.txt"
    awk -f tools/coverage.awk -v minimum="$1" "$coverage/go.txt"
}

make --no-print-directory build targets || exit 1
run lint tools/lint.sh
run generated tools/check-generated.sh
run build-aarch64 make --no-print-directory build-aarch64
run cross tools/cross.sh
run glibc tools/check-glibc.sh build/bin build/lib64 build/tools build/vnpu build/examples build/aarch64
run model make --no-print-directory model
run_cmocka native make --no-print-directory native-test
run_cmocka asan make --no-print-directory native-asan
run native-fuzz make --no-print-directory native-fuzz SECONDS=15
run_cmocka tsan make --no-print-directory native-tsan
run_cmocka hostheap make --no-print-directory hostheap-test PROGRAMS=12 KILLS=4
run_cmocka hostheap-tsan make --no-print-directory hostheap-tsan
run_cmocka vnpu-asan make --no-print-directory vnpu-test
run_cmocka vnpu-tsan make --no-print-directory vnpu-test SANITIZE=thread
run_go unit -cover -coverpkg=memscope/internal/... $("$go" list ./... | grep -v /test/) -args -test.gocoverdir="$coverage/unit"
run_fuzz fuzz 30s
run smoke-tree tools/cover-tree.sh build/cover
MSMEMSCOPE_BUILD=$PWD/build/cover GOCOVERDIR=$coverage/smoke SMOKE_LEVEL=1 run_go smoke -timeout 20m ./test/smoke/...
MSMEMSCOPE_BUILD=$PWD/build/cover GOCOVERDIR=$coverage/smoke run_go guide ./test/guide
run property make --no-print-directory property N=25
run_python python python3
for version in 3.8 3.13; do # the oldest that is supported and the newest, where they are installed
    if interpreter=$(tools/python.sh "$version"); then run_python "python-$version" "$interpreter"; fi
done
run aarch64 tools/test-aarch64.sh
run go-coverage go_gate 85
run pyframes make --no-print-directory native-pyframes
run_cmocka native-coverage make --no-print-directory native-cov

printf '\n'
[ -z "$failures" ] || printf 'failed stages:%s\n' "$failures"
printf '%s passed, %s failed, %s skipped\n' $passed $failed $skipped
[ $failed = 0 ]
