# The virtual NPU and the example programs. Included by the top Makefile, which says what OUT, ARCH and ZIGCC are; alone
# (make -f vnpu/vnpu.mk vnpu) it falls back on the values below.
ARCH ?= $(shell uname -m)
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
vnpu_below_runtime := ascend_hal
vnpu_below_acl_rt_impl := runtime
vnpu_below_ascendcl := acl_rt_impl
vnpu_libs := ascend_hal runtime acl_rt_impl ascendcl ms_tools_ext

# vnpu_library: directory, library, compiler with flags
define vnpu_library
$(1)/lib$(2).so: $$(vnpu_$(2)) $$(VNPU_HEADERS) vnpu/vnpu.mk $(foreach b,$(vnpu_below_$(2)),$(1)/lib$(b).so)
	@mkdir -p $$(@D)
	$(3) $$(VNPU_CFLAGS) -fPIC -shared -pthread -Wl,-soname,lib$(2).so -Wl,-rpath,'$$$$ORIGIN' -Wl,-z,now -o $$@ \
		$$(vnpu_$(2)) -L$(1) $(foreach b,$(vnpu_below_$(2)),-l$(b)) -ldl
endef
$(foreach l,$(vnpu_libs),$(eval $(call vnpu_library,$(OUT)/vnpu/lib64,$(l),$$(ZIGCC))))

vnpu_artefacts := $(vnpu_libs:%=$(OUT)/vnpu/lib64/lib%.so)
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

$(OUT)/examples/train.py: examples/train.py
	@mkdir -p $(@D)
	install -m 755 $< $@

example_artefacts := $(addprefix $(OUT)/examples/,train storm train.py)
artefacts += $(example_artefacts)

.PHONY: examples
examples: $(example_artefacts)
