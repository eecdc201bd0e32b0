/* normalise_avx2.c - the last step on 256-bit registers, eight pixels at a time.
 *
 * vfmadd rounds once, as fmaf does; vcvtps2ph rounds to nearest even, with subnormals and infinity,
 * as ldri_f16_bits does. */
#include "gpu/normalise.h"

#if LDRI_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE TARGET static inline __attribute__((always_inline))

/* Eight values of the output's type; dtype is a constant where this is inlined. */
INLINE void emit(void *to, size_t at, __m256 v, const ldr_dtype dtype)
{
    if (dtype == LDR_F32) {
        _mm256_storeu_ps((float *)to + at, v);
    } else if (dtype == LDR_F16) {
        _mm_storeu_si128((__m128i *)((uint16_t *)to + at),
                         _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    } else {
        __m256i u = _mm256_castps_si256(v);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
        u = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
        u = _mm256_srli_epi32(u, 16);
        _mm_storeu_si128(
            (__m128i *)((uint16_t *)to + at),
            _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
    }
}

/* Eight pixels, 24 bytes: the first four at the start of the low half, the others 4 bytes into the
 * high half, or the other way round for a mirrored row. */
INLINE __m256i load_8(const uint8_t *rgb, int hflip)
{
    __m128i a = _mm_loadu_si128((const __m128i *)rgb);
    __m128i b = _mm_loadu_si128((const __m128i *)(rgb + 8));
    return hflip ? _mm256_inserti128_si256(_mm256_castsi128_si256(b), a, 1)
                 : _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* Pattern that picks channel c of the four pixels of each half as 32-bit values. */
INLINE __m256i pick_channel(int c, int hflip)
{
    const int n = -1;
    if (hflip)
        return _mm256_add_epi8(_mm256_setr_epi8(13, n, n, n, 10, n, n, n, 7, n, n, n, 4, n, n,
                                                n, /* high half: a */
                                                9, n, n, n, 6, n, n, n, 3, n, n, n, 0, n, n, n),
                               _mm256_set1_epi32(c));
    return _mm256_add_epi8(_mm256_setr_epi8(0, n, n, n, 3, n, n, n, 6, n, n, n, 9, n, n, n, /* */
                                            4, n, n, n, 7, n, n, n, 10, n, n, n, 13, n, n, n),
                           _mm256_set1_epi32(c));
}

INLINE void planes(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3],
                   const ldr_dtype dtype)
{
    size_t width = z->width;
    __m256 scale[3], bias[3];
    __m256i pick[3];
#pragma GCC unroll 3
    for (int c = 0; c < 3; c++) {
        scale[c] = _mm256_set1_ps(z->scale[c]);
        bias[c] = _mm256_set1_ps(z->bias[c]);
        pick[c] = pick_channel(c, hflip);
    }
    void *const out[3] = {to[0], to[1], to[2]};
    for (size_t x = 0; x < width; x += 8) {
        if (width - x < 8) x = width - 8; /* the last ones overlap */
        __m256i pixels = load_8(rgb + 3 * (hflip ? width - 8 - x : x), hflip);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
            __m256 v = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(pixels, pick[c]));
            emit(out[c], x, _mm256_fmadd_ps(v, scale[c], bias[c]), dtype);
        }
    }
}

/* Mirrors eight pixels: 24 bytes, 16 in *low and 8 in *high. */
INLINE void mirror_8(const uint8_t *rgb, __m128i *low, __m128i *high)
{
    const int n = -1;
    __m128i a = _mm_loadu_si128((const __m128i *)rgb);
    __m128i b = _mm_loadu_si128((const __m128i *)(rgb + 8));
    b = _mm_shuffle_epi8(b, _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, n, n, n, n));
    a = _mm_shuffle_epi8(a, _mm_setr_epi8(9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, n, n, n, n));
    *low = _mm_or_si128(b, _mm_slli_si128(a, 12));
    *high = _mm_srli_si128(a, 4);
}

INLINE void pixels(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *to,
                   const ldr_dtype dtype)
{
    size_t width = z->width;
    __m256 scale[3], bias[3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        scale[i] = _mm256_loadu_ps(z->pixel_scale + 8 * i);
        bias[i] = _mm256_loadu_ps(z->pixel_bias + 8 * i);
    }
    for (size_t x = 0; x < width; x += 8) {
        if (width - x < 8) x = width - 8;
        __m128i low, high;
        if (hflip) {
            mirror_8(rgb + 3 * (width - 8 - x), &low, &high);
        } else {
            low = _mm_loadu_si128((const __m128i *)(rgb + 3 * x));
            high = _mm_loadl_epi64((const __m128i *)(rgb + 3 * x + 16));
        }
        __m128i part[3] = {low, _mm_srli_si128(low, 8), high};
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(part[i]));
            emit(to, 3 * x + 8 * (size_t)i, _mm256_fmadd_ps(v, scale[i], bias[i]), dtype);
        }
    }
}

/* uint8: channel c of eight pixels. */
INLINE void planes_u8(size_t width, const uint8_t *rgb, int hflip, void *const to[3])
{
    /* Each half gives four bytes of R, of G, of B. */
    const __m256i straight =
        _mm256_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1, /* */
                         4, 7, 10, 13, 5, 8, 11, 14, 6, 9, 12, 15, -1, -1, -1, -1);
    const __m256i mirrored =
        _mm256_setr_epi8(13, 10, 7, 4, 14, 11, 8, 5, 15, 12, 9, 6, -1, -1, -1, -1, /* */
                         9, 6, 3, 0, 10, 7, 4, 1, 11, 8, 5, 2, -1, -1, -1, -1);
    const __m256i together = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i pick = hflip ? mirrored : straight;
    for (size_t x = 0; x < width; x += 8) {
        if (width - x < 8) x = width - 8;
        __m256i v = load_8(rgb + 3 * (hflip ? width - 8 - x : x), hflip);
        v = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(v, pick), together);
        __m128i rg = _mm256_castsi256_si128(v), b = _mm256_extracti128_si256(v, 1);
        _mm_storel_epi64((__m128i *)((uint8_t *)to[0] + x), rg);
        _mm_storel_epi64((__m128i *)((uint8_t *)to[1] + x), _mm_unpackhi_epi64(rg, rg));
        _mm_storel_epi64((__m128i *)((uint8_t *)to[2] + x), b);
    }
}

INLINE void pixels_u8(size_t width, const uint8_t *rgb, int hflip, uint8_t *to)
{
    if (!hflip) {
        memcpy(to, rgb, 3 * width);
        return;
    }
    for (size_t x = 0; x < width; x += 8) {
        if (width - x < 8) x = width - 8;
        __m128i low, high;
        mirror_8(rgb + 3 * (width - 8 - x), &low, &high);
        _mm_storeu_si128((__m128i *)(to + 3 * x), low);
        _mm_storel_epi64((__m128i *)(to + 3 * x + 16), high);
    }
}

INLINE void row_of(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3],
                   const ldr_dtype dtype)
{
    if (z->layout == LDR_NCHW) {
        if (hflip)
            planes(z, rgb, 1, to, dtype);
        else
            planes(z, rgb, 0, to, dtype);
    } else {
        if (hflip)
            pixels(z, rgb, 1, to[0], dtype);
        else
            pixels(z, rgb, 0, to[0], dtype);
    }
}

TARGET static void row(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3])
{
    if (z->width < 8) {
        ldri_normalise_plain.row(z, rgb, hflip, to);
        return;
    }
    switch (z->dtype) {
    case LDR_F32:
        row_of(z, rgb, hflip, to, LDR_F32);
        break;
    case LDR_F16:
        row_of(z, rgb, hflip, to, LDR_F16);
        break;
    case LDR_BF16:
        row_of(z, rgb, hflip, to, LDR_BF16);
        break;
    case LDR_U8:
        if (z->layout == LDR_NCHW)
            planes_u8(z->width, rgb, hflip, to);
        else
            pixels_u8(z->width, rgb, hflip, to[0]);
        break;
    }
}

const ldri_normalise_kernels ldri_normalise_avx2 = {row};
#else
typedef int ldri_not_empty; /* ISO C forbids an empty file */
#endif
