/* colour_avx2.c - the colour operators on 256-bit registers, eight pixels at a time. */
#include "gpu/colour_cpu.h"

#if LDRI_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define LANES  8

typedef __m256i ints;
typedef __m256 reals;

#define all(a)            _mm256_set1_epi32(a)
#define all_real(a)       _mm256_set1_ps(a)
#define real(a)           _mm256_cvtepi32_ps(a)
#define whole(a)          _mm256_cvttps_epi32(a)
#define add(a, b)         _mm256_add_epi32(a, b)
#define subtract(a, b)    _mm256_sub_epi32(a, b)
#define min(a, b)         _mm256_min_epi32(a, b)
#define max(a, b)         _mm256_max_epi32(a, b)
#define absolute(a)       _mm256_abs_epi32(a)
#define times(a, b)       _mm256_madd_epi16(a, b)
#define modulo_256(a)     _mm256_and_si256(a, all(255))
#define add_real(a, b)    _mm256_add_ps(a, b)
#define times_real(a, b)  _mm256_mul_ps(a, b)
#define divide_real(a, b) _mm256_div_ps(a, b)
#define fused(a, b, c)    _mm256_fmadd_ps(a, b, c)

INLINE ints choose(ints a, ints b, ints x, ints y)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpeq_epi32(x, y));
}

INLINE ints add_where_negative(ints n, ints a)
{
    return add(n, _mm256_and_si256(a, _mm256_srai_epi32(n, 31)));
}

INLINE ints falls_short(ints h, ints p, ints n)
{
    const ints words = _mm256_setr_epi32((int)0xFFFFFFFEu, 0, 0x11000000, 0x00000111, 0x222AAAAA,
                                         0x23232222, 0x00022222, 0);
    ints bit = _mm256_permutevar8x32_epi32(words, _mm256_srli_epi32(h, 5));
    bit = _mm256_srlv_epi32(bit, _mm256_and_si256(h, all(31)));
    bit = _mm256_and_si256(_mm256_and_si256(bit, _mm256_cmpeq_epi32(p, n)), all(1));
    return subtract(h, bit);
}

/* Eight pixels, 24 bytes.  The second load begins where they still fill it: its pixels are 4 bytes
 * in. */
INLINE void load(const uint8_t *rgb, ints *r, ints *g, ints *b)
{
    const char n = -1;
    const ints pick = _mm256_setr_epi8(0, n, n, n, 3, n, n, n, 6, n, n, n, 9, n, n, n, /* */
                                       4, n, n, n, 7, n, n, n, 10, n, n, n, 13, n, n, n);
    const ints next = all(1); /* the byte behind; the others stay negative */
    ints in = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)rgb)),
                                      _mm_loadu_si128((const __m128i *)(rgb + 8)), 1);
    *r = _mm256_shuffle_epi8(in, pick);
    *g = _mm256_shuffle_epi8(in, add(pick, next));
    *b = _mm256_shuffle_epi8(in, add(add(pick, next), next));
}

INLINE void store(uint8_t *rgb, ints r, ints g, ints b)
{
    const char n = -1;
    const ints pack = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, n, n, n, n, /* */
                                       0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, n, n, n, n);
    ints v = _mm256_or_si256(r, _mm256_slli_epi32(g, 8));
    v = _mm256_shuffle_epi8(_mm256_or_si256(v, _mm256_slli_epi32(b, 16)), pack);
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
    _mm_storeu_si128((__m128i *)rgb, _mm256_castsi256_si128(v));
    _mm_storel_epi64((__m128i *)(rgb + 16), _mm256_extracti128_si256(v, 1));
}

INLINE uint64_t sum_of(ints v)
{
    uint32_t lanes[LANES];
    uint64_t sum = 0;
    _mm256_storeu_si256((__m256i *)lanes, v);
    for (int i = 0; i < LANES; i++) sum += lanes[i];
    return sum;
}

#include "gpu/colour_lanes.h"

INLINE ints mix_8(const uint8_t *own, const uint8_t *other, reals lambda, reals rest)
{
    __m128i a = _mm_loadl_epi64((const __m128i *)own), b = _mm_loadl_epi64((const __m128i *)other);
    reals x = times_real(real(_mm256_cvtepu8_epi32(a)), lambda);
    reals y = times_real(real(_mm256_cvtepu8_epi32(b)), rest);
    return _mm256_cvtps_epi32(add_real(x, y));
}

TARGET static void mixup(const uint8_t *own, const uint8_t *other, float lambda, float rest,
                         uint8_t *out, size_t n)
{
    reals l = all_real(lambda), r = all_real(rest);
    for (; n >= 16; n -= 16, own += 16, other += 16, out += 16) {
        ints v = _mm256_packus_epi32(mix_8(own, other, l, r), mix_8(own + 8, other + 8, l, r));
        v = _mm256_packus_epi16(v, v); /* dwords 0 .. 3, 8 .. 11 low; 4 .. 7, 12 .. 15 high */
        __m128i words =
            _mm_unpacklo_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        _mm_storeu_si128((__m128i *)out, words);
    }
    ldri_colour_plain.mixup(own, other, lambda, rest, out, n);
}

const ldri_colour_kernels ldri_colour_avx2 = {run, mixup};
#endif
