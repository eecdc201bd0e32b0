#!/usr/bin/env bash
# Installs what is missing to build and test: a C compiler, libjpeg-turbo, libpng, pkg-config, cmocka.
# Uses apt; asks for nothing that is there already.
set -euo pipefail

need=()
command -v "${CC:-cc}" >/dev/null || need+=(gcc libc6-dev)
have() { # HEADER...: does the compiler find them?
    printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <stdio.h>\n' |
        { cat; printf '#include <%s>\n' "$@"; } | "${CC:-cc}" -fsyntax-only -x c - 2>/dev/null
}
have jpeglib.h || need+=(libjpeg-dev)
have png.h || need+=(libpng-dev)
have zlib.h || need+=(zlib1g-dev)
command -v pkg-config >/dev/null || need+=(pkg-config)
[ -n "${CMOCKA:-}" ] || have cmocka.h || need+=(libcmocka-dev)

if [ ${#need[@]} -eq 0 ]; then
    echo 'deps: everything is there'
    exit 0
fi
echo "deps: installing ${need[*]}"
if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here: install ${need[*]} (or your system's packages of the same libraries)" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps: run as root: apt-get install ${need[*]}" >&2; exit 1; }
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get -qq update
$as_root apt-get -qq install -y --no-install-recommends "${need[@]}" >/dev/null
echo 'deps: done'
