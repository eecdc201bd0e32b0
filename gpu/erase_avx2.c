/* erase_avx2.c - erasing noise on 256-bit registers, eight blocks at a time. */
#include "gpu/erase_cpu.h"

#if LDRI_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define LANES  8

typedef __m256i ints;
typedef __m256 reals;

#define all(a)              _mm256_set1_epi32(a)
#define all_real(a)         _mm256_set1_ps(a)
#define real(a)             _mm256_cvtepi32_ps(a)
#define add(a, b)           _mm256_add_epi32(a, b)
#define bits_and(a, b)      _mm256_and_si256(a, b)
#define bits_xor(a, b)      _mm256_xor_si256(a, b)
#define right(a, n)         _mm256_srli_epi32(a, n)
#define add_real(a, b)      _mm256_add_ps(a, b)
#define subtract_real(a, b) _mm256_sub_ps(a, b)
#define times_real(a, b)    _mm256_mul_ps(a, b)
#define bits_of(a)          _mm256_castps_si256(a)
#define reals_of(a)         _mm256_castsi256_ps(a)
#define count()             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define lookup(from, at)    _mm256_i32gather_ps(from, at, 4)

INLINE ints products(ints a, ints b, ints *high)
{
    ints even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

INLINE void store_blocks(float *to, const reals z[4])
{
    reals a = _mm256_unpacklo_ps(z[0], z[1]), b = _mm256_unpackhi_ps(z[0], z[1]);
    reals c = _mm256_unpacklo_ps(z[2], z[3]), d = _mm256_unpackhi_ps(z[2], z[3]);
    reals e = _mm256_shuffle_ps(a, c, 0x44), f = _mm256_shuffle_ps(a, c, 0xEE); /* 0 4, 1 5 */
    reals g = _mm256_shuffle_ps(b, d, 0x44), h = _mm256_shuffle_ps(b, d, 0xEE); /* 2 6, 3 7 */
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(e, f, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(g, h, 0x20));
    _mm256_storeu_ps(to + 16, _mm256_permute2f128_ps(e, f, 0x31));
    _mm256_storeu_ps(to + 24, _mm256_permute2f128_ps(g, h, 0x31));
}

#include "gpu/erase_lanes.h"

const ldri_erase_kernels ldri_erase_avx2 = {noise};
#endif
