# The agent, the hooks and their tests. Included by the top Makefile, which says what OUT, ARCH and ZIGCC are; alone
# (make -f native/native.mk native) it falls back on the values below.
ARCH ?= $(shell uname -m)
OUT ?= build
ZIGCC ?= .tools/zig/ziglang/zig cc -target $(ARCH)-linux-gnu.2.17
CC ?= gcc

native_agent := $(wildcard native/agent/*.c)
native_hooks := leaks_ascend_hal_hook ascend_mstx_hook ascend_kernel_hook
native_leaks_ascend_hal_hook := $(wildcard native/hooks/hal/*.c)
native_ascend_mstx_hook := $(wildcard native/hooks/mstx/*.c)
native_ascend_kernel_hook := $(wildcard native/hooks/kernel/*.c)
native_headers := $(wildcard native/include/*.h native/agent/*.h native/hooks/*/*.h native/test/*.h)

NATIVE_CFLAGS := -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -fvisibility=hidden -Inative/include -Inative/agent

# ---- the libraries that ship
#
# Every process below a traced program loads these four, most of them for nothing, so loading is made cheap: lazy
# binding (no symbol look-ups), no RELRO (a segment and an mprotect less), and nothing needed but libc and, by its full
# path, the agent: $ORIGIN in DT_NEEDED itself saves ld.so a search. native/test/exec_cost.c measures it.
#
# They are linked as for glibc 2.34, which has everything in libc; linked as for 2.17 they would ask for libpthread.so.0
# too, 60 us more per process for nothing on a newer system. What they use is no newer than 2.17 all the same: CI checks.
NATIVE_LDFLAGS := -target $(ARCH)-linux-gnu.2.34 -shared -fPIC -O2 -g1 -Wl,-z,lazy -Wl,-z,norelro -Wl,-z,nodelete
native_link_stub := $(OUT)/native/origin/libascend_leaks.so

$(OUT)/lib64/libascend_leaks.so: $(native_agent) $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_CFLAGS) $(NATIVE_LDFLAGS) -Wl,-soname,libascend_leaks.so -o $@ $(native_agent)

# The same with the soname that the hooks are to ask for; only the linker sees it.
$(native_link_stub): $(native_agent) $(native_headers) native/native.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(NATIVE_CFLAGS) $(NATIVE_LDFLAGS) -Wl,-soname,'$$ORIGIN/libascend_leaks.so' -o $@ $(native_agent)

define native_hook
$(OUT)/lib64/lib$(1).so: $$(native_$(1)) $$(native_headers) native/native.mk $$(native_link_stub)
	@mkdir -p $$(@D)
	$$(ZIGCC) $$(NATIVE_CFLAGS) $$(NATIVE_LDFLAGS) -Wl,-soname,lib$(1).so -o $$@ $$(native_$(1)) $$(native_link_stub)
endef
$(foreach h,$(native_hooks),$(eval $(call native_hook,$(h))))

native_artefacts := $(OUT)/lib64/libascend_leaks.so $(native_hooks:%=$(OUT)/lib64/lib%.so)
artefacts += $(native_artefacts)

.PHONY: native
native: $(native_artefacts)
