#!/usr/bin/env bash
# Installs into an empty folder, builds a program against it in three ways, uninstalls: nothing may be left.
set -u
case $(cat "$BUILD/flags") in *-fsanitize*) echo "skip install a sanitizer's build is not installed"; exit 0 ;; esac
top=$PWD
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
ok() { echo "ok $1"; }
fail() { echo "FAIL $*"; }
run() { # NAME COMMAND...: must succeed
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then ok "$name"; else fail "$name" "$(tail -n 5 <<<"$out")"; fi
}
make_it() { make --no-print-directory -C "$top" B="${BUILD#"$top"/}" PREFIX=/opt/ldr DESTDIR="$root" "$@"; }

run install make_it install
"$BUILD/samples/draw_photos" "$root.photos" 16 1 64 || fail draw_photos
trap 'rm -rf "$root" "$root.photos"' EXIT
at=$root/opt/ldr
cc=${CC:-cc}
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$at/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
    read -ra flags <<<"$(pkg-config --cflags --libs ldr)"
    read -ra static_flags <<<"$(pkg-config --cflags --static --libs ldr)"
else
    echo 'skip pkg_config there is no pkg-config: its flags are written out'
    flags=(-I"$at/include" -I"$at/include/ldr" -L"$at/lib" -lldr)
    read -ra static_flags <<<"${flags[*]} $(sed -n 's/^Libs.private: //p' "$at/lib/pkgconfig/ldr.pc")"
fi
run build_shared "$cc" samples/embed.c -o "$root.embed" "${flags[@]}"
run run_shared env LD_LIBRARY_PATH="$at/lib" "$root.embed" "$root.photos"
run build_static "$cc" samples/embed.c -o "$root.embed" "${static_flags[@]/#-lldr/-l:libldr.a}"
run run_static env -u LD_LIBRARY_PATH "$root.embed" "$root.photos"
sed 's|"loader.h"|<ldr/loader.h>|' samples/embed.c >"$root.c"
run build_prefixed_include "$cc" "$root.c" -o "$root.embed" -I"$at/include" "${flags[@]}"
rm -f "$root.embed" "$root.c"

run run_command "$at/bin/ldr" verify "$root.photos" --image-size 32
needed=$(readelf -d "$at/lib/libldr.so" "$at/bin/ldr")
[[ $needed == *'Library soname: [libldr.so.'* ]] && ok soname || fail soname
[[ $needed != *libcuda* && $needed != *nvjpeg* && $needed != *RPATH* && $needed != *RUNPATH* ]] &&
    ok no_driver_needed || fail no_driver_needed "$needed"
[[ $needed == *BIND_NOW* || $needed == *'Flags: NOW'* ]] && ok bind_now || fail bind_now
others=$(nm -D --defined-only "$at/lib/libldr.so" | awk '{sub(/@.*/, "", $3); print $3}' | grep -vE '^ldr_[a-z_]+$|^LDR_' || true)
[[ -z $others ]] && ok exports || fail exports "$others"
grep -q '^\.SH OPTIONS' "$at/share/man/man1/ldr.1" && ok manual || fail manual
if command -v man >/dev/null && ! man --warnings -E UTF-8 -l -Tutf8 "$at/share/man/man1/ldr.1" 2>&1 >/dev/null |
    grep .; then ok manual_reads; fi

run uninstall make_it uninstall
left=$(find "$root" ! -type d)
[[ -z $left ]] && ok nothing_left || fail nothing_left "$left"
[[ ! -e $at/include/ldr ]] && ok no_folder_left || fail no_folder_left
