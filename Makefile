# Makefile: the whole build. `make` -> build/thimble; `make help` lists the rest.
#
# A file's suffix is its ISA flags (`%_avx2.o: ISA := ...`), apart from CFLAGS so that no command line can drop them.

CC ?= gcc
AR ?= ar
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CROSS ?=
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g
LDFLAGS ?=
SAN ?=
Q ?= @

TARGET := $(shell $(CC) -dumpmachine)
MACHINE := $(firstword $(subst -, ,$(TARGET)))

LIBS_ENGINE := libpcre2-8 libxxhash
LIBS_TOOLS := jansson libedit inih
LIBS_TESTS := cmocka jansson

WARN := -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wnull-dereference
STD := -std=c11 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -D_DEFAULT_SOURCE
CODE := -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC -pthread -MMD -MP
INC := -Iinclude -Isrc -I$(BUILD) -I.
ENGINE_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(LIBS_ENGINE))
TOOLS_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(LIBS_TOOLS))
ENGINE_LIBS = $(shell $(PKG_CONFIG) --libs $(if $(STATIC),--static) $(LIBS_ENGINE)) -lm
TOOLS_LIBS = $(shell $(PKG_CONFIG) --libs $(if $(STATIC),--static) $(LIBS_TOOLS))
TESTS_LIBS = $(shell $(PKG_CONFIG) --libs $(LIBS_TESTS))
LINK := -pthread -Wl,-z,max-page-size=65536 $(if $(STATIC),-static)

SRC_ALL := $(wildcard src/*/*.c src/kernel/c/*.c src/model/arch/*.c src/model/block/*.c)
ifeq ($(MACHINE),x86_64)
SRC_ALL += $(wildcard src/kernel/x86/*.c)
endif
ifeq ($(MACHINE),aarch64)
SRC_ALL += $(wildcard src/kernel/arm/*.c)
endif
OBJ := $(SRC_ALL:%.c=$(BUILD)/%.o)
TOOL_SRC := $(wildcard tools/*.c tools/common/*.c)
TOOL_OBJ := $(TOOL_SRC:%.c=$(BUILD)/%.o)
ARCHS := $(patsubst src/model/arch/%.c,%,$(wildcard src/model/arch/*.c))
BLOCKS := $(patsubst src/model/block/%.c,%,$(wildcard src/model/block/*.c))

.PHONY: all lib check check-programs clean install help asan tsan fuzz style tests
all: $(BUILD)/thimble $(BUILD)/libthimble.so $(BUILD)/tests/vectors
lib: $(BUILD)/libthimble.a $(BUILD)/libthimble.so

ISA :=
%_avx2.o: ISA := -mavx2 -mfma -mf16c -mbmi -mbmi2
%_avxvnni.o: ISA := -mavx2 -mfma -mf16c -mbmi -mbmi2 -mavxvnni
%_avx512.o: ISA := -mavx2 -mfma -mf16c -mbmi -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd
%_avx512vnni.o: ISA := -mavx2 -mfma -mf16c -mbmi -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mavx512vnni
%_dotprod.o: ISA := -march=armv8.2-a+dotprod
%_i8mm.o: ISA := -march=armv8.2-a+dotprod+i8mm

# Lists of what a folder holds: written at every run, replaced when they changed (a file may have gone). block/foo.c
# defines th_block_foo.
$(BUILD)/arch_list.h: FORCE
	@mkdir -p $(@D)
	@{ echo '/* generated: architectures of src/model/arch */'; for a in $(ARCHS); do echo "ARCH($$a)"; done; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/block_list.h: FORCE
	@mkdir -p $(@D)
	@{ echo '/* generated: blocks of src/model/block */'; for b in $(BLOCKS); do echo "extern const Block th_block_$$b;"; done; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE

LISTS := $(BUILD)/arch_list.h $(BUILD)/block_list.h
$(BUILD)/src/%.o: src/%.c Makefile | $(LISTS)
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(STD) $(WARN) $(CODE) $(INC) $(ENGINE_CFLAGS) $(CFLAGS) $(SAN) $(ISA) -c $< -o $@

$(BUILD)/tools/%.o: tools/%.c Makefile
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(STD) $(WARN) $(CODE) -Iinclude -Itools $(TOOLS_CFLAGS) $(CFLAGS) $(SAN) -c $< -o $@

$(BUILD)/libthimble.a: $(OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(OBJ)

$(BUILD)/libthimble.so: $(OBJ)
	$(Q)$(CC) -shared -Wl,-soname,libthimble.so.0 -Wl,-z,max-page-size=65536 -pthread $(SAN) $(LDFLAGS) -o $@ $(OBJ) $(ENGINE_LIBS)
	$(Q)ln -sf libthimble.so $(BUILD)/libthimble.so.0

$(BUILD)/thimble: $(TOOL_OBJ) $(BUILD)/libthimble.a
	@echo "  LD  $@"
	$(Q)$(CC) $(LINK) $(SAN) $(LDFLAGS) -o $@ $(TOOL_OBJ) $(BUILD)/libthimble.a $(TOOLS_LIBS) $(ENGINE_LIBS)

# ---- tests: tests/unit/test_X.c, tests/kernel/check_X.c and tests/residency/test_X.c are programs of their own
TEST_SRC := $(wildcard tests/unit/test_*.c tests/kernel/check_*.c tests/residency/test_*.c)
TEST_BIN := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_NAMES := $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%)
REPLAY_BIN := $(FUZZ_NAMES:%=$(BUILD)/tests/fuzz/replay_%)
# (of the program: what is arithmetic, or reads a file that may come from anywhere)
TEST_LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/common/*.c tests/kernel/check.c)) \
                $(patsubst %,$(BUILD)/tools/common/%.o,loops kl_base logprob)
VECTORS_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/runner/*.c))

$(BUILD)/tests/%.o: tests/%.c Makefile | $(LISTS)
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(STD) $(WARN) -Wno-unused-parameter $(CODE) $(INC) -Itests $(ENGINE_CFLAGS) $(CFLAGS) $(SAN) $(ISA) -c $< -o $@

$(TEST_BIN): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_LIB_OBJ) $(BUILD)/libthimble.a
	$(Q)$(CC) -pthread $(SAN) $(LDFLAGS) -o $@ $< $(TEST_LIB_OBJ) $(BUILD)/libthimble.a $(TESTS_LIBS) $(ENGINE_LIBS)

$(BUILD)/tests/vectors: $(VECTORS_OBJ) $(TEST_LIB_OBJ) $(BUILD)/libthimble.a
	$(Q)$(CC) -pthread $(SAN) $(LDFLAGS) -o $@ $(VECTORS_OBJ) $(TEST_LIB_OBJ) $(BUILD)/libthimble.a $(shell $(PKG_CONFIG) --libs jansson) $(ENGINE_LIBS)
.SECONDARY:

# ---- fuzz targets: tests/fuzz/fuzz_X.c with corpus/X; replayed in `make check`, run by `make fuzz` (clang)
FUZZ_SECONDS ?= 30
$(REPLAY_BIN): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/replay.o $(BUILD)/tests/fuzz/fuzz_%.o $(TEST_LIB_OBJ) $(BUILD)/libthimble.a
	$(Q)$(CC) -pthread $(SAN) $(LDFLAGS) -o $@ $^ $(TESTS_LIBS) $(ENGINE_LIBS)
$(FUZZ_NAMES:%=$(BUILD)/fuzz_%): $(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(TEST_LIB_OBJ) $(BUILD)/libthimble.a
	$(Q)$(CC) -pthread $(SAN) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(TESTS_LIBS) $(ENGINE_LIBS)
fuzz-run: $(FUZZ_NAMES:%=$(BUILD)/fuzz_%)
	@for name in $(FUZZ_NAMES); do \
	    mkdir -p $(BUILD)/found/$$name; log=$(BUILD)/found/$$name.log; \
	    $(BUILD)/fuzz_$$name -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
	        -artifact_prefix=$(BUILD)/found/$$name- $(BUILD)/found/$$name tests/fuzz/corpus/$$name >$$log 2>&1 \
	        || { tail -n 60 $$log; exit 1; }; \
	    echo "fuzz $$name: $$(sed -n 's/stat::number_of_executed_units: *//p' $$log) inputs in $(FUZZ_SECONDS) s, nothing found"; \
	done
fuzz:
	@$(MAKE) BUILD=build/fuzz CC="$(filter ccache,$(CC)) clang" CFLAGS="-O1 -g1" \
	    SAN="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" fuzz-run

tests: $(TEST_BIN) $(REPLAY_BIN) $(if $(VECTORS_OBJ),$(BUILD)/tests/vectors)

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(TOOL_OBJ:.o=.d) $(TEST_SRC:%.c=$(BUILD)/%.d) $(TEST_LIB_OBJ:.o=.d) $(VECTORS_OBJ:.o=.d) $(FUZZ_SRC:%.c=$(BUILD)/%.d)

CHECK_SH := $(sort $(wildcard tests/cli/*.sh tests/golden/*.sh tests/fuzz/*.sh))
check: tests $(if $(TOOL_SRC),$(BUILD)/thimble)
	@BUILD=$(BUILD) THIMBLE=$(BUILD)/thimble sh scripts/run_tests.sh $(TEST_BIN) $(REPLAY_BIN) $(CHECK_SH)

# The parts that need no shell transcripts: for a second compiler and for emulators.
check-fast: tests $(BUILD)/thimble
	@BUILD=$(BUILD) sh scripts/run_tests.sh $(TEST_BIN) $(REPLAY_BIN)

# ---- aarch64 beside the native build (scripts/setup_arm64.sh installs what it needs), tests under qemu
ARM := BUILD=build/arm64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar \
       PKG_CONFIG="env PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig pkg-config"
.PHONY: arm64 arm64-build x86-old emulated cppcheck tidy check-fast
arm64-build:
	@$(MAKE) $(ARM) build/arm64/thimble tests

# Tests as another processor (CPU) runs them, 20 to 30 times slower. Left out for their time alone, half a minute to many
# each: what crosses homes, budgets and drafts, and damaged files by the thousand. None of it is about instructions.
EMULATED_SLOW := residency/test_law2 residency/test_draft residency/test_cache_types residency/test_checkpoints \
                 residency/test_snapshot residency/test_store unit/test_evict
EMULATED_ALL = $(filter-out $(EMULATED_SLOW:%=$(BUILD)/tests/%),$(TEST_BIN) $(REPLAY_BIN)) tests/emulated/commands.sh
EMULATED_KERNELS = $(filter $(BUILD)/tests/kernel/% %/test_cpu %/test_kernel,$(TEST_BIN))
EMULATED_COMMANDS = $(EMULATED_KERNELS) $(filter %/test_golden,$(TEST_BIN)) tests/emulated/commands.sh
EMULATED ?= $(EMULATED_ALL)
emulated: $(filter-out %.sh,$(EMULATED)) $(BUILD)/thimble $(BUILD)/tests/vectors
	@echo "as $(CPU):"; RUN_UNDER="$(CPU)" NATIVE=$(NATIVE) BUILD=$(BUILD) THIMBLE=$(BUILD)/thimble \
	    sh scripts/run_tests.sh $(EMULATED)
# Two runs of the above, as one result.
AS_ONE = awk '/ passed, .* skipped$$/ {p += $$1; f += $$3; s += $$5; n++; next} {print} \
         END {f += 2 - n; print p " passed, " f " failed, " s " skipped"; exit f > 0}'

# No -L: Debian's libraries for arm64 bring loader and C library of one version. The cross compiler brings a loader of its
# own; together (a version apart) they disagreed on where glibc keeps its cached stacks, and starting a thread hung.
arm64: arm64-build $(BUILD)/thimble
	@{ $(MAKE) --no-print-directory $(ARM) emulated NATIVE=$(BUILD)/thimble CPU="qemu-aarch64 -cpu cortex-a53"; \
	   $(MAKE) --no-print-directory $(ARM) emulated NATIVE=$(BUILD)/thimble CPU="qemu-aarch64 -cpu max" EMULATED='$$(EMULATED_KERNELS)'; } | $(AS_ONE)

# Old x86 machines: everything must run without AVX and with AVX2 alone. Without FMA a multiply-add is a function of many
# instructions, each of them emulated: two more programs are left to the other machines.
x86-old: tests $(BUILD)/thimble
	@{ $(MAKE) --no-print-directory emulated NATIVE=$(BUILD)/thimble CPU="qemu-x86_64 -cpu Nehalem" EMULATED='$$(filter-out %/test_attend %/test_model,$$(EMULATED_ALL))'; \
	   $(MAKE) --no-print-directory emulated NATIVE=$(BUILD)/thimble CPU="qemu-x86_64 -cpu Haswell" EMULATED='$$(EMULATED_COMMANDS)'; } | $(AS_ONE)

cppcheck:
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --suppressions-list=.cppcheck -j2 \
	    --enable=warning,portability,performance -D__x86_64__ -Iinclude -Isrc src tools examples
# One file a run: clang-tidy 14 takes every va_list for uninitialised from the second file on.
tidy: $(LISTS)
	@ls $(filter-out src/kernel/x86/% src/kernel/arm/%,$(SRC_ALL)) $(TOOL_SRC) | xargs -P 2 -n 1 sh -c \
	    'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- $(STD) $(INC) -Itools $(ENGINE_CFLAGS) $(TOOLS_CFLAGS) 2>/dev/null' sh

install: $(BUILD)/thimble lib
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/thimble $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BUILD)/thimble $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILD)/libthimble.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(BUILD)/libthimble.so $(DESTDIR)$(PREFIX)/lib/libthimble.so.0
	ln -sf libthimble.so.0 $(DESTDIR)$(PREFIX)/lib/libthimble.so
	install -m 644 include/thimble/thimble.h $(DESTDIR)$(PREFIX)/include/thimble/
	install -m 644 man/thimble.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	printf 'prefix=%s\nName: thimble\nDescription: LLM engine for models larger than memory\nVersion: %s\nRequires.private: %s\nCflags: -I$${prefix}/include\nLibs: -L$${prefix}/lib -lthimble\nLibs.private: -lm -pthread\n' \
	    '$(PREFIX)' "$$(sed -n 's/#define THIMBLE_VERSION_[A-Z]* //p' include/thimble/thimble.h | paste -sd.)" '$(LIBS_ENGINE)' > $(DESTDIR)$(PREFIX)/lib/pkgconfig/thimble.pc

help:
	@echo "make            build/thimble, static and shared library    make check     all quick tests"
	@echo "make install    into PREFIX (/usr/local)                    make asan tsan fuzz    sanitizers, fuzzers"
	@echo "make arm64      aarch64 build, tests under qemu             make x86-old   tests as older x86 processors"
	@echo "make cppcheck tidy   static analysis                        make STATIC=1  a static program"

# ---- sanitizers: the test programs again, each in a build folder of its own. tsan: what runs threads against each other; of the
# longest programs the parts about experts, which have readers beside the workers.
# Instrumented code draws warnings that the plain code does not deserve: -w.
ONLY_BIN = $(foreach word,$(ONLY),$(foreach bin,$(TEST_BIN),$(if $(findstring /$(word),$(bin)),$(bin))))
PROGRAMS = $(sort $(if $(ONLY),$(ONLY_BIN),$(TEST_BIN) $(REPLAY_BIN)))
check-programs: $(PROGRAMS) $(if $(SHELLS),$(BUILD)/thimble)
	@BUILD=$(BUILD) THIMBLE=$(BUILD)/thimble sh scripts/run_tests.sh $(PROGRAMS) $(SHELLS)
asan:
	@UBSAN_OPTIONS=print_stacktrace=1 LAW2_FILTER='*experts' TEST_TIMEOUT=1200 $(MAKE) --no-print-directory check-programs BUILD=$(BUILD)-asan SHELLS="$(wildcard tests/cli/*.sh)" \
	  SAN="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -w" CFLAGS="-O1 -g1"
tsan:
	@TSAN_OPTIONS=halt_on_error=1 LAW2_FILTER='*experts' DRAFT_FILTER='*experts' TEST_TIMEOUT=1200 $(MAKE) --no-print-directory check-programs BUILD=$(BUILD)-tsan \
	  SAN="-fsanitize=thread -w" CFLAGS="-O1 -g1" \
	  ONLY="test_pool test_aio test_weights test_homes test_recurrent test_checkpoints test_snapshot test_law2 residency/test_draft"
