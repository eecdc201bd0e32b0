#!/usr/bin/env bash
# Listing 60,000 files in 100 class folders takes at most twice the time of `find -type f`.
# Medians of 5 interleaved runs, each a whole process; up to three rounds, because other work on the machine disturbs
# short runs.  The release build only: sanitizers measure themselves.
set -u
build=${BUILD:-build/release}
lister=$build/tests/test_source
name=listing_takes_at_most_twice_find

case $(cat "$BUILD/flags") in *-fsanitize*) echo "skip $name a sanitizer is on"; exit 0 ;; esac
[ -x "$lister" ] || { echo "skip $name $lister is not built"; exit 0; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
for c in $(seq 100); do
    mkdir "$dir/n$c" && (cd "$dir/n$c" && seq -f "n${c}_%g.JPEG" 600 | xargs touch) || exit 1
done
out=$("$lister" --list "$dir") || exit 1
case $out in
*' 60000 samples, 100 classes'*) ;;
*) echo "FAIL $name lists: $out"; exit 1 ;;
esac

us() { # COMMAND...: microseconds it took
    local start
    start=$(date +%s%N)
    "$@" >/dev/null
    echo $((($(date +%s%N) - start) / 1000))
}
for round in 1 2 3; do
    ours=() finds=()
    for _ in 1 2 3 4 5; do
        finds+=("$(us find "$dir" -type f)")
        ours+=("$(us "$lister" --list "$dir")")
    done
    a=$(printf '%s\n' "${ours[@]}" | sort -n | sed -n 3p)
    b=$(printf '%s\n' "${finds[@]}" | sort -n | sed -n 3p)
    echo "round $round: listing $a us, find $b us"
    if [ "$a" -le $((2 * b)) ]; then
        echo "ok $name"
        exit 0
    fi
done
echo "FAIL $name"
exit 1
