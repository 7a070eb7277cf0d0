#!/bin/sh
# tools/demo.sh DIR: the training example under msmemscope, in the built tree DIR, on two virtual cards.
set -eu
cd "$1"
rm -rf memscopeDumpResults
echo "+ cd $1 && bin/msmemscope examples/train"
VNPU_DEVICES=2 bin/msmemscope examples/train
echo
echo "Files made:"
find memscopeDumpResults -type f | sort | while read -r file; do printf '  %8d bytes  %s\n' "$(wc -c <"$file")" "$file"; done
echo
echo "Next, ask the dump: $1/bin/msmemscope dump diagnose $1/memscopeDumpResults"
