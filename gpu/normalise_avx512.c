/* normalise_avx512.c - the last step on 512-bit registers with VBMI, sixteen pixels at a time.
 *
 * vfmadd rounds once, as fmaf does; vcvtps2ph rounds to nearest even, with subnormals and infinity,
 * as ldri_f16_bits does. */
#include "gpu/normalise.h"

#if LDRI_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE TARGET static inline __attribute__((always_inline))

/* Sixteen values of the output's type, or the first ones that mask names.  Plain stores are much
 * faster than masked ones, so only a row's end has those: full and dtype are constants where this
 * is inlined. */
INLINE void emit(void *to, size_t at, const int full, __mmask16 mask, __m512 v,
                 const ldr_dtype dtype)
{
    if (dtype == LDR_F32) {
        if (full)
            _mm512_storeu_ps((float *)to + at, v);
        else
            _mm512_mask_storeu_ps((float *)to + at, mask, v);
        return;
    }
    __m256i half;
    if (dtype == LDR_F16) {
        half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
        __m512i u = _mm512_castps_si512(v);
        __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
        u = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
        half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
    }
    if (full)
        _mm256_storeu_si256((__m256i *)((uint16_t *)to + at), half);
    else
        _mm256_mask_storeu_epi16((uint16_t *)to + at, mask, half);
}

INLINE void emit_bytes(uint8_t *to, const int full, __mmask16 mask, __m128i v)
{
    if (full)
        _mm_storeu_si128((__m128i *)to, v);
    else
        _mm_mask_storeu_epi8(to, mask, v);
}

/* The n <= 16 pixels that become outputs x .. x + n - 1. */
INLINE __m512i load_16(const uint8_t *rgb, size_t width, size_t x, size_t n, const int hflip)
{
    __mmask64 mask = ((__mmask64)1 << (3 * n)) - 1;
    return _mm512_maskz_loadu_epi8(mask, rgb + 3 * (hflip ? width - n - x : x));
}

/* n mirrored pixels to the start of the register. */
INLINE __m512i mirror(__m512i in, size_t n)
{
    const __m512i from_16 = _mm512_set_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14,
        13, 12, 17, 16, 15, 20, 19, 18, 23, 22, 21, 26, 25, 24, 29, 28, 27, 32, 31, 30, 35, 34, 33,
        38, 37, 36, 41, 40, 39, 44, 43, 42, 47, 46, 45);
    __m512i from = _mm512_sub_epi8(from_16, _mm512_set1_epi8((char)(48 - 3 * n)));
    return _mm512_permutexvar_epi8(from, in);
}

/* Outputs x .. x + n - 1 of a row of three planes; n is 16 where full. */
INLINE void planes_16(const ldri_normaliser *z, const uint8_t *rgb, void *const to[3], size_t x,
                      size_t n, const int full, const int hflip, const ldr_dtype dtype)
{
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask64 lowest = 0x1111111111111111; /* the lowest byte of each value */
    __mmask16 mask = (__mmask16)((1u << n) - 1);
    __m512i in = load_16(rgb, z->width, x, n, hflip);
    __m512i pixel = hflip ? _mm512_sub_epi32(_mm512_set1_epi32((int)n - 1), count) : count;
    __m512i pick = _mm512_mullo_epi16(pixel, _mm512_set1_epi32(3)); /* past n: of no use */
#pragma GCC unroll 3
    for (int c = 0; c < 3; c++) {
        __m512i at = _mm512_add_epi32(pick, _mm512_set1_epi32(c));
        __m512 v = _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(lowest, at, in));
        v = _mm512_fmadd_ps(v, _mm512_set1_ps(z->scale[c]), _mm512_set1_ps(z->bias[c]));
        emit(to[c], x, full, mask, v, dtype);
    }
}

INLINE void pixels_16(const ldri_normaliser *z, const uint8_t *rgb, void *to, size_t x, size_t n,
                      const int full, const int hflip, const ldr_dtype dtype)
{
    uint64_t mask = ((uint64_t)1 << (3 * n)) - 1;
    __m512i in = load_16(rgb, z->width, x, n, hflip);
    if (hflip) in = mirror(in, n);
    __m128i part[3] = {_mm512_castsi512_si128(in), _mm512_extracti32x4_epi32(in, 1),
                       _mm512_extracti32x4_epi32(in, 2)};
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(part[i]));
        v = _mm512_fmadd_ps(v, _mm512_loadu_ps(z->pixel_scale + 16 * i),
                            _mm512_loadu_ps(z->pixel_bias + 16 * i));
        emit(to, 3 * x + 16 * (size_t)i, full, (__mmask16)(mask >> (16 * i)), v, dtype);
    }
}

INLINE void planes_u8_16(const ldri_normaliser *z, const uint8_t *rgb, void *const to[3], size_t x,
                         size_t n, const int full, const int hflip)
{
    const __m512i by_channel = _mm512_set_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 47, 44, 41, 38, 35, 32, 29, 26, 23, 20, 17,
        14, 11, 8, 5, 2, 46, 43, 40, 37, 34, 31, 28, 25, 22, 19, 16, 13, 10, 7, 4, 1, 45, 42, 39,
        36, 33, 30, 27, 24, 21, 18, 15, 12, 9, 6, 3, 0);
    __mmask16 mask = (__mmask16)((1u << n) - 1);
    __m512i in = load_16(rgb, z->width, x, n, hflip);
    if (hflip) in = mirror(in, n);
    in = _mm512_permutexvar_epi8(by_channel, in);
    emit_bytes((uint8_t *)to[0] + x, full, mask, _mm512_castsi512_si128(in));
    emit_bytes((uint8_t *)to[1] + x, full, mask, _mm512_extracti32x4_epi32(in, 1));
    emit_bytes((uint8_t *)to[2] + x, full, mask, _mm512_extracti32x4_epi32(in, 2));
}

INLINE void pixels_u8_16(const ldri_normaliser *z, const uint8_t *rgb, uint8_t *to, size_t x,
                         size_t n, const int full, const int hflip)
{
    __m512i in = load_16(rgb, z->width, x, n, hflip);
    if (hflip) in = mirror(in, n);
    if (full) {
        _mm256_storeu_si256((__m256i *)(to + 3 * x), _mm512_castsi512_si256(in));
        _mm_storeu_si128((__m128i *)(to + 3 * x + 32), _mm512_extracti32x4_epi32(in, 2));
    } else {
        _mm512_mask_storeu_epi8(to + 3 * x, ((__mmask64)1 << (3 * n)) - 1, in);
    }
}

INLINE void part_of_row(const ldri_normaliser *z, const uint8_t *rgb, void *const to[3], size_t x,
                        size_t n, const int full, const int hflip, const ldr_dtype dtype,
                        const ldr_layout layout)
{
    if (dtype != LDR_U8 && layout == LDR_NCHW)
        planes_16(z, rgb, to, x, n, full, hflip, dtype);
    else if (dtype != LDR_U8)
        pixels_16(z, rgb, to[0], x, n, full, hflip, dtype);
    else if (layout == LDR_NCHW)
        planes_u8_16(z, rgb, to, x, n, full, hflip);
    else
        pixels_u8_16(z, rgb, to[0], x, n, full, hflip);
}

INLINE void whole_row(const ldri_normaliser *z, const uint8_t *rgb, void *const to[3],
                      const int hflip, const ldr_dtype dtype, const ldr_layout layout)
{
    size_t x = 0, width = z->width;
    for (; x + 16 <= width; x += 16) part_of_row(z, rgb, to, x, 16, 1, hflip, dtype, layout);
    if (x < width) part_of_row(z, rgb, to, x, width - x, 0, hflip, dtype, layout);
}

INLINE void row_of(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3],
                   const ldr_dtype dtype)
{
    if (z->layout == LDR_NCHW) {
        if (hflip)
            whole_row(z, rgb, to, 1, dtype, LDR_NCHW);
        else
            whole_row(z, rgb, to, 0, dtype, LDR_NCHW);
    } else {
        if (hflip)
            whole_row(z, rgb, to, 1, dtype, LDR_NHWC);
        else
            whole_row(z, rgb, to, 0, dtype, LDR_NHWC);
    }
}

TARGET static void row(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3])
{
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
        row_of(z, rgb, hflip, to, LDR_U8);
        break;
    }
}

const ldri_normalise_kernels ldri_normalise_avx512 = {row};
#else
typedef int ldri_not_empty; /* ISO C forbids an empty file */
#endif
