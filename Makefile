# ldr: GNU Make.  `make help` lists the targets.
#
# Everything built goes to build/$(VARIANT)/.  Variants: release (default), asan, ubsan, tsan.
# Switches: V=1 shows commands; T=word runs only tests whose name contains word; WERROR=1;
# CMOCKA=PREFIX takes cmocka from PREFIX/include and PREFIX/lib.

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

CMD_SRC  := loader/main.c loader/cli.c loader/json.c loader/sha256.c $(wildcard loader/cmd_*.c)
LIB_SRC  := $(filter-out $(CMD_SRC),$(wildcard loader/*.c)) $(wildcard decode/*.c gpu/*.c)
CMD_SRC  := $(wildcard $(CMD_SRC))
TEST_SRC := $(wildcard tests/test_*.c)
SAMPLE_SRC := $(wildcard samples/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o)
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
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/libldr.a $(B)/libldr.so $(if $(CMD_SRC),$(B)/ldr)

help:
	@echo 'make               the library and the command, in build/$(VARIANT)/'
	@echo 'make deps          install what is missing to build and test (apt, as root)'
	@echo 'make demo          draw a small tree of pictures, load it, write build/demo/contact.png'
	@echo 'make check         build and run all tests'
	@echo 'make install       library, header, command, manual page to $(PREFIX) (PREFIX=, DESTDIR=)'
	@echo 'make uninstall     remove what install put there'
	@echo 'make check-install install into an empty folder, build against it, uninstall'
	@echo 'make check-asan    the same under AddressSanitizer; also check-ubsan, check-tsan'
	@echo 'make layers        check which part includes which'
	@echo 'make format        clang-format all sources'
	@echo 'make clean         remove build/'

# --- build -----------------------------------------------------------------------------------

# Changed compilers or flags rebuild everything of the variant.
FLAGS_NOW := $(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(LDLIBS)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' >$@
.PHONY: FORCE
FORCE:

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -c -o $@ $<

$(B)/tests/%.o: CPPFLAGS += $(CMOCKA_CPP)

$(B)/libldr.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/libldr.so.$(VERSION): $(LIB_OBJ) loader/libldr.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-soname,libldr.so.$(SOMAJOR) \
	    -Wl,--version-script=loader/libldr.map $(if $(SANITIZE),,-Wl,-z,defs) -o $@ $(LIB_OBJ) $(LDLIBS)

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

-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(TESTS:=.d) $(SAMPLES:=.d) $(HELPER_OBJ:.o=.d)

# --- install ----------------------------------------------------------------------------------

$(B)/ldr.1: $(B)/ldr loader/man.sh
	$(call say,MAN,$@)
	$(Q)bash loader/man.sh $(B)/ldr >$@

# Written anew each time: it depends on PREFIX.
$(B)/ldr.pc: loader/ldr.pc.in FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
	    -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' loader/ldr.pc.in >$@

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
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf build
