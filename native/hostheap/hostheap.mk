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

# For test/property/heap.py.
$(hostheap_test)/random: $(patsubst %,native/hostheap/test/%,random.c account.c account.h) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) -fvisibility=default -fno-builtin -fno-optimize-sibling-calls -O2 -g -pthread -o $@ $(filter %.c,$^) -ldl

$(hostheap_test)/pool.so: native/hostheap/test/pool.c
	@mkdir -p $(@D)
	$(CC) -O1 -fPIC -shared -o $@ $<

$(hostheap_test)/plugin-a.so $(hostheap_test)/plugin-b.so: native/hostheap/test/plugin.c
	@mkdir -p $(@D)
	$(CC) -O1 -fno-builtin -fPIC -shared -o $@ $<

# PROGRAMS, KILLS: random programs against their own account, to their end and killed at a random moment.
.PHONY: hostheap-test hostheap-test-build
PROGRAMS ?= 200
KILLS ?= 100
hostheap-test-build: $(patsubst %,$(hostheap_test)/%,test_hostheap target random plugin-a.so plugin-b.so pool.so)
hostheap-test: build hostheap-test-build
	$(hostheap_test)/test_hostheap $(hostheap_library)
	test/property/heap.py $(hostheap_test)/random $(PROGRAMS)
	test/property/heap.py --kills $(hostheap_test)/random $(KILLS)

# The hook and its target as one program under the thread sanitizer, which has a malloc of its own: so that of the hook bears
# another name here and is called by the target alone. The operators stay away: libtsan has some, too.
hostheap_tsan := $(hostheap_test)/tsan
hostheap_renamed := $(foreach f,malloc calloc realloc reallocarray posix_memalign aligned_alloc memalign valloc pvalloc free cfree \
	free_sized free_aligned_sized malloc_usable_size dlclose _exit _Exit,-D$(f)=hooked_$(f))
$(hostheap_tsan)/target: $(filter-out %/operators.c,$(hostheap_sources)) native/hostheap/test/target.c native/hostheap/test/target.h \
		$(hostheap_headers) native/hostheap/hostheap.mk
	@mkdir -p $(@D)
	$(CC) $(HOSTHEAP_CFLAGS) $(hostheap_renamed) -fsanitize=thread -Wno-tsan -fno-builtin -O1 -g -rdynamic -pthread -o $@ $(filter %.c,$^) -ldl

$(hostheap_tsan)/plugin-a.so $(hostheap_tsan)/plugin-b.so: native/hostheap/test/plugin.c
	@mkdir -p $(@D)
	$(CC) $(hostheap_renamed) -O1 -fno-builtin -fPIC -shared -o $@ $<

$(hostheap_tsan)/test_hostheap: $(hostheap_test)/test_hostheap
	@mkdir -p $(@D)
	cp $< $@

# SOAK=1: 2,000 forks. Allocation in signal handlers is what one of the cases is about.
.PHONY: hostheap-tsan
hostheap-tsan: $(patsubst %,$(hostheap_tsan)/%,test_hostheap target plugin-a.so plugin-b.so)
	for case in storms threads complaint_1_forks complaint_4_and_23_loads signal_handlers second_window; do \
		TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:atexit_sleep_ms=0:report_signal_unsafe=0 \
			$(hostheap_tsan)/test_hostheap '' $$case || exit; \
	done

# ---- figures: ROUNDS=5 WORKLOADS=W1,W2 TOOLS=... BASE=another build of the library; compare.c has the words
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

# 100 interim snapshots beside a storm of 2 million blocks
.PHONY: bench-host-interim
bench-host-interim: $(hostheap_library) $(hostheap_bench)/workload
	SOAK=1 $(GO) test -count=1 -v -run InterimStorm ./internal/hostheap

# ---- real programs under an open window, beside themselves without us; what is not installed is skipped. Not part of CI.
.PHONY: real
real: build
	test/real/run.sh
