/* erase_avx512.c - erasing noise on 512-bit registers, sixteen blocks at a time. */
#include "gpu/erase_cpu.h"

#if LDRI_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define LANES  16

typedef __m512i ints;
typedef __m512 reals;

#define all(a)              _mm512_set1_epi32(a)
#define all_real(a)         _mm512_set1_ps(a)
#define real(a)             _mm512_cvtepi32_ps(a)
#define add(a, b)           _mm512_add_epi32(a, b)
#define bits_and(a, b)      _mm512_and_si512(a, b)
#define bits_xor(a, b)      _mm512_xor_si512(a, b)
#define right(a, n)         _mm512_srli_epi32(a, n)
#define add_real(a, b)      _mm512_add_ps(a, b)
#define subtract_real(a, b) _mm512_sub_ps(a, b)
#define times_real(a, b)    _mm512_mul_ps(a, b)
#define bits_of(a)          _mm512_castps_si512(a)
#define reals_of(a)         _mm512_castsi512_ps(a)
#define count()             _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define lookup(from, at)    _mm512_i32gather_ps(at, from, 4)

INLINE ints products(ints a, ints b, ints *high)
{
    ints even = _mm512_mul_epu32(a, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xAAAA, odd);
    return _mm512_mask_mov_epi32(even, 0xAAAA, _mm512_slli_epi64(odd, 32));
}

INLINE void store_blocks(float *to, const reals z[4])
{
    reals a = _mm512_unpacklo_ps(z[0], z[1]), b = _mm512_unpackhi_ps(z[0], z[1]);
    reals c = _mm512_unpacklo_ps(z[2], z[3]), d = _mm512_unpackhi_ps(z[2], z[3]);
    reals e = _mm512_shuffle_ps(a, c, 0x44), f = _mm512_shuffle_ps(a, c, 0xEE);
    reals g = _mm512_shuffle_ps(b, d, 0x44), h = _mm512_shuffle_ps(b, d, 0xEE);
    /* e: blocks 0 4 8 12; f: 1 5 9 13; g: 2 6 10 14; h: 3 7 11 15 */
    reals ef = _mm512_shuffle_f32x4(e, f, 0x44), gh = _mm512_shuffle_f32x4(g, h, 0x44);
    _mm512_storeu_ps(to, _mm512_shuffle_f32x4(ef, gh, 0x88));
    _mm512_storeu_ps(to + 16, _mm512_shuffle_f32x4(ef, gh, 0xDD));
    ef = _mm512_shuffle_f32x4(e, f, 0xEE);
    gh = _mm512_shuffle_f32x4(g, h, 0xEE);
    _mm512_storeu_ps(to + 32, _mm512_shuffle_f32x4(ef, gh, 0x88));
    _mm512_storeu_ps(to + 48, _mm512_shuffle_f32x4(ef, gh, 0xDD));
}

#include "gpu/erase_lanes.h"

const ldri_erase_kernels ldri_erase_avx512 = {noise};
#endif
