/* colour_avx512.c - the colour operators on 512-bit registers with VBMI, sixteen pixels at a time.
 */
#include "gpu/colour_cpu.h"

#if LDRI_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define LANES  16

typedef __m512i ints;
typedef __m512 reals;

#define all(a)            _mm512_set1_epi32(a)
#define all_real(a)       _mm512_set1_ps(a)
#define real(a)           _mm512_cvtepi32_ps(a)
#define whole(a)          _mm512_cvttps_epi32(a)
#define add(a, b)         _mm512_add_epi32(a, b)
#define subtract(a, b)    _mm512_sub_epi32(a, b)
#define min(a, b)         _mm512_min_epi32(a, b)
#define max(a, b)         _mm512_max_epi32(a, b)
#define absolute(a)       _mm512_abs_epi32(a)
#define times(a, b)       _mm512_madd_epi16(a, b)
#define modulo_256(a)     _mm512_and_si512(a, all(255))
#define add_real(a, b)    _mm512_add_ps(a, b)
#define times_real(a, b)  _mm512_mul_ps(a, b)
#define divide_real(a, b) _mm512_div_ps(a, b)
#define fused(a, b, c)    _mm512_fmadd_ps(a, b, c)

INLINE ints choose(ints a, ints b, ints x, ints y)
{
    return _mm512_mask_mov_epi32(a, _mm512_cmpeq_epi32_mask(x, y), b);
}

INLINE ints add_where_negative(ints n, ints a)
{
    return _mm512_mask_add_epi32(n, _mm512_cmplt_epi32_mask(n, all(0)), n, a);
}

INLINE ints falls_short(ints h, ints p, ints n)
{
    const ints words = _mm512_setr_epi32((int)0xFFFFFFFEu, 0, 0x11000000, 0x00000111, 0x222AAAAA,
                                         0x23232222, 0x00022222, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ints word = _mm512_permutexvar_epi32(_mm512_srli_epi32(h, 5), words);
    ints bit = _mm512_sllv_epi32(all(1), _mm512_and_si512(h, all(31)));
    __mmask16 exact = _mm512_cmpeq_epi32_mask(p, n);
    return _mm512_mask_sub_epi32(h, _mm512_mask_test_epi32_mask(exact, word, bit), h, all(1));
}

/* Sixteen pixels, 48 bytes: byte 3 i + c becomes the lowest of value i of channel c. */
INLINE void load(const uint8_t *rgb, ints *r, ints *g, ints *b)
{
    const __mmask64 lowest = 0x1111111111111111;
    const ints at = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    ints in = _mm512_inserti32x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)rgb)),
                                 _mm_loadu_si128((const __m128i *)(rgb + 32)), 2);
    *r = _mm512_maskz_permutexvar_epi8(lowest, at, in);
    *g = _mm512_maskz_permutexvar_epi8(lowest, add(at, all(1)), in);
    *b = _mm512_maskz_permutexvar_epi8(lowest, add(at, all(2)), in);
}

INLINE void store(uint8_t *rgb, ints r, ints g, ints b)
{
    const ints pack = _mm512_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 62, 61, 60,
                                      58, 57, 56, 54, 53, 52, 50, 49, 48, 46, 45, 44, 42, 41, 40,
                                      38, 37, 36, 34, 33, 32, 30, 29, 28, 26, 25, 24, 22, 21, 20,
                                      18, 17, 16, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
    ints v = _mm512_or_si512(r, _mm512_slli_epi32(g, 8));
    v = _mm512_permutexvar_epi8(pack, _mm512_or_si512(v, _mm512_slli_epi32(b, 16)));
    _mm256_storeu_si256((__m256i *)rgb, _mm512_castsi512_si256(v));
    _mm_storeu_si128((__m128i *)(rgb + 32), _mm512_extracti32x4_epi32(v, 2));
}

INLINE uint64_t sum_of(ints v)
{
    uint32_t lanes[LANES];
    uint64_t sum = 0;
    _mm512_storeu_si512(lanes, v);
    for (int i = 0; i < LANES; i++) sum += lanes[i];
    return sum;
}

#include "gpu/colour_lanes.h"

TARGET static void mixup(const uint8_t *own, const uint8_t *other, float lambda, float rest,
                         uint8_t *out, size_t n)
{
    reals l = all_real(lambda), r = all_real(rest);
    for (; n >= 16; n -= 16, own += 16, other += 16, out += 16) {
        ints a = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)own));
        ints b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)other));
        reals sum = add_real(times_real(real(a), l), times_real(real(b), r));
        _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(sum)));
    }
    ldri_colour_plain.mixup(own, other, lambda, rest, out, n);
}

const ldri_colour_kernels ldri_colour_avx512 = {run, mixup};
#endif
