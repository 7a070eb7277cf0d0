# The host heap's hook and its tests. Included by the top Makefile.
hostheap_sources := $(wildcard native/hostheap/*.c native/unwind/*.c native/pyframes/*.c) native/agent/symbols.c
hostheap_headers := $(wildcard native/hostheap/*.h native/unwind/*.h native/pyframes/*.h) native/include/hostheap.h \
	native/include/wire.h native/agent/symbols.h
HOSTHEAP_CFLAGS := -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -fvisibility=hidden -fno-builtin-malloc \
	$(patsubst %,-Inative/%,include hostheap unwind pyframes agent)

# Linked as the agent is, native.mk has the reasons.
hostheap_library := $(OUT)/lib64/libmsmemscope_host_mem_hook.so
$(hostheap_library): $(hostheap_sources) $(hostheap_headers) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(HOSTHEAP_CFLAGS) $(NATIVE_LDFLAGS) -Wl,-soname,$(@F) -o $@ $(hostheap_sources)

artefacts += $(hostheap_library)
