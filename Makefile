# make build    everything that a user needs, below build/; fetches its tools into .tools/ first
# make demo     build, then a training loop with a planted leak on two virtual cards
# make test     everything that CI runs; the last line has the count
# make smoke    end-to-end suites;  LEVEL=2 for all of them
# make property random programs against a model;  N=1000 of them
# make test-python  the tests of the Python module with every Python from 3.8 to 3.14 that is installed; SOAK=1 for a minute of threads
# make smoke-asan, smoke-tsan   level 1 with the preloaded library under a sanitizer, not part of CI;  RUN=REGEXP of some tests
# make soak     the long kill tests, not part of CI
# make real     real programs under an open window of the host heap, not part of CI
# make lsi      how often suspected_leak is right, on real programs; half an hour, not part of CI; LSI=FOLDER for others (test/lsi/README.md)
# make torch-smoke   PyPI's torch and torch_npu on the virtual NPU, not part of CI; SCRIPTS="mlp memory" for some of its scripts
# make bench    the figures of bench/
# make bench-offline   those of the dump questions, beside Python and wc -l; ROWS="1000000 20000000"
# make fuzz     each fuzz target for FUZZTIME=10m
# make lint     formatters and linters only
# make generate the Go twin of native/include/wire.h
# make wheel    the build tree as a Python wheel, below build/dist/
# make build-aarch64   the same tree for the other architecture, below build/aarch64/
#
# The fragments that are included below add libraries and programs to `artefacts`, and define tests. They get: OUT (where
# the tree goes), ARCH (x86_64, aarch64), ZIGCC (the C compiler for what ships; it bounds the GLIBC symbols), CC (gcc,
# for sanitizers and coverage).

HOST_ARCH := $(shell uname -m)
ARCH ?= $(HOST_ARCH)
OUT := build$(if $(filter-out $(HOST_ARCH),$(ARCH)),/$(ARCH))
LEVEL ?= 1

GO := $(CURDIR)/.tools/bin/go
ZIGCC := $(CURDIR)/.tools/bin/zig cc -target $(ARCH)-linux-gnu.2.17
CC := gcc
# zig's caches: beside the tools, so that a home directory that cannot be written is no obstacle.
export ZIG_GLOBAL_CACHE_DIR ?= $(CURDIR)/.tools/zig-cache
export ZIG_LOCAL_CACHE_DIR ?= $(CURDIR)/.tools/zig-cache
export CGO_ENABLED := 0
export GOARCH := $(if $(filter aarch64,$(ARCH)),arm64,amd64)
export GOFLAGS := -trimpath -buildvcs=false

VERSION := $(shell cat VERSION)
GO_LDFLAGS := -s -w -X memscope/internal/cli.version=$(VERSION)

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: build build-aarch64 wheel demo test test-python smoke property soak bench bench-offline fuzz lint clean generate FORCE

# The tools come before every other rule: make rebuilds an included file first and starts again.
ifneq ($(MAKECMDGOALS),clean)
include .tools/ready.mk
endif
.tools/ready.mk: tools/setup.sh tools/requirements.txt go.mod
	tools/setup.sh build
	touch $@

.tools/ready-test: tools/setup.sh
	tools/setup.sh test
	touch $@

artefacts := $(addprefix $(OUT)/bin/,msmemscope msmemscope.run msmemscope.bin mssanitizer)
-include native/agent/model/model.mk
-include native/native.mk
-include native/hostheap/hostheap.mk
-include vnpu/vnpu.mk
-include test/test.mk

build: $(artefacts) python-tree

# The Python package lies beside bin and lib64, for PYTHONPATH and for the launcher.
.PHONY: python-tree
python-tree:
	@mkdir -p $(OUT)/python
	rm -rf $(OUT)/python/msmemscope && cp -r python/msmemscope $(OUT)/python/

$(OUT)/bin/msmemscope: scripts/msmemscope
	@mkdir -p $(@D)
	install -m 755 $< $@

# The same front under another name.
$(OUT)/bin/mssanitizer: $(OUT)/bin/msmemscope
	ln -sf msmemscope $@

# The launcher, and the whole program. Go knows better than make what is out of date.
$(OUT)/bin/msmemscope.run: FORCE
	@mkdir -p $(@D)
	$(GO) build -ldflags '$(GO_LDFLAGS)' -o $@ ./cmd/msmemscope-run

$(OUT)/bin/msmemscope.bin: FORCE
	@mkdir -p $(@D)
	$(GO) build -ldflags '$(GO_LDFLAGS)' -o $@ ./cmd/msmemscope
FORCE:

build-aarch64:
	$(MAKE) ARCH=aarch64 build

wheel: build
	tools/wheel.py $(OUT) $(OUT)/dist

demo: build
	tools/demo.sh $(OUT)

generate:
	$(GO) generate ./...

lint:
	tools/lint.sh

test: .tools/ready-test
	tools/test.sh

smoke: build targets .tools/ready-test
	SMOKE_LEVEL=$(LEVEL) $(GO) test -count=1 -timeout 20m ./test/smoke/...

test-python: build
	for version in 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do \
	    interpreter=$$(tools/python.sh $$version) || continue; \
	    $$interpreter --version; $$interpreter -m unittest discover -s test/python -t test/python || exit 1; \
	done

# Level 1 with the preloaded library under a sanitizer. SKIP: the host heap's library has a malloc of its own, as a sanitizer
# has; another architecture; what is about variables and words that programs get, which are others here; a SIGSEGV that a program
# means. With TSan, whose library has to be loaded first, also what is not started by the suites' own way. Reports of the sanitizer
# land in build/KIND/report.*; a run is clean without one.
RUN ?= .
SKIP ?= HostLeak|AArch64|TestUsage$$|TestEnvironment$$|Status/(no|directory|segv)
smoke-tsan: SKIP := $(SKIP)|LoadEnvironment|ClosedOutput|(Watch|Background)DiskFull|TestControl|TestSanitizer|BadOutputPath/(read|below_read|full|nearly|no_)
.PHONY: smoke-asan smoke-tsan
smoke-asan: SANITIZER := address
smoke-asan: SANITIZER_LIB := libasan.so
smoke-tsan: SANITIZER := thread
smoke-tsan: SANITIZER_LIB := libtsan.so
smoke-asan smoke-tsan: build targets .tools/ready-test
	tools/sanitizer-tree.sh $(SANITIZER) build/$(SANITIZER)
	MSMEMSCOPE_BUILD=$(CURDIR)/build/$(SANITIZER) SMOKE_LEVEL=1 SMOKE_KILLS=3 SMOKE_PRELOAD=$$($(CC) -print-file-name=$(SANITIZER_LIB)) \
	ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:log_path=$(CURDIR)/build/$(SANITIZER)/report \
	TSAN_OPTIONS=die_after_fork=0:atexit_sleep_ms=0:suppressions=$(CURDIR)/native/test/tsan.supp:log_path=$(CURDIR)/build/$(SANITIZER)/report \
		$(GO) test -count=1 -timeout 30m -run '$(RUN)' -skip '$(SKIP)' ./test/smoke
	@for report in build/$(SANITIZER)/report.*; do if [ -e "$$report" ]; then head -n 40 build/$(SANITIZER)/report.*; exit 1; fi; done

property: build targets
	test/property/run.py $(N)

soak: build targets .tools/ready-test
	SMOKE_LEVEL=2 SOAK=1 $(GO) test -count=1 -timeout 2h -v ./test/smoke/...

bench: build .tools/ready-test
	bench/run

bench-offline: .tools/ready.mk
	bench/offline/run.sh $(ROWS)

fuzz: .tools/ready.mk
	tools/fuzz.sh $(FUZZTIME)

clean:
	rm -rf build
