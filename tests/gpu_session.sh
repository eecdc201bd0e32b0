#!/usr/bin/env bash
# Everything there is to run on a GPU, in one go: builds, tests, compute-sanitizer, benches.
# Details go to $OUT (default build/gpu); the last lines are a short table.  Needs nvcc and a C
# compiler, but no decoder's libraries and no test library.
# usage: gpu_session.sh [tests | bench]      only that part
set -u
cd "$(dirname "$0")/.." || exit
out=${OUT:-build/gpu}
part=${1:-all}
build=build/release
jobs=$(nproc)
mkdir -p "$out" build/tune
started=$SECONDS
summary=()
say() { printf '%s\n' "$*"; summary+=("$*"); }

# Shapes that are fixed when the kernels are compiled.  NAME FLAGS
variants='default
blocks33 -DLDRI_RESAMPLE_BLOCKS=3 -DLDRI_FINISH_BLOCKS=3 -DLDRI_FUSED_BLOCKS=2
blocks55 -DLDRI_RESAMPLE_BLOCKS=5 -DLDRI_FINISH_BLOCKS=5 -DLDRI_FUSED_BLOCKS=3
blocks43 -DLDRI_FINISH_BLOCKS=3 -DLDRI_FUSED_BLOCKS=4
inter14 -DLDRI_RESAMPLE_BLOCKS=5 -DLDRI_INTER_GROUPS=14u -DLDRI_GROUPS_MAX=7u
inter14b -DLDRI_FUSED_BLOCKS=4 -DLDRI_INTER_GROUPS=14u -DLDRI_GROUPS_MAX=7u
inter12 -DLDRI_RESAMPLE_BLOCKS=5 -DLDRI_INTER_GROUPS=12u -DLDRI_GROUPS_MAX=6u -DLDRI_STRIP_ROWS=23u'

build_variants() {
    local nvcc
    nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc)
    cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    # shellcheck disable=SC2086  # flags are several words
    while read -r name flags; do
        (
            d=build/tune/$name
            mkdir -p "$d"
            "$cuda/bin/nvcc" -std=c++17 -O3 -fmad=false -I. -Iloader -arch=sm_90 -Xptxas -v $flags \
                -Xcompiler -fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics \
                -c -o "$d/augment.o" gpu/augment.cu >"$d/ptxas.txt" 2>&1 &&
                cc -std=c11 -O2 -ffp-contract=off -fno-strict-aliasing -D_GNU_SOURCE -I. -Iloader \
                    -isystem "$cuda/include" -DLDR_CUDA=1 $flags -o "$d/bench" tests/bench_cuda.c \
                    tests/helper_batch.c gpu/*.c loader/status.c "$d/augment.o" \
                    $build/tests/gpu_device.o \
                    "$(ls "$cuda"/lib64/libcudart_static.a)" -ldl -lrt -lm -pthread \
                    >"$d/build.txt" 2>&1
        ) &
    done <<<"$variants"
    wait
}

if ! make -j"$jobs" gpu-tests >"$out/build.txt" 2>&1; then
    tail -20 "$out/build.txt"
    echo "gpu_session: the build failed"
    exit 1
fi
grep -aE 'warning|Warning' "$out/build.txt" && say "there were warnings"
say "built in $((SECONDS - started)) s"

if [ "$part" != bench ]; then
    t=$SECONDS
    BUILD=$build bash tests/check_gpu.sh >"$out/check.txt" 2>&1
    status=$?
    grep -aE '^(FAIL|skip)' "$out/check.txt" | head -20
    say "check-gpu: exit $status, $(grep -ac '^ok' "$out/check.txt") ok," \
        "$(grep -ac '^FAIL' "$out/check.txt") failed, $((SECONDS - t)) s"
    for tool in memcheck initcheck racecheck synccheck; do
        t=$SECONDS
        timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 \
            $build/tests/gpu_augment small >"$out/$tool.txt" 2>&1
        status=$?
        [ $status = 0 ] || grep -a '=========' "$out/$tool.txt" | head -12
        say "$tool: exit $status, $(grep -a 'SUMMARY' "$out/$tool.txt" | tail -1 | cut -c11-), \
$((SECONDS - t)) s"
    done
fi

if [ "$part" != tests ]; then
    t=$SECONDS
    build_variants
    say "variants built in $((SECONDS - t)) s"
    timeout 200 $build/tests/bench_cuda sweep >"$out/bench.txt" 2>&1 || say "bench: exit $?"
    while read -r name _; do
        echo "--- $name"
        if [ -x "build/tune/$name/bench" ]; then
            timeout 60 "build/tune/$name/bench" quick | grep -aE 'separate|fused'
        else
            tail -3 build/tune/"$name"/*.txt
        fi
        grep -aE 'Compiling|Used|spill' "build/tune/$name/ptxas.txt" |
            sed "s/.*entry function '\([a-z_]*\)'.*/\1/; s/ptxas info *: //" | paste -sd' ' |
            sed 's/ldri_/\n    ldri_/g'
    done <<<"$variants" >"$out/variants.txt" 2>&1
    if command -v ncu >/dev/null; then # why each kernel takes what it takes
        timeout 90 ncu --clock-control none --launch-skip 30 --launch-count 3 \
            --section SpeedOfLight --section ComputeWorkloadAnalysis --section Occupancy \
            --section WarpStateStats --section MemoryWorkloadAnalysis \
            build/tune/default/bench quick >"$out/ncu.txt" 2>&1
        timeout 90 ncu --clock-control none --kernel-name ldri_finish_kernel --launch-skip 12 \
            --launch-count 1 --section SpeedOfLight --section ComputeWorkloadAnalysis \
            --section Occupancy --section WarpStateStats --section MemoryWorkloadAnalysis \
            build/tune/default/bench quick >"$out/ncu_finish.txt" 2>&1
        timeout 90 ncu --clock-control none --kernel-name ldri_resample_kernel --launch-skip 12 \
            --launch-count 1 --section SpeedOfLight --section ComputeWorkloadAnalysis \
            --section Occupancy --section WarpStateStats --section MemoryWorkloadAnalysis \
            build/tune/default/bench quick >"$out/ncu_resample.txt" 2>&1
    fi
    say "bench: $((SECONDS - t)) s"
    grep -a sweep "$out/bench.txt" | sort -t: -k2 | sed 's/^/  /' >"$out/sweep.txt"
    cat "$out/variants.txt"
    cat "$out/sweep.txt"
    grep -av sweep "$out/bench.txt"
fi
echo "=== after $((SECONDS - started)) s"
printf '%s\n' "${summary[@]}"
