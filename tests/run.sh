#!/usr/bin/env bash
# Runs every test under a time limit and counts.
# usage: run.sh BUILD_DIR [WORD]      only tests whose name contains WORD
#
# A test is a program BUILD_DIR/tests/test_* (cmocka: each of its cases counts) or a script tests/check_*.sh
# (lines `ok NAME`, `FAIL NAME ...`, `skip NAME reason` count; exit 77 alone is one skip).  A crash, a time-out or a
# status other than 0 without a failed case is one failure.  The last line is `N passed, N failed[, N skipped]`.
set -u
build=$1
word=${2:-}
# Device auto is the CPU here, also where there is a GPU: make check-gpu is for that.
export CUDA_VISIBLE_DEVICES=
export LDR="$PWD/$build/ldr" BUILD="$PWD/$build" LC_ALL=C CMOCKA_MESSAGE_OUTPUT=STDOUT
limit=${TEST_SECONDS:-300}
passed=0 failed=0 skipped=0
log=$build/tests/log
mkdir -p "$log"

count() { # PATTERN FILE
    grep -aEc "$1" "$2" || true
}

for t in "$build"/tests/test_* tests/check_*.sh; do
    [ -f "$t" ] || continue
    case $t in *.o | *.d) continue ;; esac
    name=$(basename "$t" .sh)
    case $name in *"$word"*) ;; *) continue ;; esac
    out=$log/$name
    start=$(date +%s%N)
    case $t in
    *.sh) timeout -k 5 "$limit" bash "$t" >"$out" 2>&1 ;;
    *) timeout -k 5 "$limit" "$t" >"$out" 2>&1 ;;
    esac
    status=$?
    ms=$((($(date +%s%N) - start) / 1000000))
    p=$(count '^(\[       OK \]|ok )' "$out")
    f=$(count '^(\[  FAILED  \] [A-Za-z0-9_]+$|FAIL )' "$out")
    s=$(count '^(\[  SKIPPED \] [A-Za-z0-9_]+$|skip )' "$out")
    case $t in
    *.sh) ;;
    *) # cmocka names failed and skipped cases twice: once where they happen, once in its summary
        f=$(grep -aE '^\[  FAILED  \] [A-Za-z0-9_]+$' "$out" | sort -u | grep -c . || true)
        s=$(grep -aE '^\[  SKIPPED \] [A-Za-z0-9_]+$' "$out" | sort -u | grep -c . || true) ;;
    esac
    if [ $status = 77 ] && [ "$p$f$s" = 000 ]; then s=1; fi
    if [ $status != 0 ] && [ $status != 77 ] && [ "$f" = 0 ]; then f=1; fi
    [ $status != 124 ] || echo "test ran longer than $limit s and was killed" >>"$out"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-34s %3d passed %2d failed %2d skipped %7d ms\n' "$name" "$p" "$f" "$s" "$ms"
    if [ "$f" != 0 ]; then
        echo "--- $name (exit $status):"
        tail -n 60 "$out"
        echo '---'
    fi
    grep -a '^skip ' "$out" || true
done
[ "$skipped" = 0 ] && echo "$passed passed, $failed failed" ||
    echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
