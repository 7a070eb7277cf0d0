# The virtual NPU and the example programs. Included by the top Makefile, which says what OUT, ARCH and ZIGCC are; alone
# (make -f vnpu/vnpu.mk vnpu) it falls back on the values below.
HOST_ARCH ?= $(shell uname -m)
ARCH ?= $(HOST_ARCH)
OUT ?= build
ZIGCC ?= .tools/bin/zig cc -target $(ARCH)-linux-gnu.2.17

VNPU_CFLAGS := -std=gnu17 -O2 -g -Wall -Wextra -Werror -fvisibility=hidden -Ivnpu/include
VNPU_HEADERS := $(wildcard vnpu/*/*.h vnpu/include/*/*.h vnpu/include/*/*.def)

# Each library: its sources, and the libraries right below it. The layering is that of the real stack.
vnpu_ascend_hal := $(wildcard vnpu/hal/*.c) vnpu/common/slab.c
vnpu_runtime := $(wildcard vnpu/runtime/*.c) vnpu/common/slab.c
vnpu_acl_rt_impl := $(filter-out vnpu/acl/forward.c,$(wildcard vnpu/acl/*.c))
vnpu_ascendcl := vnpu/acl/forward.c
vnpu_ms_tools_ext := vnpu/mstx/mstx.c
vnpu_profapi := vnpu/profapi/profapi.c
vnpu_dcmi := vnpu/dcmi/dcmi.c
vnpu_nnopbase := $(wildcard vnpu/nnop/*.c)
vnpu_acl_op_compiler := $(wildcard vnpu/op_compiler/*.c)
vnpu_empty := ge_runner graph acl_tdt_channel
$(foreach l,$(vnpu_empty),$(eval vnpu_$(l) := vnpu/empty/empty.c))
vnpu_below_runtime := ascend_hal
vnpu_below_nnopbase := runtime
vnpu_below_acl_op_compiler := nnopbase profapi ascendcl
vnpu_below_acl_rt_impl := runtime
vnpu_below_ascendcl := acl_rt_impl
vnpu_libs := ascend_hal runtime acl_rt_impl ascendcl ms_tools_ext profapi dcmi nnopbase acl_op_compiler $(vnpu_empty)

# vnpu_library: directory, library, compiler with flags
define vnpu_library
$(1)/lib$(2).so: $$(vnpu_$(2)) $$(VNPU_HEADERS) vnpu/vnpu.mk $(foreach b,$(vnpu_below_$(2)),$(1)/lib$(b).so)
	@mkdir -p $$(@D)
	$(3) $$(VNPU_CFLAGS) -fPIC -shared -pthread -Wl,-soname,lib$(2).so -Wl,-rpath,'$$$$ORIGIN' -Wl,-z,now -Wl,-z,nodelete -o $$@ \
		$$(vnpu_$(2)) -L$(1) -Wl,--no-as-needed $(foreach b,$(vnpu_below_$(2)),-l$(b)) -Wl,--as-needed -ldl
endef
$(foreach l,$(vnpu_libs),$(eval $(call vnpu_library,$(OUT)/vnpu/lib64,$(l),$$(ZIGCC))))

# libatb.so in both C++ ABIs, cxx_abi_1 with a RunnerVariantPack of CANN 8.3 and later, and one that does not have what tools ask. For this
# machine only, where it has a g++: it needs its C++ library.
vnpu_atb_cxx_abi_0 := -D_GLIBCXX_USE_CXX11_ABI=0 -DATB_OLD_TAIL
vnpu_atb_cxx_abi_1 := -D_GLIBCXX_USE_CXX11_ABI=1
vnpu_atb_older := -D_GLIBCXX_USE_CXX11_ABI=1 -DATB_OLDER
vnpu_atb := $(if $(and $(filter $(HOST_ARCH),$(ARCH)),$(shell command -v $(CXX))),$(patsubst %,$(OUT)/vnpu/atb/%/lib/libatb.so,cxx_abi_0 cxx_abi_1 older))
$(OUT)/vnpu/atb/%/lib/libatb.so: vnpu/atb/atb.cpp $(VNPU_HEADERS) vnpu/vnpu.mk $(OUT)/vnpu/lib64/libascendcl.so
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -Ivnpu/include $(vnpu_atb_$*) -fPIC -shared -Wl,-soname,libatb.so \
		-Wl,-rpath,'$$ORIGIN/../../../lib64' -Wl,-z,now -o $@ $< -L$(OUT)/vnpu/lib64 -lascendcl

# libopapi.so, the operators, and libhccl.so: in C++, and so like libatb.so.
vnpu_opapi := $(if $(vnpu_atb),$(OUT)/vnpu/lib64/libopapi.so $(OUT)/vnpu/lib64/libhccl.so)
$(OUT)/vnpu/lib64/libopapi.so: $(wildcard vnpu/opapi/*.cpp)
$(OUT)/vnpu/lib64/libhccl.so: vnpu/hccl/hccl.cpp vnpu/opapi/tensor.cpp
$(OUT)/vnpu/lib64/libopapi.so $(OUT)/vnpu/lib64/libhccl.so: $(VNPU_HEADERS) vnpu/vnpu.mk $(OUT)/vnpu/lib64/libnnopbase.so
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -fvisibility=hidden -Ivnpu/include -fPIC -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' \
		-Wl,-z,now -o $@ $(filter %.cpp,$^) -L$(OUT)/vnpu/lib64 -Wl,--no-as-needed -lnnopbase -lruntime

vnpu_artefacts := $(vnpu_libs:%=$(OUT)/vnpu/lib64/lib%.so) $(vnpu_atb) $(vnpu_opapi)
artefacts += $(vnpu_artefacts)

.PHONY: vnpu
vnpu: $(vnpu_artefacts)

# ------------------------------------------------------------------ examples
#
# They find the libraries beside themselves (build/examples, build/vnpu/lib64); LD_LIBRARY_PATH goes first, so that the
# same programs run on the real stack.

# example: program, sources, libraries
define example
$(OUT)/examples/$(1): $(2) $$(wildcard examples/*.h) $$(VNPU_HEADERS) vnpu/vnpu.mk $(3:%=$(OUT)/vnpu/lib64/lib%.so)
	@mkdir -p $$(@D)
	$$(ZIGCC) $$(VNPU_CFLAGS) -pthread -Wl,-rpath,'$$$$ORIGIN/../vnpu/lib64' -o $$@ $(2) \
		-L$(OUT)/vnpu/lib64 $(3:%=-l%)
endef
$(eval $(call example,train,examples/train.c examples/caching_pool.c examples/pool_report.c,ascendcl ms_tools_ext))
$(eval $(call example,storm,examples/storm.c,ascend_hal))

# C++, without its library, and without debug information, as released programs are.
$(OUT)/examples/add_custom_npu: examples/add_custom_npu/main.cpp $(VNPU_HEADERS) vnpu/vnpu.mk $(OUT)/vnpu/lib64/libascendcl.so
	@mkdir -p $(@D)
	$(subst zig cc,zig c++,$(ZIGCC)) -O2 -g0 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -nostdlib++ -Ivnpu/include \
		-Wl,-rpath,'$$ORIGIN/../vnpu/lib64' -o $@ $< -L$(OUT)/vnpu/lib64 -lascendcl

# In C++, for this machine and where it has a compiler: zig would first build a C++ library of its own, which takes minutes.
$(OUT)/examples/hostleak: examples/hostleak.cpp vnpu/vnpu.mk
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -o $@ $<

$(OUT)/examples/%.py: examples/%.py
	@mkdir -p $(@D)
	install -m 755 $< $@

example_artefacts := $(addprefix $(OUT)/examples/,train storm add_custom_npu train.py hostleak.py $(and $(filter $(HOST_ARCH),$(ARCH)),$(shell command -v $(CXX)),hostleak))
artefacts += $(example_artefacts)

.PHONY: examples
examples: $(example_artefacts)

# ------------------------------------------------------------------ tests
#
# make vnpu-test                     with the address and undefined-behaviour sanitizers
# make vnpu-test SANITIZE=thread     with another one; SANITIZE= for none
# make vnpu-test COVERAGE=1          for gcov; reports lie below $(vnpu_test_dir)

SANITIZE ?= address,undefined
comma := ,
vnpu_test_dir := $(OUT)/vnpu-test/$(or $(subst $(comma),-,$(SANITIZE)),plain)$(if $(COVERAGE),-coverage)
VNPU_TEST_CC = $(CC) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all) $(if $(COVERAGE),--coverage)
$(foreach l,$(vnpu_libs),$(eval $(call vnpu_library,$(vnpu_test_dir)/lib64,$(l),$$(VNPU_TEST_CC))))

$(vnpu_test_dir)/injection.so: vnpu/test/injection.c $(VNPU_HEADERS) vnpu/vnpu.mk
	@mkdir -p $(@D)
	$(VNPU_TEST_CC) $(VNPU_CFLAGS) -fPIC -shared -o $@ $<

# Linked with -rdynamic: some tests export functions that the libraries must find.
vnpu_tests := $(patsubst vnpu/test/%.c,$(vnpu_test_dir)/%,$(wildcard vnpu/test/test_*.c))
$(vnpu_test_dir)/test_%: vnpu/test/test_%.c $(VNPU_HEADERS) vnpu/vnpu.mk $(vnpu_libs:%=$(vnpu_test_dir)/lib64/lib%.so)
	$(VNPU_TEST_CC) $(VNPU_CFLAGS) -pthread -rdynamic -Wl,-rpath,'$$ORIGIN/lib64' -o $@ $< \
		-L$(vnpu_test_dir)/lib64 $(vnpu_libs:%=-l%) -lcmocka

# report_thread_leaks: a forked child ends without joining its parent's threads, which is right.
.PHONY: vnpu-test
vnpu-test: $(vnpu_tests) $(vnpu_test_dir)/injection.so
	@set -e; export VNPU_TEST_INJECTION=$(abspath $(vnpu_test_dir))/injection.so TSAN_OPTIONS=report_thread_leaks=0; \
	for t in $(vnpu_tests); do $$t; done
