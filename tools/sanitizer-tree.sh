#!/bin/sh
# tools/sanitizer-tree.sh KIND DIR: a copy of build/ in DIR whose preloaded library is built with a sanitizer of gcc, KIND = address or thread. Programs
# under it have to preload the sanitizer's own library as well: test/smoke does so with SMOKE_PRELOAD.
set -eu
cd "$(dirname "$0")/.."
kind=$1 dir=$2
rm -rf "$dir"
mkdir -p "$dir"
for part in bin lib64 tools vnpu examples targets; do cp -R build/$part "$dir/"; done
includes="-Inative/include -Inative/agent -Inative/pyframes -Inative/unwind"
flags="-fPIC -g -O1 -fno-omit-frame-pointer -fvisibility=hidden -fsanitize=$kind"
# gcc warns that TSan does not see fences; the one in ring.c orders two atomics, no plain data.
[ "$kind" != thread ] || flags="$flags -Wno-tsan"
# shellcheck disable=SC2086 # lists of words
${CXX:-g++} -std=c++17 $flags -fno-exceptions -fno-rtti $includes -c -o "$dir/atb_text.o" native/hooks/atb/text.cpp
# shellcheck disable=SC2086
${CC:-gcc} -std=gnu17 -D_GNU_SOURCE $flags $includes -shared -Wl,-soname,libascend_leaks.so -Wl,-z,nodelete \
	-o "$dir/lib64/libascend_kernel_hook.so" native/agent/*.c native/pyframes/*.c native/unwind/*.c \
	native/hooks/hal/*.c native/hooks/mstx/*.c native/hooks/kernel/*.c native/hooks/atb/*.c "$dir/atb_text.o"
