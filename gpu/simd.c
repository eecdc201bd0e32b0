#include "gpu/simd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#if LDRI_X86
#include <cpuid.h>
#endif

#if LDRI_X86
/* Not every compiler knows the name.  The registers that it needs are checked with AVX2. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

ldri_simd ldri_simd_best(void)
{
#if LDRI_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return LDRI_SIMD_NONE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vnni"))
        return LDRI_SIMD_AVX512;
    return LDRI_SIMD_AVX2;
#else
    return LDRI_SIMD_NONE;
#endif
}

ldri_simd ldri_simd_wanted(void)
{
    ldri_simd best = ldri_simd_best();
    const char *word = getenv("LDR_SIMD");
    if (!word) return best;
    for (int level = LDRI_SIMD_NONE; level < (int)best; level++)
        if (strcmp(word, ldri_simd_name((ldri_simd)level)) == 0) return (ldri_simd)level;
    return best;
}

const char *ldri_simd_name(ldri_simd level)
{
    static const char *const names[LDRI_SIMD_COUNT] = {"none", "avx2", "avx512"};
    assert(level < LDRI_SIMD_COUNT);
    return names[level];
}

const ldri_resample_kernels *ldri_simd_resample(ldri_simd level)
{
#if LDRI_X86
    if (level == LDRI_SIMD_AVX512) return &ldri_resample_avx512;
    if (level == LDRI_SIMD_AVX2) return &ldri_resample_avx2;
#endif
    assert(level == LDRI_SIMD_NONE);
    return &ldri_resample_plain;
}

const ldri_normalise_kernels *ldri_simd_normalise(ldri_simd level)
{
#if LDRI_X86
    if (level == LDRI_SIMD_AVX512) return &ldri_normalise_avx512;
    if (level == LDRI_SIMD_AVX2) return &ldri_normalise_avx2;
#endif
    assert(level == LDRI_SIMD_NONE);
    return &ldri_normalise_plain;
}

const ldri_colour_kernels *ldri_simd_colour(ldri_simd level)
{
#if LDRI_X86
    if (level == LDRI_SIMD_AVX512) return &ldri_colour_avx512;
    if (level == LDRI_SIMD_AVX2) return &ldri_colour_avx2;
#endif
    assert(level == LDRI_SIMD_NONE);
    return &ldri_colour_plain;
}

const ldri_erase_kernels *ldri_simd_erase(ldri_simd level)
{
#if LDRI_X86
    if (level == LDRI_SIMD_AVX512) return &ldri_erase_avx512;
    if (level == LDRI_SIMD_AVX2) return &ldri_erase_avx2;
#endif
    assert(level == LDRI_SIMD_NONE);
    return &ldri_erase_plain;
}
