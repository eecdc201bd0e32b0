#!/usr/bin/env bash
# Runs the programs BUILD/tests/gpu_* on a GPU, one after the other.  `make check-gpu` builds them.
# Exit 77: there is no GPU, or this build has no CUDA.
set -u
build=${BUILD:-build/release}
found=0 failed=0
for t in "$build"/tests/gpu_*; do
    case $t in *.o | *.d | *'*') continue ;; esac
    found=1
    out=$(timeout "${TEST_SECONDS:-300}" "$t" 2>&1)
    status=$?
    if [ $status = 77 ]; then
        echo "check_gpu: no GPU here"
        exit 77
    fi
    printf '%s\n' "$out" | sed "s/^\(ok\|FAIL\|skip\) /\1 $(basename "$t" | tr - _)./"
    if [ $status != 0 ]; then
        failed=1
        printf '%s\n' "$out" | grep -q '^FAIL' || echo "FAIL $(basename "$t") exit $status"
    fi
done
if [ $found = 0 ]; then
    echo "check_gpu: this build has no GPU tests (CUDA=0, or no nvcc)"
    exit 77
fi
exit $failed
