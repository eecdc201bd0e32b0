# ldr: GNU Make.  `make help` lists the targets.
#
# Everything built goes to build/$(VARIANT)/.  Variants: release (default), asan, ubsan, tsan.
# Switches: V=1 shows commands; T=word runs only tests whose name contains word; WERROR=1;
# CMOCKA=PREFIX takes cmocka from PREFIX/include and PREFIX/lib.  CUDA=0 builds for the CPU only,
# CUDA=1 fails without nvcc; CUDA_HOME=PREFIX or NVCC=PATH say where the toolkit is.

VARIANT ?= release
B       := build/$(VARIANT)
VERSION := $(shell sed -n 's/^\#define LDR_VERSION_[A-Z]* //p' loader/loader.h | paste -sd.)
SOMAJOR := $(firstword $(subst ., ,$(VERSION)))

CC      ?= cc
AR      ?= ar
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Hardening; HARDEN= turns it off.  Sanitizers bring checks of their own.
HARDEN   ?= -fstack-protector-strong -D_FORTIFY_SOURCE=2
HARDEN_LD ?= -Wl,-z,relro,-z,now

# Contraction off and no fast math: CPU and GPU must agree to the bit (CONTRIBUTING.md).
CPPFLAGS += -I. -Iloader -D_GNU_SOURCE -MMD -MP
CFLAGS   ?= -O2 -g
CFLAGS_ALL = -std=c11 -ffp-contract=off -fno-strict-aliasing -fPIC -pthread \
             -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
             -Wvla -Wno-unused-parameter $(if $(WERROR),-Werror) $(CFLAGS) \
             $(if $(SANITIZE),$(SANITIZE),$(HARDEN))
LDFLAGS_ALL = $(if $(SANITIZE),,$(HARDEN_LD)) $(LDFLAGS)
LDLIBS   += -ljpeg -lpng -lz -lm -pthread

ifeq ($(VARIANT),asan)
SANITIZE := -fsanitize=address -fno-omit-frame-pointer -O1
else ifeq ($(VARIANT),ubsan)
SANITIZE := -fsanitize=undefined -fno-sanitize-recover=all -O1
else ifeq ($(VARIANT),tsan)
SANITIZE := -fsanitize=thread -O1
else ifneq ($(VARIANT),release)
$(error VARIANT=$(VARIANT) is unknown: use release, asan, ubsan or tsan)
endif

# --- CUDA: in the release variant, if the toolkit is there ------------------------------------
# The runtime is linked statically, into the library itself, and looks for the driver when it is
# first used: the same binary runs on machines without one.

CUDA      ?= auto
ifeq ($(origin NVCC),undefined)
NVCC      := $(shell PATH="$(if $(CUDA_HOME),$(CUDA_HOME)/bin:)$$PATH:/usr/local/cuda/bin" \
                 command -v nvcc)
endif
ifeq ($(origin CUDA_HOME),undefined)
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(or $(NVCC),/usr/local/cuda/bin/nvcc)))
endif
CUDA_HEADERS := $(firstword $(patsubst %/cuda_runtime_api.h,%,$(wildcard \
                    $(addsuffix /cuda_runtime_api.h,$(CUDA_HOME)/include /usr/include))))
CUDART    := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 \
                    $(CUDA_HOME)/lib $(CUDA_HOME)/targets/x86_64-linux/lib \
                    /usr/lib/x86_64-linux-gnu)))
CUDA_C    := gpu/backend_cuda.c gpu/cuda_call.c gpu/cuda_pools.c
CUDA_CU   := $(wildcard gpu/*.cu)
ifeq ($(CUDA),auto)
HAVE_CUDA := $(and $(filter release,$(VARIANT)),$(NVCC),$(CUDA_HEADERS),$(CUDART),1)
else ifneq ($(CUDA),0)
HAVE_CUDA := 1
$(if $(and $(NVCC),$(CUDA_HEADERS),$(CUDART)),,$(error CUDA=$(CUDA), but there is no nvcc, header \
    or libcudart_static.a: set CUDA_HOME))
endif
ifdef HAVE_CUDA
CUDA_LINE := $(NVCC)
CPPFLAGS  += -DLDR_CUDA=1
CUDA_LIBS := -ldl -lrt
LDLIBS    += $(CUDA_LIBS)
else
CUDA_LINE := no: for the CPU only
endif
# CUDA headers are not ours to warn about; only files that need them see them.
CUDA_CPP  := $(if $(filter-out /usr/include,$(CUDA_HEADERS)),-isystem $(CUDA_HEADERS))
GENCODE   ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
             -gencode arch=compute_90,code=compute_90
NVCCFLAGS ?= -O3
NVCC_ALL   = -std=c++17 -fmad=false -I. -Iloader $(GENCODE) $(NVCCFLAGS) \
             -Xcompiler -fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall

CMD_SRC  := loader/main.c loader/cli.c loader/json.c loader/sha256.c $(wildcard loader/cmd_*.c)
LIB_SRC  := $(filter-out $(CMD_SRC),$(wildcard loader/*.c)) $(wildcard decode/*.c) \
            $(filter-out $(if $(HAVE_CUDA),,$(CUDA_C)),$(wildcard gpu/*.c))
CMD_SRC  := $(wildcard $(CMD_SRC))
TEST_SRC := $(wildcard tests/test_*.c)
SAMPLE_SRC := $(wildcard samples/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o) $(if $(HAVE_CUDA),$(CUDA_CU:%.cu=$(B)/%.o))
CMD_OBJ  := $(CMD_SRC:%.c=$(B)/%.o)
TESTS    := $(TEST_SRC:%.c=$(B)/%)
SAMPLES  := $(SAMPLE_SRC:%.c=$(B)/%)
HELPER_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/helper_*.c))
CMOCKA_CPP := $(if $(CMOCKA),-I$(CMOCKA)/include)
CMOCKA_LIB := $(if $(CMOCKA),$(addprefix -L,$(wildcard $(CMOCKA)/lib $(CMOCKA)/lib/*-linux-gnu))) -lcmocka

# Where install puts things.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man

.PHONY: install uninstall check-install
.PHONY: all help deps demo check check-asan check-ubsan check-tsan layers format clean tests samples
.PHONY: check-gpu gpu-tests cuda-line
.DELETE_ON_ERROR:
.SECONDARY:

all: cuda-line $(B)/libldr.a $(B)/libldr.so $(if $(CMD_SRC),$(B)/ldr)

cuda-line:
	$(call say,CUDA,'$(CUDA_LINE)')

help:
	@echo 'make               the library and the command, in build/$(VARIANT)/'
	@echo 'make deps          install what is missing to build and test (apt, as root)'
	@echo 'make demo          draw a small tree of pictures, load it, write build/demo/contact.png'
	@echo 'make check         build and run all tests'
	@echo 'make check-gpu     build and run those that need a GPU'
	@echo 'make install       library, header, command, manual page to $(PREFIX) (PREFIX=, DESTDIR=)'
	@echo 'make uninstall     remove what install put there'
	@echo 'make check-install install into an empty folder, build against it, uninstall'
	@echo 'make check-asan    the same under AddressSanitizer; also check-ubsan, check-tsan'
	@echo 'make layers        check which part includes which'
	@echo 'make format        clang-format all sources'
	@echo 'make clean         remove build/'

# --- build -----------------------------------------------------------------------------------

# Changed compilers or flags rebuild everything of the variant.
FLAGS_NOW := $(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(LDLIBS) $(if $(HAVE_CUDA),$(NVCC_ALL))
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' >$@
.PHONY: FORCE
FORCE:

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -c -o $@ $<

$(B)/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_ALL) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(CUDA_C:%.c=$(B)/%.o): CPPFLAGS += $(CUDA_CPP)
$(B)/tests/%.o: CPPFLAGS += $(CMOCKA_CPP)

$(B)/libldr.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
	$(if $(HAVE_CUDA),$(Q)printf 'open $@\naddlib $(CUDART)\nsave\nend\n' | $(AR) -M)

$(B)/libldr.so.$(VERSION): $(LIB_OBJ) loader/libldr.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-soname,libldr.so.$(SOMAJOR) \
	    -Wl,--version-script=loader/libldr.map $(if $(SANITIZE),,-Wl,-z,defs) -o $@ $(LIB_OBJ) \
	    $(if $(HAVE_CUDA),$(CUDART)) $(LDLIBS)

$(B)/libldr.so: $(B)/libldr.so.$(VERSION)
	$(Q)ln -sf libldr.so.$(VERSION) $(B)/libldr.so.$(SOMAJOR) && ln -sf libldr.so.$(SOMAJOR) $@

$(B)/ldr: $(CMD_OBJ) $(B)/libldr.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(LDLIBS)

samples: $(SAMPLES)
$(B)/samples/%: $(B)/samples/%.o $(B)/libldr.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(LDLIBS)

tests: $(TESTS)
$(B)/tests/test_%: $(B)/tests/test_%.o $(HELPER_OBJ) $(B)/libldr.a $(filter-out %/main.o,$(CMD_OBJ))
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(B)/libldr.a $(CMOCKA_LIB) $(LDLIBS)

# The CUDA back end on a runtime without a device: the same sources, whatever the library has.
STUB_OBJ := $(if $(CUDA_HEADERS),$(patsubst %.c,$(B)/stub/%.o,$(CUDA_C) gpu/backends.c) \
              $(patsubst %.c,$(B)/%.o,$(wildcard tests/stub_*.c)))
$(B)/stub/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< for the stub)
	$(Q)$(CC) $(filter-out -DLDR_CUDA=1,$(CPPFLAGS)) -DLDR_CUDA=1 $(CUDA_CPP) $(CFLAGS_ALL) -c -o $@ $<
$(B)/tests/stub_%.o $(B)/tests/test_cuda_backend.o: \
    CPPFLAGS += $(CUDA_CPP) $(if $(CUDA_HEADERS),-DLDR_STUB=1)
$(B)/tests/test_cuda_backend: $(STUB_OBJ)

# Programs that need a GPU.  They take no test library and no decoder's libraries.
GPU_TEST_SRC := $(wildcard tests/gpu_*.c tests/bench_cuda.c)
GPU_TESTS := $(if $(HAVE_CUDA),$(GPU_TEST_SRC:%.c=$(B)/%))
GPU_TEST_OBJ := $(filter $(B)/gpu/%,$(LIB_OBJ)) $(B)/loader/status.o $(B)/tests/helper_batch.o \
                $(patsubst %.cu,$(B)/%.o,$(wildcard tests/*.cu))
gpu-tests: $(GPU_TESTS)
$(GPU_TEST_SRC:%.c=$(B)/%.o): CPPFLAGS += $(CUDA_CPP)
$(GPU_TEST_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o $(GPU_TEST_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(CUDART) $(CUDA_LIBS) -lm -pthread

check-gpu: cuda-line gpu-tests
	@BUILD=$(B) bash tests/check_gpu.sh

-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(TESTS:=.d) $(SAMPLES:=.d) $(HELPER_OBJ:.o=.d)
-include $(STUB_OBJ:.o=.d) $(GPU_TESTS:=.d)

# --- install ----------------------------------------------------------------------------------

$(B)/ldr.1: $(B)/ldr loader/man.sh
	$(call say,MAN,$@)
	$(Q)bash loader/man.sh $(B)/ldr >$@

# Written anew each time: it depends on PREFIX.
$(B)/ldr.pc: loader/ldr.pc.in FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	    -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBS_PRIVATE@|$(LDLIBS)|' loader/ldr.pc.in >$@

# A path with a space would be several paths to rm.
check-path = $(if $(filter 1,$(words $(1))),,$(error install paths must not have spaces: $(1)))
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(foreach p,PREFIX BINDIR LIBDIR INCLUDEDIR MANDIR,$(call check-path,$($(p))))
$(if $(DESTDIR),$(call check-path,$(DESTDIR)))
$(if $(filter /%,$(PREFIX)),,$(error PREFIX must be absolute: $(PREFIX)))
endif

install: all $(B)/ldr.1 $(B)/ldr.pc
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR)/ldr $(MANDIR)/man1)
	install -m 755 $(B)/ldr $(DESTDIR)$(BINDIR)/ldr
	install -m 644 $(B)/libldr.a $(DESTDIR)$(LIBDIR)/libldr.a
	install -m 755 $(B)/libldr.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libldr.so.$(VERSION)
	ln -sf libldr.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libldr.so.$(SOMAJOR)
	ln -sf libldr.so.$(SOMAJOR) $(DESTDIR)$(LIBDIR)/libldr.so
	install -m 644 $(B)/ldr.pc $(DESTDIR)$(LIBDIR)/pkgconfig/ldr.pc
	install -m 644 loader/loader.h $(DESTDIR)$(INCLUDEDIR)/ldr/loader.h
	install -m 644 $(B)/ldr.1 $(DESTDIR)$(MANDIR)/man1/ldr.1
	$(if $(DESTDIR),,@[ "$$(id -u)" != 0 ] || ldconfig || true)

uninstall:
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/ldr $(LIBDIR)/libldr.a $(LIBDIR)/libldr.so.$(VERSION) \
	    $(LIBDIR)/libldr.so.$(SOMAJOR) $(LIBDIR)/libldr.so $(LIBDIR)/pkgconfig/ldr.pc \
	    $(INCLUDEDIR)/ldr/loader.h $(MANDIR)/man1/ldr.1)
	-rmdir $(DESTDIR)$(INCLUDEDIR)/ldr 2>/dev/null

check-install: all samples
	@bash tests/run.sh $(B) check_install

# --- what a stranger types -------------------------------------------------------------------

deps:
	@bash tests/deps.sh

demo: all samples
	@bash samples/demo.sh $(B) build/demo

# --- tests -----------------------------------------------------------------------------------

check: all tests samples layers
	@bash tests/run.sh $(B) $(T)

check-asan check-ubsan check-tsan:
	@$(MAKE) --no-print-directory VARIANT=$(@:check-%=%) check

layers:
	@bash tests/layers.sh

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu')

clean:
	rm -rf build
