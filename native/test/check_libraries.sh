#!/bin/sh
# check_libraries.sh DIR: the libraries in DIR that get into targets keep their promises: they load with nothing but libc and
# the agent, need at most 256 bytes of static TLS, bind lazily and cannot be unloaded.
set -eu
bad=0
complain() {
    echo "libraries: $1" >&2
    bad=1
}
for file in "$1"/libascend_leaks.so "$1"/libleaks_ascend_hal_hook.so "$1"/libascend_mstx_hook.so "$1"/libascend_kernel_hook.so; do
    dynamic=$(readelf --dynamic --wide "$file")
    segments=$(readelf --segments --wide "$file")
    # shellcheck disable=SC2016 # $ORIGIN is for the loader
    needed=$(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -x -e 'libc.so.6' -e '$ORIGIN/libascend_leaks.so') || :
    [ -z "$needed" ] || complain "$file needs $needed"
    tls=$(echo "$segments" | awk '$1 == "TLS" { print $6 }')
    [ $((${tls:-0})) -le 256 ] || complain "$file has $((tls)) bytes of TLS"
    if echo "$dynamic" | grep -q -e BIND_NOW -e '(TEXTREL)'; then complain "$file is not bound lazily"; fi
    echo "$dynamic" | grep -q NODELETE || complain "$file can be unloaded"
done
exit $bad
