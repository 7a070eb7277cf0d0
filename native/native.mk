# The agent, the hooks and their tests. Included by the top Makefile, which says what OUT, ARCH and ZIGCC are; alone
# (make -f native/native.mk native) it falls back on the values below.
ARCH ?= $(shell uname -m)
OUT ?= build
ZIGCC ?= .tools/zig/ziglang/zig cc -target $(ARCH)-linux-gnu.2.17
CC ?= gcc

native_pyframes := $(wildcard native/pyframes/*.c)
native_unwind := $(wildcard native/unwind/*.c)
native_agent := $(wildcard native/agent/*.c) $(native_pyframes) $(native_unwind)
native_hooks := $(wildcard native/hooks/hal/*.c native/hooks/mstx/*.c native/hooks/kernel/*.c native/hooks/atb/*.c)
native_headers := $(wildcard native/include/*.h native/agent/*.h native/pyframes/*.h native/unwind/*.h native/hooks/*/*.h native/test/*.h)

comma := ,
NATIVE_CFLAGS := -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -fvisibility=hidden -Inative/include -Inative/agent -Inative/pyframes -Inative/unwind

# ---- the library that ships, and its names
#
# Every process below a traced program loads the agent and the hooks, most of them for nothing, so loading is made cheap: one
# file (each further one costs a third as much again as this does), lazy binding (no symbol look-ups), no RELRO (a segment
# and an mprotect less), and nothing needed but libc. native/test/exec_cost.c measures it.
#
# The file itself bears the name that torch_npu and MindSpore want of a file; the others lead to it, and ld.so, which knows a
# file by its inode, loads it once whatever names it is asked for.
#
# It is linked as for glibc 2.34, which has everything in libc; linked as for 2.17 it would ask for libpthread.so.0 too,
# 60 us more per process for nothing on a newer system. What it uses is no newer than 2.17 all the same: CI checks.
NATIVE_LDFLAGS := -target $(ARCH)-linux-gnu.2.34 -shared -fPIC -O2 -g1 -Wl,-z,lazy -Wl,-z,norelro -Wl,-z,nodelete
native_library := $(OUT)/lib64/libascend_kernel_hook.so
native_names := $(patsubst %,$(OUT)/lib64/lib%.so,ascend_leaks leaks_ascend_hal_hook ascend_mstx_hook ascend_atb_hook)

$(native_library): $(native_agent) $(native_hooks) $(OUT)/native/atb_text.o $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_CFLAGS) $(NATIVE_LDFLAGS) -Wl,-soname,libascend_leaks.so -o $@ $(native_agent) $(native_hooks) $(OUT)/native/atb_text.o

# The only C++; it needs nothing of the C++ library.
NATIVE_CXXFLAGS := -std=c++17 -Wall -Wextra -Werror -fvisibility=hidden -fPIC -fno-exceptions -fno-rtti -Inative/include
$(OUT)/native/atb_text.o: native/hooks/atb/text.cpp native/native.mk
	@mkdir -p $(@D)
	$(subst zig cc,zig c++,$(ZIGCC)) $(NATIVE_CXXFLAGS) -O2 -g1 -nostdinc++ -c -o $@ $<

$(native_names): $(native_library)
	ln -sf $(notdir $<) $@

# ---- what mssanitizer preloads, too, and programs link that were built with its header: works without the agent
native_acl := $(wildcard native/hooks/acl/*.c) native/agent/symbols.c
native_sanitizer := $(OUT)/tools/mssanitizer/lib64/libascend_acl_hook.so $(OUT)/tools/mssanitizer/include/acl/acl.h

$(OUT)/tools/mssanitizer/lib64/libascend_acl_hook.so: $(native_acl) $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_CFLAGS) $(NATIVE_LDFLAGS) -Wl,-soname,libascend_acl_hook.so -o $@ $(native_acl)

$(OUT)/tools/mssanitizer/include/acl/acl.h: native/hooks/acl/include/acl/acl.h
	@mkdir -p $(@D)
	install -m 644 $< $@

# ---- what the front script starts: a program without a C library
NATIVE_START_FLAGS := -std=gnu17 -Wall -Wextra -Werror -O2 -ffreestanding -fno-builtin -fno-stack-protector -nostdlib -static -s

$(OUT)/bin/msmemscope.start: native/start/start.c native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_START_FLAGS) -o $@ $<

native_artefacts := $(native_library) $(native_names) $(native_sanitizer) $(OUT)/bin/msmemscope.start
artefacts += $(native_artefacts) $(OUT)/lib64/msmemscope-gauge

$(OUT)/lib64/msmemscope-gauge: native/gauge/gauge.c native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_CFLAGS) -O2 -g1 -o $@ $< -ldl

.PHONY: native
native: $(native_artefacts)

# ---- unit tests: agent, hooks and tests in one program, in one folder per kind of build
#
# The fakes stand for the libraries below us, found by ASCEND_HOME_PATH; the plain edition also has the old hash table.
native_unit := $(wildcard native/test/test_*.c) native/test/main.c native/test/child.c native/test/collector.c
native_tested := $(native_agent) $(native_hooks)
NATIVE_TEST_CFLAGS := $(NATIVE_CFLAGS) -g -O1 -Inative/test -Inative/hooks/kernel -DHANDSHAKE_MS=300 -DSILENCE_MS=50 -DPATIENCE_MS=300
native_inner := -DFAKE_INNER
native_plain := -Wl,--hash-style=sysv
native_ascend_hal := -DFAKE_HAL
native_ascendcl :=
native_runtime := -DFAKE_RUNTIME
native_acl_rt_impl := -DFAKE_ACL_IMPL
native_ascendcl_impl := -DFAKE_ACL_IMPL
native_profapi := -DFAKE_PROFAPI
native_fakes_inner := ascend_hal ascendcl runtime acl_rt_impl profapi
native_fakes_plain := ascend_hal ascendcl runtime ascendcl_impl profapi

# native_fake: folder, edition, library
define native_fake
$(1)/$(2)/lib64/lib$(3).so: native/test/fake_stack.c native/test/fake_kernel.c native/test/fake.h native/native.mk
	@mkdir -p $$(@D)
	$$(CC) $$(NATIVE_CFLAGS) -fPIC -shared $$(native_$(2)) $$(native_$(3)) -Wl,-soname,lib$(3).so -o $$@ \
		$$(if $$(filter ascend_hal ascendcl,$(3)),native/test/fake_stack.c) native/test/fake_kernel.c
endef
# native_plugin: folder, name, flags. For the unwinder.
define native_plugin
$(1)/plugin-$(2).so: native/test/plugin.c native/native.mk
	@mkdir -p $$(@D)
	$$(CC) -O1 -fPIC -fexceptions -shared $(3) -o $$@ $$<
endef
# native_tests: kind, extra flags
define native_tests
build/native/$(1)/atb_text.o: native/hooks/atb/text.cpp native/native.mk
	@mkdir -p $$(@D)
	$$(CXX) $$(NATIVE_CXXFLAGS) -g -O1 $(2) -c -o $$@ $$<
build/native/$(1)/unit: $$(native_tested) $$(native_unit) build/native/$(1)/atb_text.o $$(native_headers) native/native.mk
	@mkdir -p $$(@D)
	cd $$(@D) && $$(CC) $$(patsubst -Inative/%,-I$$(CURDIR)/native/%,$$(NATIVE_TEST_CFLAGS)) $(2) -rdynamic -pthread -o unit \
		$$(addprefix $$(CURDIR)/,$$(native_tested) $$(native_unit)) atb_text.o -lcmocka
$(foreach e,inner plain,$(foreach l,$(native_fakes_$(e)),$(eval $(call native_fake,build/native/$(1),$(e),$(l)))))
$(foreach p,a b,$(eval $(call native_plugin,build/native/$(1),$(p),)))
$(eval $(call native_plugin,build/native/$(1),c,-DPAD))
.PHONY: native-$(1)-build
native-$(1)-build: build/native/$(1)/unit $(foreach e,inner plain,$(foreach l,$(native_fakes_$(e)),build/native/$(1)/$(e)/lib64/lib$(l).so)) \
	$(patsubst %,build/native/$(1)/plugin-%.so,a b c)
endef
$(eval $(call native_tests,test,))
$(eval $(call native_tests,asan,-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined))
# gcc warns that TSan does not see fences; the one in ring.c orders two atomics, no plain data.
$(eval $(call native_tests,tsan,-fsanitize=thread -Wno-tsan))
$(eval $(call native_tests,cov,--coverage))

.PHONY: native-test native-asan native-tsan native-cov
native-test: native-test-build native-stress $(native_artefacts)
	native/test/check_libraries.sh $(OUT)/lib64
	native/test/check_libraries.sh $(OUT)/tools/mssanitizer/lib64
	build/native/test/unit

native-asan: native-asan-build
	build/native/asan/unit

native-tsan: native-tsan-build
	TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:atexit_sleep_ms=0:suppressions=native/test/tsan.supp build/native/tsan/unit

# The tree of the build with libraries for gcov in it, for what only a real process brings to run.
native_cov_tree := build/native/cov/tree
native_cov_so := $(CC) -O0 -g -fPIC -shared --coverage -fprofile-update=atomic -pthread
.PHONY: native-cov-tree
native-cov-tree: $(native_artefacts) build/native/cov/atb_text.o
	rm -rf $(native_cov_tree) && mkdir -p $(native_cov_tree)/obj
	cp -a $(addprefix $(OUT)/,bin lib64 vnpu examples tools python) $(native_cov_tree)/
	cd $(native_cov_tree)/obj && $(native_cov_so) $(patsubst -Inative/%,-I$(CURDIR)/native/%,$(NATIVE_CFLAGS)) -Wl,-z,lazy -Wl,-z,nodelete \
		-Wl,-soname,libascend_leaks.so -o ../lib64/libascend_kernel_hook.so $(addprefix $(CURDIR)/,$(native_agent) $(native_hooks)) ../../atb_text.o
	cd $(native_cov_tree)/obj && $(native_cov_so) $(patsubst -Inative/%,-I$(CURDIR)/native/%,$(NATIVE_CFLAGS)) \
		-o ../tools/mssanitizer/lib64/libascend_acl_hook.so $(addprefix $(CURDIR)/,$(native_acl))
	cd $(native_cov_tree)/obj && $(native_cov_so) $(patsubst -Inative/%,-I$(CURDIR)/native/%,$(HOSTHEAP_CFLAGS)) \
		-o ../lib64/libmsmemscope_host_mem_hook.so $(addprefix $(CURDIR)/,$(hostheap_sources))

native-cov: native-cov-build native-cov-tree hostheap-test-build
	native/cover.sh

# ---- messages at random: SECONDS=10
build/native/asan/fuzz_messages: $(native_tested) build/native/asan/atb_text.o native/test/fuzz_messages.c native/test/collector.c $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_TEST_CFLAGS) -fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -rdynamic -pthread -o $@ \
		$(native_tested) native/test/fuzz_messages.c native/test/collector.c build/native/asan/atb_text.o -ldl

.PHONY: native-fuzz
native-fuzz: build/native/asan/fuzz_messages
	build/native/asan/fuzz_messages $(SECONDS)

# ---- Python frames: what native/pyframes reads against what every Python of this machine says
build/native/test/libpyframes_probe.so: $(native_pyframes) native/test/pyframes_probe.c $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -O2 -g -fPIC -shared -o $@ $(native_pyframes) native/test/pyframes_probe.c -ldl

.PHONY: native-pyframes
native-pyframes: build/native/test/libpyframes_probe.so
	native/test/pyframes.sh $<

# ---- figures: ns per event in the hook, and the start of a process that never records
build/native/bench/bench: native/test/bench.c native/test/collector.c $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -Inative/test -O2 -rdynamic -pthread -o $@ native/test/bench.c native/test/collector.c -ldl

build/native/bench/exec_cost: native/test/exec_cost.c native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -O2 -o $@ $<

build/native/bench/unwind: native/test/bench_unwind.c $(native_unwind) $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -O2 -fomit-frame-pointer -o $@ native/test/bench_unwind.c $(native_unwind)

build/native/bench/libbench_stack.so: native/test/bench_stack.c native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -O2 -fomit-frame-pointer -fPIC -shared -o $@ $<

# An event without stacks, with 20 frames of C, with 20 frames of Python.
.PHONY: native-bench-stack
native-bench-stack: build/native/bench/libbench_stack.so build
	for stacks in '' c:20 python:20; do \
		echo "call stacks: $${stacks:-none}"; \
		build/bin/msmemscope --output-path=build/native/bench/out --call-stack=$$stacks \
			python3 native/test/bench_stack.py $< | grep '^python'; \
	done
	rm -r build/native/bench/out

.PHONY: native-bench
native_preload := $(patsubst %,build/lib64/lib%.so,leaks_ascend_hal_hook ascend_mstx_hook ascend_kernel_hook)
native-bench: build/native/bench/bench build/native/bench/unwind build/native/bench/exec_cost $(native_artefacts)
	LD_PRELOAD=build/lib64/libleaks_ascend_hal_hook.so build/native/bench/bench
	build/native/bench/unwind
	build/native/bench/exec_cost $(abspath $(native_preload)) -- /bin/true
	build/native/bench/exec_cost $(abspath $(native_preload)) -- sh -c :

# ---- stress: kills at random instants against a small ring
build/native/stress: $(native_agent) native/test/stress.c native/test/collector.c $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -Inative/test -O2 -g -pthread -o $@ $(native_agent) native/test/stress.c native/test/collector.c

.PHONY: native-stress
native-stress: build/native/stress
	build/native/stress
	build/native/stress -k 3 -t 64 -i 5000 -m 500
