#!/bin/sh
# check_libraries.sh DIR: the libraries in DIR, which get into targets, keep their promises: they load with nothing but libc,
# need at most 256 bytes of static TLS, bind lazily and cannot be unloaded; and the names that are not files lead to one.
set -eu
bad=0
complain() {
    echo "libraries: $1" >&2
    bad=1
}
for file in "$1"/*.so; do
    [ -f "$file" ] || complain "$file leads nowhere"
    dynamic=$(readelf --dynamic --wide "$file")
    segments=$(readelf --segments --wide "$file")
    needed=$(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -x 'libc.so.6') || :
    [ -z "$needed" ] || complain "$file needs $needed"
    tls=$(echo "$segments" | awk '$1 == "TLS" { print $6 }')
    [ $((${tls:-0})) -le 256 ] || complain "$file has $((tls)) bytes of TLS"
    if echo "$dynamic" | grep -q -e BIND_NOW -e '(TEXTREL)'; then complain "$file is not bound lazily"; fi
    echo "$dynamic" | grep -q NODELETE || complain "$file can be unloaded"
done
exit $bad
