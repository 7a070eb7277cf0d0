# The host heap's hook and its tests. Included by the top Makefile.
hostheap_sources := $(wildcard native/hostheap/*.c native/unwind/*.c native/pyframes/*.c) native/agent/symbols.c
hostheap_headers := $(wildcard native/hostheap/*.h native/unwind/*.h native/pyframes/*.h) native/include/hostheap.h \
	native/include/wire.h native/agent/symbols.h
HOSTHEAP_CFLAGS := -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -fvisibility=hidden -fno-builtin-malloc \
	$(patsubst %,-Inative/%,include hostheap unwind pyframes agent)

# Linked as the agent is, native.mk has the reasons. As one piece, and with the frame pointer for other uses: a call is a
# chain of short functions of several files, and is 7 % faster so.
hostheap_library := $(OUT)/lib64/libmsmemscope_host_mem_hook.so
$(hostheap_library): $(hostheap_sources) $(hostheap_headers) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(ZIGCC) $(HOSTHEAP_CFLAGS) $(NATIVE_LDFLAGS) -fomit-frame-pointer -flto -Wl,-soname,$(@F) -o $@ $(hostheap_sources)

artefacts += $(hostheap_library)

# ---- tests: real processes under the library, and what they have left in the tables
hostheap_test := build/native/hostheap
$(hostheap_test)/test_hostheap: native/hostheap/test/test_hostheap.c native/hostheap/test/tables.c $(wildcard native/hostheap/test/*.h) \
		$(hostheap_headers) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) -O1 -g -o $@ $(filter %.c,$^) -lcmocka

# Not by their names, lest the compiler know what malloc and free do to each other.
$(hostheap_test)/target: native/hostheap/test/target.c native/hostheap/test/target.h native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) -fno-builtin -O2 -g -pthread -o $@ $< -ldl

$(hostheap_test)/pool.so: native/hostheap/test/pool.c
	@mkdir -p $(@D)
	$(CC) -O1 -fPIC -shared -o $@ $<

$(hostheap_test)/plugin-a.so $(hostheap_test)/plugin-b.so: native/hostheap/test/plugin.c
	@mkdir -p $(@D)
	$(CC) -O1 -fno-builtin -fPIC -shared -o $@ $<

.PHONY: hostheap-test
hostheap-test: $(hostheap_library) $(patsubst %,$(hostheap_test)/%,test_hostheap target plugin-a.so plugin-b.so pool.so)
	$(hostheap_test)/test_hostheap $(hostheap_library)

# ---- figures: ROUNDS=5 WORKLOADS="W1 W2"
hostheap_bench := build/native/hostheap-bench
$(hostheap_bench)/workload $(hostheap_bench)/workload-lsan: native/hostheap/bench/workload.c native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) -fno-builtin -O2 -g -fomit-frame-pointer -pthread $(if $(findstring lsan,$@),-fsanitize=leak) -o $@ $<

$(hostheap_bench)/objects.py: native/hostheap/bench/objects.py
	@mkdir -p $(@D)
	cp $< $@

$(hostheap_bench)/compare: native/hostheap/bench/compare.c native/hostheap/test/tables.c native/hostheap/test/tables.h \
		$(hostheap_headers) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) -O2 -o $@ $(filter %.c,$^)

.PHONY: bench-host
ROUNDS ?= 5
bench-host: $(hostheap_library) $(patsubst %,$(hostheap_bench)/%,compare workload workload-lsan objects.py)
	$(hostheap_bench)/compare $(hostheap_library) $(ROUNDS)

# ---- real programs under an open window, beside themselves without us; what is not installed is skipped. Not part of CI.
.PHONY: real
real: build
	test/real/run.sh
