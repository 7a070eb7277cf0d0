#!/bin/sh
# tools/check-glibc.sh DIR...: every ELF file below the directories must load with glibc 2.17 (EulerOS, Kylin, CentOS 7).
set -eu
limit=2.17
checked=0
bad=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# What is built with the C++ compiler of this machine, an example and the virtual NPU's libatb and libopapi, stays on it.
find "$@" -type f \( -name '*.so' -o -perm -u+x \) ! -name hostleak ! -name libatb.so ! -name libopapi.so >"$list"
while read -r file; do
    # The first four bytes are the ELF magic; scripts are passed over.
    [ "$(dd if="$file" bs=1 skip=1 count=3 2>/dev/null | tr -d '\0')" = ELF ] || continue
    checked=$((checked + 1))
    newest=$(readelf --version-info --wide "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' |
        sort -u -t. -k1,1n -k2,2n -k3,3n | tail -n 1)
    above=$(printf '%s\n%s\n' "${newest:-0}" $limit | sort -t. -k1,1n -k2,2n -k3,3n | tail -n 1)
    if [ "$above" != $limit ]; then
        echo "glibc: $file needs GLIBC_$newest, more than $limit" >&2
        bad=$((bad + 1))
    fi
done <"$list"
if [ $checked = 0 ]; then
    echo "glibc: no ELF file below $*" >&2
    exit 1
fi
echo "glibc: $checked files checked, $bad need more than GLIBC_$limit"
[ $bad = 0 ]
