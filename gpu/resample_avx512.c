/* resample_avx512.c - both passes on 512-bit registers with VNNI and VBMI, exact.
 *
 * A weight q (|q| < 1.5 * 2^22) is written in three signed digits, q = d2 * 65536 + d1 * 256 + d0
 * with -128 <= d0, d1 <= 127 and |d2| < 97: the bytes of (q + 0x8080) ^ 0x8080.  vpdpbusd
 * multiplies four unsigned pixels by four signed digits and adds to an int32 without saturation.
 * The sum is taken from the highest digit down, ((S2 << 8) + S1 << 8) + S0, modulo 2^32; the true
 * total is below 2^31 in absolute value (resample_avx2.c), so that is the total.  The rounding,
 * 2^21, enters with the highest digit as 32. */
#include "gpu/resample.h"

#if LDRI_X86
#include <immintrin.h>
#include <string.h>

#include "gpu/resample_blocks.h"
#include "gpu/weights.h"

#define TARGET __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define INLINE TARGET static inline __attribute__((always_inline))

#define DIGIT_ROUND (LDRI_WEIGHT_ROUND >> 16)

/* --- weights ------------------------------------------------------------------------------ */

/* ldri_filter_value on eight values: the same operations, so the same bits. */
INLINE __m512d filter_value(int filter, __m512d x)
{
    const __m512d one = _mm512_set1_pd(1.0);
    x = _mm512_abs_pd(x);
    __mmask8 below_one = _mm512_cmp_pd_mask(x, one, _CMP_LT_OQ);
    if (filter != LDR_BICUBIC) return _mm512_maskz_sub_pd(below_one, one, x);
    const double a = -0.5;
    __m512d near =
        _mm512_sub_pd(_mm512_mul_pd(_mm512_set1_pd(a + 2.0), x), _mm512_set1_pd(a + 3.0));
    near = _mm512_add_pd(_mm512_mul_pd(_mm512_mul_pd(near, x), x), one);
    __m512d far = _mm512_mul_pd(_mm512_sub_pd(x, _mm512_set1_pd(5.0)), x);
    far = _mm512_mul_pd(_mm512_add_pd(far, _mm512_set1_pd(8.0)), x);
    __mmask8 below_two = _mm512_cmp_pd_mask(x, _mm512_set1_pd(2.0), _CMP_LT_OQ);
    far =
        _mm512_maskz_mul_pd(below_two, _mm512_sub_pd(far, _mm512_set1_pd(4.0)), _mm512_set1_pd(a));
    return _mm512_mask_mov_pd(far, below_one, near);
}

/* Eight outputs at once, a tap at a time; taps past an output's window count as zero, which leaves
 * its sum as it is.  Four taps are transposed to be stored. */
TARGET static void weights(ldri_table *t, const ldri_axis *axis, int filter, uint32_t first)
{
    double scale = (double)axis->n / axis->m;
    const __m512d inv = _mm512_set1_pd(1.0 / (scale > 1.0 ? scale : 1.0));
    const __m512d half = _mm512_set1_pd(0.5), unit = _mm512_set1_pd(4194304.0);
    const __m512d stored = _mm512_set1_pd(axis->stored);
    for (uint32_t j = 0; j < t->padded; j += 8) {
        /* Entries that fill up the table repeat the last output. */
        __m512d at = _mm512_cvtepu32_pd(
            _mm256_min_epu32(_mm256_add_epi32(_mm256_set1_epi32((int)(first + j)),
                                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                             _mm256_set1_epi32((int)(first + t->count - 1))));
        __m512d center = _mm512_mul_pd(_mm512_add_pd(at, half), _mm512_set1_pd(scale));
        __m512d start = _mm512_add_pd(
            _mm512_cvtepu32_pd(_mm256_loadu_si256((const __m256i *)(t->lo + j))), stored);
        __m512d count = _mm512_cvtepu32_pd(_mm256_loadu_si256((const __m256i *)(t->n + j)));
        __m512d sum = _mm512_setzero_pd();
        for (uint32_t k = 0; k < t->taps; k++) {
            __m512d kk = _mm512_set1_pd(k);
            __m512d x = _mm512_add_pd(_mm512_sub_pd(_mm512_add_pd(kk, start), center), half);
            __m512d v = filter_value(filter, _mm512_mul_pd(x, inv));
            sum = _mm512_mask_add_pd(sum, _mm512_cmp_pd_mask(kk, count, _CMP_LT_OQ), sum, v);
        }
        __mmask8 none = _mm512_cmp_pd_mask(sum, _mm512_setzero_pd(), _CMP_EQ_OQ);
        __m512d divisor = _mm512_mask_mov_pd(sum, none, _mm512_set1_pd(1.0));
        int32_t *q = t->q + (size_t)j * t->stride;
        for (uint32_t k = 0; k < t->stride; k += 4) {
            __m256i fixed[4];
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++) {
                __m512d kk = _mm512_set1_pd(k + i);
                __mmask8 inside = _mm512_cmp_pd_mask(kk, count, _CMP_LT_OQ);
                __m512d x = _mm512_add_pd(_mm512_sub_pd(_mm512_add_pd(kk, start), center), half);
                __m512d v = filter_value(filter, _mm512_mul_pd(x, inv));
                v = _mm512_div_pd(v, divisor);
                __mmask8 negative = _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_LT_OQ);
                __m512d bias = _mm512_mask_sub_pd(half, negative, _mm512_setzero_pd(), half);
                v = _mm512_maskz_add_pd(inside, bias, _mm512_mul_pd(v, unit));
                fixed[i] = _mm512_cvttpd_epi32(v);
            }
            __m256i a = _mm256_unpacklo_epi32(fixed[0], fixed[1]);
            __m256i b = _mm256_unpackhi_epi32(fixed[0], fixed[1]);
            __m256i c = _mm256_unpacklo_epi32(fixed[2], fixed[3]);
            __m256i d = _mm256_unpackhi_epi32(fixed[2], fixed[3]);
            __m256i out[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                              _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++) {
                _mm_storeu_si128((__m128i *)(q + (size_t)i * t->stride + k),
                                 _mm256_castsi256_si128(out[i]));
                _mm_storeu_si128((__m128i *)(q + (size_t)(i + 4) * t->stride + k),
                                 _mm256_extracti128_si256(out[i], 1));
            }
        }
    }
}

/* --- packing ------------------------------------------------------------------------------ */

/* w = the highest digits of the four taps, one a byte, then the middle, then the lowest ones. */
INLINE void split_vector(const int32_t q[4], uint32_t w[4])
{
    const __m128i by_digit = _mm_setr_epi8(2, 6, 10, 14, 1, 5, 9, 13, 0, 4, 8, 12, -1, -1, -1, -1);
    const __m128i offset = _mm_set1_epi32(0x8080);
    __m128i v = _mm_loadu_si128((const __m128i *)q);
    v = _mm_xor_si128(_mm_add_epi32(v, offset), offset);
    _mm_storeu_si128((__m128i *)w, _mm_shuffle_epi8(v, by_digit));
}

TARGET static void split(const int32_t q[4], uint32_t w[4])
{
    split_vector(q, w);
}

/* The dense form: five outputs at once, of which the 15 sums fill a register but for one lane.
 * 64 bytes of the row hold the pixels of all five for four taps, so one byte permutation gathers
 * them. */
typedef struct dense_block {
    uint8_t pick[64];       /* byte of the load that belongs there: output, channel, tap */
    uint32_t digits[3][16]; /* from the highest */
} dense_block;

typedef struct dense_group { /* place of the loads of five outputs */
    uint32_t at[6];
    uint32_t full, unused; /* full: each load lies inside the row */
    uint64_t mask[6];      /* bytes of the load that do */
} dense_group;

#define DENSE_OUTPUTS    5u
#define DENSE_MOST_TAPS  24u
#define DENSE_MOST_SPAN  17u /* (17 + 3) pixels of 3 bytes, and 3 more bytes, are in 64 */
#define DENSE_MOST_BLOCK (DENSE_MOST_TAPS / 4)

/* 0: not for this table. */
static uint32_t dense_groups(const ldri_table *t)
{
    if (t->stride > DENSE_MOST_TAPS) return 0;
    for (uint32_t j = 0; j < t->count; j += DENSE_OUTPUTS) {
        uint32_t last = j + DENSE_OUTPUTS < t->count ? j + DENSE_OUTPUTS - 1 : t->count - 1;
        if (t->lo[last] - t->lo[j] > DENSE_MOST_SPAN) return 0;
    }
    return (t->count + DENSE_OUTPUTS - 1) / DENSE_OUTPUTS;
}

TARGET static void dense_fill(ldri_table *t, uint32_t n_groups)
{
    uint32_t n_blocks = t->stride / 4;
    dense_group *group = t->dense;
    dense_block *block = (dense_block *)(group + n_groups);
    size_t row_bytes = 3 * (size_t)t->n_stored;
    for (uint32_t g = 0; g < n_groups; g++, group++) {
        uint32_t j = g * DENSE_OUTPUTS;
        uint32_t pick[16] = {0};
        size_t from[DENSE_OUTPUTS];
        group->full = 1;
        group->unused = 0;
        for (uint32_t o = 0; o < DENSE_OUTPUTS; o++) {
            uint32_t out = j + o < t->count ? j + o : t->count - 1;
            uint32_t first = 3 * (t->lo[out] - t->lo[j]); /* of the load */
            from[o] = (size_t)out * t->stride;
            for (uint32_t c = 0; c < 3; c++)
                pick[3 * o + c] = (first + c) * 0x01010101u + 0x09060300u;
        }
        for (uint32_t b = 0; b < n_blocks; b++, block++) {
            /* A block whose pixels all lie past the row has weights of 0: any load will do. */
            size_t at = 3 * ((size_t)t->lo[j] + 4 * b);
            if (at >= row_bytes) at = 0;
            size_t rest = row_bytes - at;
            group->at[b] = (uint32_t)at;
            group->mask[b] = rest >= 64 ? UINT64_MAX : ((uint64_t)1 << rest) - 1;
            group->full &= rest >= 64;
            memcpy(block->pick, pick, sizeof pick);
            for (uint32_t o = 0; o < DENSE_OUTPUTS; o++) {
                uint32_t w[4];
                split_vector(t->q + from[o] + 4 * b, w);
                for (uint32_t i = 0; i < 3; i++)
                    for (uint32_t c = 0; c < 3; c++) block->digits[i][3 * o + c] = w[i];
            }
            for (uint32_t i = 0; i < 3; i++) block->digits[i][15] = 0;
        }
    }
}

TARGET static ldr_status pack(ldri_table *t, int horizontal)
{
    uint32_t n_groups = horizontal ? dense_groups(t) : 0;
    if (!n_groups) {
        ldri_blocks_fill(t, horizontal, split);
        return LDR_OK;
    }
    size_t bytes = n_groups * (sizeof(dense_group) + (size_t)(t->stride / 4) * sizeof(dense_block));
    t->dense = ldri_table_dense(t, bytes);
    if (!t->dense) return LDR_E_NOMEM;
    dense_fill(t, n_groups);
    t->dense_kind = t->stride / 4;
    return LDR_OK;
}

/* --- horizontal pass ---------------------------------------------------------------------- */

/* Masked loads cost more than plain ones: full, a constant where this is inlined, tells that none
 * is needed. */
INLINE __m512i load_64(const uint8_t *p, const int full, __mmask64 mask)
{
    return full ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(mask, p);
}

INLINE __m512i bytes_of(__m512i a, __m512i b, __m512i c, __m512i d) /* by 128-bit lanes */
{
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

INLINE void store_lanes(__m512i v, uint8_t *const dst[4], size_t at)
{
    _mm_storeu_si128((__m128i *)(dst[0] + at), _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i *)(dst[1] + at), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(dst[2] + at), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(dst[3] + at), _mm512_extracti32x4_epi32(v, 3));
}

/* n_blocks is a constant where this is inlined: all loops over it unroll. */
INLINE void dense_five(const dense_group *group, const dense_block *block,
                       const uint8_t *const rows[4], uint8_t *const to[4], size_t at,
                       const uint32_t n_blocks, const int full)
{
    const __m512i by_row = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i x[DENSE_MOST_BLOCK][4], sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) sum[i] = _mm512_set1_epi32(DIGIT_ROUND);
#pragma GCC unroll 6
    for (uint32_t b = 0; b < n_blocks; b++) {
        __m512i pick = _mm512_loadu_si512(block[b].pick);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            x[b][i] = _mm512_permutexvar_epi8(
                pick, load_64(rows[i] + group->at[b], full, group->mask[b]));
    }
#pragma GCC unroll 3
    for (int digit = 0; digit < 3; digit++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            if (digit > 0) sum[i] = _mm512_slli_epi32(sum[i], 8);
#pragma GCC unroll 6
        for (uint32_t b = 0; b < n_blocks; b++) {
            __m512i w = _mm512_loadu_si512(block[b].digits[digit]);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], x[b][i], w);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) sum[i] = _mm512_srai_epi32(sum[i], LDRI_WEIGHT_BITS);
    __m512i bytes = bytes_of(sum[0], sum[1], sum[2], sum[3]);
    store_lanes(_mm512_permutexvar_epi32(by_row, bytes), to, at);
}

INLINE void across_dense(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                         const uint32_t n_blocks)
{
    const uint8_t *const rows[4] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[4] = {dst[0], dst[1], dst[2], dst[3]};
    uint32_t n_groups = (t->count + DENSE_OUTPUTS - 1) / DENSE_OUTPUTS;
    const dense_group *group = t->dense, *end = group + n_groups;
    const dense_block *block = (const dense_block *)end;
    size_t at = 0;
    for (; group < end && group->full; group++, block += n_blocks, at += 15)
        dense_five(group, block, rows, to, at, n_blocks, 1);
    for (; group < end; group++, block += n_blocks, at += 15)
        dense_five(group, block, rows, to, at, n_blocks, 0);
}

/* Four rows, one in each lane, and one output at a time: for windows that lie far apart. */
INLINE void across_blocks(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4])
{
    const __m512i squeeze = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const uint8_t *const rows[4] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[4] = {dst[0], dst[1], dst[2], dst[3]};
    uint32_t n_blocks = t->stride / 4;
    const ldri_block *block = t->blocks;
    for (uint32_t j = 0; j < t->count; j += 4) {
        __m512i out[4];
#pragma GCC unroll 4
        for (int o = 0; o < 4; o++) {
            __m512i high = _mm512_set1_epi32(DIGIT_ROUND), middle = _mm512_setzero_si512();
            __m512i low = middle;
            for (uint32_t k = 0; k < n_blocks; k++, block++) {
                const uint32_t at = block->at;
                __m512i x =
                    _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(rows[0] + at)));
                x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(rows[1] + at)), 1);
                x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(rows[2] + at)), 2);
                x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(rows[3] + at)), 3);
                x = _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(_mm_load_si128(
                                               (const __m128i *)ldri_quads_pattern[block->back])));
                high = _mm512_dpbusd_epi32(high, x, _mm512_set1_epi32((int)block->w[0]));
                middle = _mm512_dpbusd_epi32(middle, x, _mm512_set1_epi32((int)block->w[1]));
                low = _mm512_dpbusd_epi32(low, x, _mm512_set1_epi32((int)block->w[2]));
            }
            middle = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
            low = _mm512_add_epi32(_mm512_slli_epi32(middle, 8), low);
            out[o] = _mm512_srai_epi32(low, LDRI_WEIGHT_BITS);
        }
        __m512i bytes = bytes_of(out[0], out[1], out[2], out[3]);
        store_lanes(_mm512_shuffle_epi8(bytes, squeeze), to, 3 * (size_t)j);
    }
}

TARGET static void across(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                          uint32_t n_rows)
{
    switch (t->dense_kind) {
    case 1:
        across_dense(t, src, dst, 1);
        break;
    case 2:
        across_dense(t, src, dst, 2);
        break;
    case 3:
        across_dense(t, src, dst, 3);
        break;
    case 4:
        across_dense(t, src, dst, 4);
        break;
    case 5:
        across_dense(t, src, dst, 5);
        break;
    case 6:
        across_dense(t, src, dst, 6);
        break;
    default:
        if (t->n_stored < LDRI_BLOCK_MIN_STORED)
            ldri_resample_plain.across(t, src, dst, n_rows);
        else
            across_blocks(t, src, dst);
    }
}

/* --- vertical pass ------------------------------------------------------------------------ */

/* Four taps of 64 columns: x[i] has them as groups of four bytes, columns in the order that
 * bytes_of undoes. */
INLINE void quads(const uint8_t *const rows[4], size_t at, const int full, __mmask64 mask,
                  __m512i x[4])
{
    __m512i a = load_64(rows[0] + at, full, mask);
    __m512i b = load_64(rows[1] + at, full, mask);
    __m512i c = load_64(rows[2] + at, full, mask);
    __m512i d = load_64(rows[3] + at, full, mask);
    __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
    __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    x[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
    x[1] = _mm512_unpackhi_epi16(ab_low, cd_low);
    x[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
    x[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
}

INLINE void store_64(uint8_t *p, const int full, __mmask64 mask, __m512i v)
{
    if (full)
        _mm512_storeu_si512(p, v);
    else
        _mm512_mask_storeu_epi8(p, mask, v);
}

/* 64 columns of an output of up to 8 taps; n_blocks is 1 or 2, a constant where this is inlined. */
INLINE void short_64(const ldri_block *block, const uint8_t *const *rows, uint8_t *out, size_t at,
                     const uint32_t n_blocks, const int full, __mmask64 mask)
{
    __m512i x[2][4], sum[4];
#pragma GCC unroll 2
    for (uint32_t b = 0; b < n_blocks; b++) quads(rows + 4 * b, at, full, mask, x[b]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sum[i] = _mm512_set1_epi32(DIGIT_ROUND);
#pragma GCC unroll 3
        for (int digit = 0; digit < 3; digit++) {
            if (digit > 0) sum[i] = _mm512_slli_epi32(sum[i], 8);
#pragma GCC unroll 2
            for (uint32_t b = 0; b < n_blocks; b++)
                sum[i] =
                    _mm512_dpbusd_epi32(sum[i], x[b][i], _mm512_set1_epi32((int)block[b].w[digit]));
        }
        sum[i] = _mm512_srai_epi32(sum[i], LDRI_WEIGHT_BITS);
    }
    store_64(out + at, full, mask, bytes_of(sum[0], sum[1], sum[2], sum[3]));
}

/* 64 columns of an output of any number of taps. */
INLINE void long_64(const ldri_block *block, const uint8_t *const *rows, uint8_t *out, size_t at,
                    uint32_t n_blocks, const int full, __mmask64 mask)
{
    __m512i high[4], middle[4], low[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        high[i] = _mm512_set1_epi32(DIGIT_ROUND);
        middle[i] = low[i] = _mm512_setzero_si512();
    }
    for (uint32_t b = 0; b < n_blocks; b++) {
        __m512i x[4];
        quads(rows + 4 * (size_t)b, at, full, mask, x);
        __m512i w2 = _mm512_set1_epi32((int)block[b].w[0]);
        __m512i w1 = _mm512_set1_epi32((int)block[b].w[1]);
        __m512i w0 = _mm512_set1_epi32((int)block[b].w[2]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            high[i] = _mm512_dpbusd_epi32(high[i], x[i], w2);
            middle[i] = _mm512_dpbusd_epi32(middle[i], x[i], w1);
            low[i] = _mm512_dpbusd_epi32(low[i], x[i], w0);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        middle[i] = _mm512_add_epi32(_mm512_slli_epi32(high[i], 8), middle[i]);
        low[i] = _mm512_add_epi32(_mm512_slli_epi32(middle[i], 8), low[i]);
        low[i] = _mm512_srai_epi32(low[i], LDRI_WEIGHT_BITS);
    }
    store_64(out + at, full, mask, bytes_of(low[0], low[1], low[2], low[3]));
}

INLINE void down_64(const ldri_block *block, const uint8_t *const *rows, uint8_t *out, size_t at,
                    uint32_t n_blocks, const int is_short, const int full, __mmask64 mask)
{
    if (is_short)
        short_64(block, rows, out, at, n_blocks, full, mask);
    else
        long_64(block, rows, out, at, n_blocks, full, mask);
}

INLINE void down_all(const ldri_block *block, const uint8_t *const *rows, uint8_t *out,
                     size_t n_bytes, uint32_t n_blocks, const int is_short)
{
    size_t at = 0;
    for (; at + 64 <= n_bytes; at += 64)
        down_64(block, rows, out, at, n_blocks, is_short, 1, UINT64_MAX);
    if (at < n_bytes)
        down_64(block, rows, out, at, n_blocks, is_short, 0, ((__mmask64)1 << (n_bytes - at)) - 1);
}

TARGET static void down(const ldri_table *t, uint32_t at, const uint8_t *const *rows, uint8_t *out,
                        size_t n_bytes)
{
    const ldri_block *block = t->blocks + (size_t)at * (t->stride / 4);
    uint32_t n_blocks = (t->n[at] + 3) / 4;
    if (n_blocks == 1)
        down_all(block, rows, out, n_bytes, 1, 1);
    else if (n_blocks == 2)
        down_all(block, rows, out, n_bytes, 2, 1);
    else
        down_all(block, rows, out, n_bytes, n_blocks, 0);
}

const ldri_resample_kernels ldri_resample_avx512 = {weights, pack, across, down};
#else
typedef int ldri_not_empty; /* ISO C forbids an empty file */
#endif
