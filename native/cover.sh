#!/bin/sh
# Lines and branches of the C code that ran: in the unit tests, and in real processes (an interpreter, libatb, a collector that
# answers) under libraries built for gcov, by the smoke and Python tests named below. Fails below 80 % of lines and 60 % of branches.
# Called by make native-cov, which has built build/native/cov/unit and the libraries in build/native/cov/tree.
set -eu
cov=$PWD/build/native/cov
find "$cov" -name '*.gcda' -delete
"$cov/unit"
export MSMEMSCOPE_BUILD="$cov/tree" SMOKE_LEVEL=1
.tools/bin/go test ./test/smoke -count=1 -run 'ATB|Watch|PythonStacks|Sanitizer(Steps|Scenarios)|HostLeak|KernelRows'
(cd test/python && python3 -m unittest -q test_report test_control.InProcess.test_several_ranges test_control.HostHeap.test_window_under_the_launcher test_torch.Aten)
build/native/hostheap/test_hostheap "$MSMEMSCOPE_BUILD/lib64/libmsmemscope_host_mem_hook.so"
gcovr --root . --filter 'native/(agent|hooks|unwind|pyframes|hostheap)/' --exclude 'native/hostheap/(test|bench)/' \
	--object-directory "$cov" --print-summary --fail-under-line 80 --fail-under-branch 60
