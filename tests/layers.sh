#!/usr/bin/env bash
# Who may include whom (CONTRIBUTING.md, "Layers").  Prints each arrow that is not allowed; exit 1 if there is one.
set -u
bad=0
arrow() { # FILE INCLUDED: allowed?
    case $1 in
    samples/*) case $2 in loader.h | ldr/loader.h) return 0 ;; esac ;;
    loader/main.c | loader/cmd_*.c | loader/cli.[ch] | loader/*)
        case $2 in loader/* | decode/decode.h) return 0 ;; esac ;;
    decode/*) case $2 in decode/* | loader/status.h | loader/loader.h) return 0 ;; esac ;;
    gpu/*) case $2 in
        gpu/* | loader/backend.h | loader/status.h | loader/descriptor.h | loader/window.h | loader/rng.h | \
            loader/exact_math.h | loader/loader.h) return 0 ;;
        esac ;;
    tests/*) return 0 ;;
    esac
    return 1
}
for f in $(ls {samples,loader,decode,gpu}/*.[ch] {samples,gpu}/*.cu gpu/*.cuh 2>/dev/null); do
    for inc in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f"); do
        arrow "$f" "$inc" || { echo "layers: $f must not include $inc"; bad=1; }
    done
    case $f in
    samples/* | gpu/*.cu*) continue ;;
    esac
    if grep -qE '^ *# *include *<(cuda|nvjpeg)' "$f" && [[ $f != gpu/* ]]; then
        echo "layers: $f must not include CUDA headers"
        bad=1
    fi
    case $f in
    decode/*) if grep -qE '^ *# *include *<(pthread|stdatomic|threads)' "$f"; then
        echo "layers: $f: decode/ knows no threads"
        bad=1
    fi ;;
    esac
done
dup=$(ls {samples,loader,decode,gpu,tests}/* 2>/dev/null | xargs -n1 basename | sort | uniq -d)
[ -z "$dup" ] || { echo "layers: file names are not unique: $dup"; bad=1; }
exit $bad
