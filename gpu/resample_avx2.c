/* resample_avx2.c - both passes on 256-bit registers, exact.
 *
 * A weight q (22 fraction bits, |q| < 1.5 * 2^22) is split into q = h * 2048 + l with 0 <= l < 2048
 * and |h| < 3072: both fit 16 bits, so vpmaddwd multiplies two taps at once without loss.  One of
 * its sums is at most 2 * 255 * 3072 in absolute value.  Sums of many are taken modulo 2^32, as are
 * sum_h * 2048 + sum_l + 2^21; the true total is the one that plain C computes, below 2^31 in
 * absolute value since the absolute weights of an output sum to less than 1.5 * 2^22
 * (1.5 * 255 * 2^22 + 2^21 < 2^31), so the total modulo 2^32 is the total. */
#include "gpu/resample.h"

#if LDRI_X86
#include <immintrin.h>
#include <string.h>

#include "gpu/resample_blocks.h"
#include "gpu/weights.h"

#define TARGET __attribute__((target("avx2")))
#define INLINE TARGET static inline __attribute__((always_inline))

/* --- weights ------------------------------------------------------------------------------ */

/* ldri_filter_value on four values: the same operations, so the same bits. */
INLINE __m256d filter_value(int filter, __m256d x)
{
    const __m256d one = _mm256_set1_pd(1.0), two = _mm256_set1_pd(2.0);
    x = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
    __m256d below_one = _mm256_cmp_pd(x, one, _CMP_LT_OQ);
    if (filter != LDR_BICUBIC) return _mm256_and_pd(below_one, _mm256_sub_pd(one, x));
    const double a = -0.5;
    __m256d near =
        _mm256_sub_pd(_mm256_mul_pd(_mm256_set1_pd(a + 2.0), x), _mm256_set1_pd(a + 3.0));
    near = _mm256_add_pd(_mm256_mul_pd(_mm256_mul_pd(near, x), x), one);
    __m256d far = _mm256_mul_pd(_mm256_sub_pd(x, _mm256_set1_pd(5.0)), x);
    far = _mm256_mul_pd(_mm256_add_pd(far, _mm256_set1_pd(8.0)), x);
    far = _mm256_mul_pd(_mm256_sub_pd(far, _mm256_set1_pd(4.0)), _mm256_set1_pd(a));
    far = _mm256_and_pd(_mm256_cmp_pd(x, two, _CMP_LT_OQ), far);
    return _mm256_blendv_pd(far, near, below_one);
}

INLINE __m256d from_u32(__m128i v) /* exact */
{
    v = _mm_xor_si128(v, _mm_set1_epi32(INT32_MIN));
    return _mm256_add_pd(_mm256_cvtepi32_pd(v), _mm256_set1_pd(2147483648.0));
}

/* Four outputs at once, a tap at a time; taps past an output's window count as zero, which leaves
 * its sum as it is.  Four taps are transposed to be stored. */
TARGET static void weights(ldri_table *t, const ldri_axis *axis, int filter, uint32_t first)
{
    double scale = (double)axis->n / axis->m;
    __m256d inv = _mm256_set1_pd(1.0 / (scale > 1.0 ? scale : 1.0));
    const __m256d half = _mm256_set1_pd(0.5), unit = _mm256_set1_pd(4194304.0);
    const __m256d sign = _mm256_set1_pd(-0.0), zero = _mm256_setzero_pd();
    for (uint32_t j = 0; j < t->padded; j += 4) {
        /* Entries that fill up the table repeat the last output. */
        __m128i out = _mm_min_epu32(
            _mm_add_epi32(_mm_set1_epi32((int)(first + j)), _mm_setr_epi32(0, 1, 2, 3)),
            _mm_set1_epi32((int)(first + t->count - 1)));
        __m256d center = _mm256_mul_pd(_mm256_add_pd(from_u32(out), half), _mm256_set1_pd(scale));
        __m256d start = _mm256_add_pd(from_u32(_mm_loadu_si128((const __m128i *)(t->lo + j))),
                                      _mm256_set1_pd(axis->stored));
        __m256d count = from_u32(_mm_loadu_si128((const __m128i *)(t->n + j))), sum = zero;
        for (uint32_t k = 0; k < t->taps; k++) {
            __m256d kk = _mm256_set1_pd(k);
            __m256d x = _mm256_add_pd(_mm256_sub_pd(_mm256_add_pd(kk, start), center), half);
            __m256d v = filter_value(filter, _mm256_mul_pd(x, inv));
            sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_cmp_pd(kk, count, _CMP_LT_OQ), v));
        }
        __m256d divisor =
            _mm256_blendv_pd(sum, _mm256_set1_pd(1.0), _mm256_cmp_pd(sum, zero, _CMP_EQ_OQ));
        int32_t *q = t->q + (size_t)j * t->stride;
        for (uint32_t k = 0; k < t->stride; k += 4) {
            __m128i fixed[4];
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++) {
                __m256d kk = _mm256_set1_pd(k + i);
                __m256d x = _mm256_add_pd(_mm256_sub_pd(_mm256_add_pd(kk, start), center), half);
                __m256d v = filter_value(filter, _mm256_mul_pd(x, inv));
                v = _mm256_div_pd(v, divisor);
                /* 0.5 with the sign of v; a negative zero rounds to 0 either way */
                __m256d bias = _mm256_or_pd(half, _mm256_and_pd(sign, v));
                v = _mm256_add_pd(bias, _mm256_mul_pd(v, unit));
                v = _mm256_and_pd(_mm256_cmp_pd(kk, count, _CMP_LT_OQ), v);
                fixed[i] = _mm256_cvttpd_epi32(v);
            }
            __m128i a = _mm_unpacklo_epi32(fixed[0], fixed[1]);
            __m128i b = _mm_unpackhi_epi32(fixed[0], fixed[1]);
            __m128i c = _mm_unpacklo_epi32(fixed[2], fixed[3]);
            __m128i d = _mm_unpackhi_epi32(fixed[2], fixed[3]);
            _mm_storeu_si128((__m128i *)(q + k), _mm_unpacklo_epi64(a, c));
            _mm_storeu_si128((__m128i *)(q + t->stride + k), _mm_unpackhi_epi64(a, c));
            _mm_storeu_si128((__m128i *)(q + 2 * t->stride + k), _mm_unpacklo_epi64(b, d));
            _mm_storeu_si128((__m128i *)(q + 3 * t->stride + k), _mm_unpackhi_epi64(b, d));
        }
    }
}

/* --- packing ------------------------------------------------------------------------------ */

/* w = pairs of h for taps 0,1; of l for taps 0,1; of h for taps 2,3; of l for taps 2,3. */
static void split(const int32_t q[4], uint32_t w[4])
{
    for (int i = 0; i < 2; i++) {
        const int32_t a = q[2 * i], b = q[2 * i + 1];
        w[2 * i] = ((uint32_t)(a >> 11) & 0xffffu) | (uint32_t)(b >> 11) << 16;
        w[2 * i + 1] = ((uint32_t)a & 2047u) | ((uint32_t)b & 2047u) << 16;
    }
}

TARGET static ldr_status pack(ldri_table *t, int horizontal)
{
    ldri_blocks_fill(t, horizontal, split);
    return LDR_OK;
}

/* --- horizontal pass ---------------------------------------------------------------------- */

/* Rows a and b of the same block, one in each half. */
INLINE __m256i load_two(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                   _mm_loadu_si128((const __m128i *)b), 1);
}

INLINE __m256i weight(uint32_t w)
{
    return _mm256_set1_epi32((int)w);
}

INLINE __m256i total(__m256i high, __m256i low)
{
    const __m256i round = _mm256_set1_epi32(LDRI_WEIGHT_ROUND);
    low = _mm256_add_epi32(_mm256_slli_epi32(high, 11), _mm256_add_epi32(low, round));
    return _mm256_srai_epi32(low, LDRI_WEIGHT_BITS);
}

/* Sums of one block of four rows: a is rows 0 and 1, b rows 2 and 3. */
typedef struct sums {
    __m256i a_high, a_low, b_high, b_low;
} sums;

INLINE sums block_sums(const ldri_block *block, const uint8_t *const src[4])
{
    const uint8_t *pattern = ldri_pairs_pattern[block->back];
    const size_t at = block->at;
    __m256i a = load_two(src[0] + at, src[1] + at), b = load_two(src[2] + at, src[3] + at);
    __m256i first = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)pattern));
    __m256i second = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)pattern + 1));
    __m256i a01 = _mm256_shuffle_epi8(a, first), a23 = _mm256_shuffle_epi8(a, second);
    __m256i b01 = _mm256_shuffle_epi8(b, first), b23 = _mm256_shuffle_epi8(b, second);
    __m256i h01 = weight(block->w[0]), l01 = weight(block->w[1]);
    __m256i h23 = weight(block->w[2]), l23 = weight(block->w[3]);
    sums s = {_mm256_add_epi32(_mm256_madd_epi16(a01, h01), _mm256_madd_epi16(a23, h23)),
              _mm256_add_epi32(_mm256_madd_epi16(a01, l01), _mm256_madd_epi16(a23, l23)),
              _mm256_add_epi32(_mm256_madd_epi16(b01, h01), _mm256_madd_epi16(b23, h23)),
              _mm256_add_epi32(_mm256_madd_epi16(b01, l01), _mm256_madd_epi16(b23, l23))};
    return s;
}

/* Four rows of one output: *a gets rows 0 and 1, *b rows 2 and 3, each as 32-bit R, G, B, -. */
INLINE void one_output(const ldri_block *block, uint32_t n_blocks, const uint8_t *const src[4],
                       __m256i *a, __m256i *b)
{
    sums s = block_sums(block, src);
#pragma GCC unroll 2
    for (uint32_t k = 1; k < n_blocks; k++) {
        sums more = block_sums(block + k, src);
        s.a_high = _mm256_add_epi32(s.a_high, more.a_high);
        s.a_low = _mm256_add_epi32(s.a_low, more.a_low);
        s.b_high = _mm256_add_epi32(s.b_high, more.b_high);
        s.b_low = _mm256_add_epi32(s.b_low, more.b_low);
    }
    *a = total(s.a_high, s.a_low);
    *b = total(s.b_high, s.b_low);
}

/* Four outputs of two rows: 12 bytes to each row, 4 behind them. */
INLINE void store_two(const __m256i v[4], uint8_t *a, uint8_t *b)
{
    const __m256i squeeze = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    __m256i bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    bytes = _mm256_shuffle_epi8(bytes, squeeze);
    _mm_storeu_si128((__m128i *)a, _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((__m128i *)b, _mm256_extracti128_si256(bytes, 1));
}

/* n_blocks is a constant where this is inlined for few taps. */
INLINE void across_blocks(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                          uint32_t n_blocks)
{
    const uint8_t *const rows[4] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[4] = {dst[0], dst[1], dst[2], dst[3]};
    const ldri_block *block = t->blocks;
    for (size_t j = 0; j < t->count; j += 4, block += 4 * (size_t)n_blocks) {
        __m256i a[4], b[4];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++)
            one_output(block + (size_t)i * n_blocks, n_blocks, rows, &a[i], &b[i]);
        store_two(a, to[0] + 3 * j, to[1] + 3 * j);
        store_two(b, to[2] + 3 * j, to[3] + 3 * j);
    }
}

TARGET static void across(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                          uint32_t n_rows)
{
    if (t->n_stored < LDRI_BLOCK_MIN_STORED)
        ldri_resample_plain.across(t, src, dst, n_rows);
    else if (t->stride == 4)
        across_blocks(t, src, dst, 1);
    else if (t->stride == 8)
        across_blocks(t, src, dst, 2);
    else
        across_blocks(t, src, dst, t->stride / 4);
}

/* --- vertical pass ------------------------------------------------------------------------ */

/* Sums of two taps of 32 columns, in the order that down_32 undoes. */
typedef struct pair_sums {
    __m256i high[4], low[4];
} pair_sums;

INLINE pair_sums two_taps(const uint8_t *row_0, const uint8_t *row_1, uint32_t w_high,
                          uint32_t w_low)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = _mm256_loadu_si256((const __m256i *)row_0);
    __m256i b = _mm256_loadu_si256((const __m256i *)row_1);
    __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    __m256i x[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                    _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
    pair_sums s;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        s.high[i] = _mm256_madd_epi16(x[i], weight(w_high));
        s.low[i] = _mm256_madd_epi16(x[i], weight(w_low));
    }
    return s;
}

/* 32 columns of one output row; n_pairs, of taps, is a constant where this is inlined for few. */
INLINE __m256i down_32(const ldri_block *block, uint32_t n_pairs, const uint8_t *const *rows,
                       size_t at)
{
    pair_sums s = two_taps(rows[0] + at, rows[1] + at, block->w[0], block->w[1]);
#pragma GCC unroll 2
    for (uint32_t k = 1; k < n_pairs; k++) {
        const uint32_t *w = block[k / 2].w + k % 2 * 2;
        pair_sums more = two_taps(rows[2 * k] + at, rows[2 * k + 1] + at, w[0], w[1]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            s.high[i] = _mm256_add_epi32(s.high[i], more.high[i]);
            s.low[i] = _mm256_add_epi32(s.low[i], more.low[i]);
        }
    }
    __m256i t[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) t[i] = total(s.high[i], s.low[i]);
    return _mm256_packus_epi16(_mm256_packs_epi32(t[0], t[1]), _mm256_packs_epi32(t[2], t[3]));
}

INLINE void down_all(const ldri_block *block, uint32_t n_pairs, const uint8_t *const *rows,
                     uint8_t *out, size_t n_bytes)
{
    for (size_t c = 0; c < n_bytes; c += 32) {
        size_t from = n_bytes - c < 32 ? n_bytes - 32 : c; /* the last one overlaps */
        _mm256_storeu_si256((__m256i *)(out + from), down_32(block, n_pairs, rows, from));
    }
}

TARGET static void down(const ldri_table *t, uint32_t at, const uint8_t *const *rows, uint8_t *out,
                        size_t n_bytes)
{
    const ldri_block *block = t->blocks + (size_t)at * (t->stride / 4);
    if (n_bytes < 32)
        ldri_resample_plain.down(t, at, rows, out, n_bytes);
    else if (t->n[at] <= 4)
        down_all(block, 2, rows, out, n_bytes);
    else
        down_all(block, (t->n[at] + 1) / 2, rows, out, n_bytes);
}

const ldri_resample_kernels ldri_resample_avx2 = {weights, pack, across, down};
#else
typedef int ldri_not_empty; /* ISO C forbids an empty file */
#endif
