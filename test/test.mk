# The programs that the end-to-end suites run under the tool. Included by the top Makefile; also works alone:
# make -f test/test.mk targets
OUT ?= build
TARGET_CC ?= gcc

targets := $(patsubst test/targets/%.c,$(OUT)/targets/%,$(filter-out %/everywhere.c,$(wildcard test/targets/*.c))) \
	$(OUT)/targets/atb_cxx_abi_0 $(OUT)/targets/atb_cxx_abi_1 $(OUT)/targets/harm $(OUT)/targets/libeverywhere.so
TARGET_CFLAGS := -std=gnu17 -O2 -g -Wall -Wextra -Werror -Ivnpu/include -Inative/include

.PHONY: targets
targets: $(targets)

$(OUT)/targets/leaky: TARGET_SOURCES := examples/caching_pool.c examples/pool_report.c
$(OUT)/targets/leaky: examples/caching_pool.c examples/pool_report.c $(wildcard examples/*.h)
$(OUT)/targets/%: test/targets/%.c $(wildcard test/targets/*.h) test/test.mk
	@mkdir -p $(@D)
	$(TARGET_CC) $(TARGET_CFLAGS) -pthread -o $@ $< $(TARGET_SOURCES) \
		-Wl,-rpath,'$$ORIGIN/../vnpu/lib64' -Wl,-rpath-link,$(OUT)/vnpu/lib64 -L$(OUT)/vnpu/lib64 -Wl,--as-needed -lascendcl -lms_tools_ext -lruntime -lascend_hal -ldl

$(OUT)/targets/libeverywhere.so: test/targets/everywhere.c test/targets/target.h test/test.mk
	@mkdir -p $(@D)
	$(TARGET_CC) $(TARGET_CFLAGS) -fno-builtin -fPIC -shared -o $@ $< \
		-Wl,-rpath,'$$ORIGIN/../vnpu/lib64' -Wl,-rpath-link,$(OUT)/vnpu/lib64 -L$(OUT)/vnpu/lib64 -lascend_hal

$(OUT)/targets/harm: test/targets/harm.cpp test/test.mk
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -fno-builtin -fomit-frame-pointer -pthread -o $@ $< -ldl

# One for each C++ ABI of libatb.so.
$(OUT)/targets/atb_cxx_abi_%: test/targets/atb.cpp $(wildcard test/targets/*.h vnpu/include/atb/*.h) test/test.mk
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -Ivnpu/include -D_GLIBCXX_USE_CXX11_ABI=$* $(if $(filter 0,$*),-DATB_OLD_TAIL) -o $@ $< \
		-Wl,-rpath,'$$ORIGIN/../vnpu/lib64:$$ORIGIN/../vnpu/atb/cxx_abi_$*/lib' -Wl,-rpath-link,$(OUT)/vnpu/lib64 \
		-L$(OUT)/vnpu/lib64 -L$(OUT)/vnpu/atb/cxx_abi_$*/lib -latb -lascendcl -lascend_hal

# Programs that somebody wrote who did not know how leaks are judged, under the tool: how often it is right. LSI: the folder with the
# programs (test/lsi/README.md). ARGS: of evaluate.py. Not position-independent, so that addresses in reports are those of addr2line.
LSI ?= test/lsi
lsi_name := $(notdir $(LSI))
# Programs in C++ that want a library which is not here: SQLite is the only one.
lsi_without := $(if $(wildcard /usr/include/sqlite3.h),,$(patsubst $(LSI)/%.cpp,$(OUT)/$(lsi_name)/%,$(shell grep -l "link -lsqlite3" $(LSI)/*.cpp)))
lsi_programs := $(filter-out $(lsi_without),$(patsubst $(LSI)/%.cpp,$(OUT)/$(lsi_name)/%,$(wildcard $(LSI)/*.cpp)))

.PHONY: lsi
lsi: build $(lsi_programs)
	test/lsi/evaluate.py --folder $(LSI) --out $(OUT) $(ARGS)

$(OUT)/$(lsi_name)/%: $(LSI)/%.cpp test/lsi/beats.hpp test/test.mk
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -Itest/lsi -no-pie -pthread -o $@ $< $(shell sed -n 's|^// link ||p' $<)

# The real torch and torch_npu on the virtual NPU, not part of CI: the wheels are half a gigabyte.  make torch-smoke SCRIPTS="mlp memory"
.PHONY: torch-smoke
torch-smoke: build
	test/torch/smoke.sh $(OUT) $(SCRIPTS)
