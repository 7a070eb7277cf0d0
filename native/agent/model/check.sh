#!/bin/sh
# Searches the model of the ring completely, in every scenario, and then demands that every mutant is found out.
# Usage: check.sh [work folder]. Needs spin and a C compiler; takes less than a minute of two cores, 1 GB.
set -eu
model=$(cd "$(dirname "$0")" && pwd)/ring.pml
work=${1:-$(mktemp -d)}
mkdir -p "$work"

# Compiling takes longer than most searches, hence the modest optimization.
# search NAME PAN_COMPILE_FLAGS PAN_RUN_FLAGS SPIN_FLAGS...: leaves what pan said in $work/NAME/out.
search() {
    name=$1 compile=$2 flags=$3
    shift 3
    rm -rf "$work/$name"
    mkdir -p "$work/$name"
    (
        cd "$work/$name"
        spin -a "$@" "$model" >spin.out 2>&1 || { cat spin.out >&2; exit 1; }
        # shellcheck disable=SC2086 # words on purpose
        ${CC:-cc} -o pan pan.c $compile -DNOREDUCE -DMEMLIM=1800
        # shellcheck disable=SC2086
        ./pan -m100000 $flags >out 2>&1
    ) || { echo "model: $name did not run, see $work/$name" >&2; exit 1; }
    # "errors: 0" counts only for a search that was not cut short
    if grep -qE 'max search depth too small|out of memory|Search not completed|hash table full' "$work/$name/out" &&
        ! grep -qE 'errors: [1-9]' "$work/$name/out"; then
        echo "model: $name: the search is not complete, see $work/$name/out" >&2
        exit 1
    fi
    grep -qE 'errors: [0-9]+' "$work/$name/out"
}

holds() {
    search "$@"
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/$1/out")
    if grep -q 'errors: 0' "$work/$1/out"; then
        echo "model: $1 holds ($states states)"
    else
        grep -E '^pan:1' "$work/$1/out" >&2
        echo "model: $1 FAILS; replay: cd $work/$1 && ./pan -r" >&2
        exit 1
    fi
}

# mutant NAME SCENARIO EXPECTED: the search must end in the error that is expected, not in some other one.
mutant() {
    search "MUTANT_$1" "-O0 -DSAFETY" "" "-DMUTANT_$1" "-D$2"
    if grep -E '^pan:1' "$work/MUTANT_$1/out" | grep -qF "$3"; then
        echo "model: mutant $1 is found out"
    else
        grep -E '^pan:1' "$work/MUTANT_$1/out" >&2 || true
        echo "model: mutant $1 is NOT found out: expected '$3'" >&2
        exit 1
    fi
}

# Two halves, for two cores.
first() {
    for s in RUN SAFE_TIME KILL THREAD_DEATH; do
        holds "$s" "-O1 -DSAFETY" "" "-D$s"
    done
}

second() {
    for s in COLLECTOR_DEATH FAILING_FREE; do
        holds "$s" "-O1 -DSAFETY" "" "-D$s"
    done
    for s in RUN KILL THREAD_DEATH COLLECTOR_DEATH; do
        holds "three-producers-$s" "-O1 -DSAFETY" "" "-D$s" -DONE_EACH -DPRODUCERS=3 -DFIXED_LENGTHS
    done
    for s in RUN THREAD_DEATH COLLECTOR_DEATH; do
        holds "ends-$s" "-O1 -DNP" -l "-D$s" -DFIXED_LENGTHS
    done
    # parts of the assertions, as their macros expand
    once='consumed[((m>>4)&3)]+1' whole='/2)==(m&255)' decoy='((m>>4)&3)<2' all='consumed[i]==published[i]'
    mutant NO_ZERO RUN "$once"
    mutant HEAD_BEFORE_ZERO RUN "$whole"
    mutant READY_EARLY RUN "$whole"
    mutant CLOCK_BEFORE_RESERVE SAFE_TIME 'snapped'
    mutant TAIL_BEFORE_CLOCK SAFE_TIME 'snapped'
    mutant OWN_STAMP SAFE_TIME 'late'
    mutant FREE_AFTER_CALL RUN '!(live)'
    mutant ALLOC_BEFORE_CALL RUN '!(live)'
    mutant NO_RECHECK RUN 'invalid end state'
    mutant VALUE_AFTER_RECHECK RUN 'invalid end state'
    mutant NO_BUMP RUN 'invalid end state'
    mutant NO_TIMEOUT COLLECTOR_DEATH 'invalid end state'
    mutant PAYLOAD_BEFORE_MARK KILL "$decoy"
    mutant SCAN_BUSY KILL "$decoy"
    mutant DEATH_AFTER_TAIL KILL "$all"
    mutant NO_REREAD THREAD_DEATH "$all"
}

(first) &
a=$!
(second) &
b=$!
status=0
wait $a || status=1
wait $b || status=1
exit $status
