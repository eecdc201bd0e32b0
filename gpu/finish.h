/* finish.h - from bytes to the output, eight pixels of a row at a time: flips, mix, normalise,
 * erase, type, layout.  C and CUDA; contraction must be off.
 *
 * Pictures between the kernels are planes: for each channel height rows of bytes, `pitch` apart,
 * not yet flipped. */
#ifndef LDR_FINISH_H
#define LDR_FINISH_H

#include "gpu/chip.h"
#include "gpu/erase.h"
#include "gpu/mix.h"
#include "loader/descriptor.h"
#include "loader/loader.h"

#define LDRI_CHUNK 8u

/* Eight bytes of each channel: word[c][0] the first four. */
typedef struct ldri_chunk {
    uint32_t word[3][2];
} ldri_chunk;

typedef struct ldri_planes {
    uint8_t *base;
    uint32_t pitch;     /* a multiple of 16 */
    uint32_t row_first; /* of the picture, at base */
    size_t plane;       /* bytes from channel to channel */
} ldri_planes;

typedef struct ldri_finish { /* the same for all pictures of a loader */
    uint32_t width, height;
    int dtype, layout, erase_mode; /* ldr_dtype, ldr_layout, ldr_erase */
    float scale[3], bias[3];
    float mean[3], std[3];
    uint64_t seed;
} ldri_finish;

static LDRI_HD inline uint32_t ldri_reverse_bytes(uint32_t v)
{
    return ldri_permute(v, 0, 0x0123);
}

/* Pixels x .. x + 7 of a row of the picture (of the planes, not of the output), the row mirrored if
 * hflip.  x is a multiple of 8.  Past the row's end the bytes mean nothing. */
static LDRI_HD inline void ldri_planes_chunk(const ldri_planes *p, uint32_t width, uint32_t row,
                                             uint32_t x, int hflip, ldri_chunk *out)
{
    const uint8_t *from = p->base + (size_t)(row - p->row_first) * p->pitch;
    if (!hflip || width % 8 == 0) {
        uint32_t at = hflip ? width - 8 - x : x;
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) {
            ldri_two v = *(const ldri_two *)(const void *)(from + c * p->plane + at);
            out->word[c][0] = hflip ? ldri_reverse_bytes(v.y) : v.x;
            out->word[c][1] = hflip ? ldri_reverse_bytes(v.x) : v.y;
        }
        return;
    }
    LDRI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        out->word[c][0] = out->word[c][1] = 0;
        LDRI_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (x + i >= width) continue;
            uint32_t v = from[c * p->plane + (width - 1 - x - i)];
            out->word[c][i / 4] |= v << 8 * (i % 4);
        }
    }
}

/* own becomes the mix of own and other. */
static LDRI_HD inline void ldri_chunk_mix(const ldri_descriptor *d, uint32_t y, uint32_t x,
                                          ldri_chunk *own, const ldri_chunk *other)
{
    LDRI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        LDRI_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t mixed = 0;
            LDRI_UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                uint8_t a = (uint8_t)(own->word[c][h] >> 8 * i);
                uint8_t b = (uint8_t)(other->word[c][h] >> 8 * i);
                mixed |= (uint32_t)ldri_mix_byte(d, y, x + 4 * h + i, a, b) << 8 * i;
            }
            own->word[c][h] = mixed;
        }
    }
}

/* Bit i: x + i is in [from, from + n). */
static LDRI_HD inline uint32_t ldri_span_mask(uint32_t x, uint32_t from, uint32_t n)
{
    int64_t first = (int64_t)from - x, end = first + n;
    if (first >= 8 || end <= 0) return 0;
    uint32_t a = first > 0 ? (uint32_t)first : 0, b = end < 8 ? (uint32_t)end : 8;
    return (1u << b) - (1u << a);
}

/* The pixels of a chunk that boxes cover. */
static LDRI_HD inline uint32_t ldri_erase_mask(const ldri_descriptor *d, uint32_t y, uint32_t x)
{
    uint32_t mask = 0;
    for (uint32_t k = 0; k < d->n_erase; k++) {
        const ldri_erase_box *box = &d->erase[k];
        if (y - box->top < box->height) mask |= ldri_span_mask(x, box->left, box->width);
    }
    return mask;
}

static LDRI_HD inline float ldri_erase_value(const ldri_finish *f, uint32_t c, float z)
{
    return f->dtype == LDR_U8 ? (float)ldri_erase_byte(z, f->mean[c], f->std[c]) : z;
}

/* Noise of elements first .. first + 7, for the bits of the mask. */
static LDRI_HD inline void ldri_chunk_noise(const ldri_finish *f, const ldri_descriptor *d,
                                            uint32_t c, uint32_t first, uint32_t mask,
                                            const float *quantiles, float v[8])
{
    uint32_t skip = first & 3u, words[12];
    LDRI_UNROLL
    for (uint32_t b = 0; b < 3; b++) {
        if (b == 2 && skip == 0) continue;
        ldri_words w = ldri_erase_words(f->seed, d, first / 4 + b);
        LDRI_UNROLL
        for (uint32_t i = 0; i < 4; i++) words[4 * b + i] = w.w[i];
    }
    if (skip & 1u) {
        LDRI_UNROLL
        for (uint32_t i = 0; i < 11; i++) words[i] = words[i + 1];
    }
    if (skip & 2u) {
        LDRI_UNROLL
        for (uint32_t i = 0; i < 10; i++) words[i] = words[i + 2];
    }
    LDRI_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (mask >> i & 1u) v[i] = ldri_erase_value(f, c, ldri_normal(words[i], quantiles));
    }
}

/* Eight values of channel c as floats, erased where mask says so; bytes as they are if the output
 * is bytes. */
static LDRI_HD inline void ldri_chunk_values(const ldri_finish *f, const ldri_descriptor *d,
                                             uint32_t c, uint32_t y, uint32_t x, uint32_t low,
                                             uint32_t high, uint32_t mask, const float *quantiles,
                                             float v[8])
{
    float scale = f->scale[c], bias = f->bias[c];
    LDRI_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t bits = ldri_permute(i < 4 ? low : high, LDRI_BIAS_BITS, 0x7440u + i % 4);
        v[i] = ldri_bits_float(bits) - LDRI_BIAS;
        if (f->dtype != LDR_U8) v[i] = fmaf(v[i], scale, bias);
    }
    if (mask == 0) return;
    if (f->erase_mode == LDR_ERASE_PIXEL) {
        ldri_chunk_noise(f, d, c, ldri_erase_element(c, y, x, f->width, f->height), mask, quantiles,
                         v);
        return;
    }
    for (uint32_t k = 0; k < d->n_erase; k++) {
        const ldri_erase_box *box = &d->erase[k];
        if (y - box->top >= box->height) continue;
        uint32_t covered = ldri_span_mask(x, box->left, box->width);
        float z = ldri_erase_value(f, c, f->erase_mode == LDR_ERASE_RAND ? box->z[c] : 0.0f);
        LDRI_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (covered >> i & 1u) v[i] = z;
        }
    }
}

/* Eight values as the bits of the output's type: 8, 4 or 2 words. */
static LDRI_HD inline void ldri_chunk_bits(int dtype, const float v[8], uint32_t bits[8])
{
    if (dtype == LDR_F32) {
        LDRI_UNROLL
        for (int i = 0; i < 8; i++) bits[i] = ldri_float_bits(v[i]);
    } else if (dtype == LDR_F16) {
        LDRI_UNROLL
        for (int i = 0; i < 4; i++) bits[i] = ldri_half_pair(v[2 * i], v[2 * i + 1]);
    } else if (dtype == LDR_BF16) {
        LDRI_UNROLL
        for (int i = 0; i < 4; i++) bits[i] = ldri_bfloat_pair(v[2 * i], v[2 * i + 1]);
    } else {
        LDRI_UNROLL
        for (int i = 0; i < 2; i++) {
            uint32_t a = ldri_float_bits(v[4 * i] + LDRI_BIAS);
            uint32_t b = ldri_float_bits(v[4 * i + 1] + LDRI_BIAS);
            uint32_t c = ldri_float_bits(v[4 * i + 2] + LDRI_BIAS);
            uint32_t e = ldri_float_bits(v[4 * i + 3] + LDRI_BIAS);
            bits[i] = ldri_permute(ldri_permute(a, b, 0x40), ldri_permute(c, e, 0x40), 0x5410);
        }
    }
}

static LDRI_HD inline uint32_t ldri_type_bytes(int dtype)
{
    return dtype == LDR_F32 ? 4u : dtype == LDR_U8 ? 1u : 2u;
}

/* n_words words (2, 4, 8, 6, 12, 24), which p is aligned for. */
static LDRI_HD inline void ldri_store_words(uint8_t *p, const uint32_t *w, const uint32_t n_words)
{
    LDRI_UNROLL
    for (uint32_t i = 0; i + 3 < n_words; i += 4) {
        ldri_four v = {w[i], w[i + 1], w[i + 2], w[i + 3]};
        ldri_store_four(p + 4 * i, v);
    }
}

static LDRI_HD inline void ldri_store_pairs(uint8_t *p, const uint32_t *w, const uint32_t n_words)
{
    LDRI_UNROLL
    for (uint32_t i = 0; i < n_words; i += 2) {
        ldri_two v = {w[i], w[i + 1]};
        ldri_store_two(p + 4 * i, v);
    }
}

static LDRI_HD inline void ldri_store_value(uint8_t *p, int dtype, float v)
{
    if (dtype == LDR_F32)
        *(float *)(void *)p = v;
    else if (dtype == LDR_F16)
        *(uint16_t *)(void *)p = (uint16_t)ldri_half_pair(v, 0.0f);
    else if (dtype == LDR_BF16)
        *(uint16_t *)(void *)p = (uint16_t)ldri_bfloat_pair(v, 0.0f);
    else
        *p = (uint8_t)ldri_float_bits(v + LDRI_BIAS);
}

/* One channel of a chunk to its row in its plane: `row` is where the image's row starts. */
static LDRI_HD inline void ldri_store_channel(const ldri_finish *f, uint8_t *row, uint32_t x,
                                              const float v[8])
{
    uint32_t element = ldri_type_bytes(f->dtype);
    uint8_t *p = row + (size_t)x * element;
    if (f->width % 8 != 0) { /* rows begin anywhere */
        LDRI_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (x + i < f->width) ldri_store_value(p + i * element, f->dtype, v[i]);
        }
        return;
    }
    uint32_t bits[8];
    ldri_chunk_bits(f->dtype, v, bits);
    if (f->dtype == LDR_F32)
        ldri_store_words(p, bits, 8);
    else if (f->dtype == LDR_U8)
        ldri_store_pairs(p, bits, 2);
    else
        ldri_store_words(p, bits, 4);
}

/* The three channels of a chunk, interleaved. */
static LDRI_HD inline void ldri_store_pixels(const ldri_finish *f, uint8_t *row, uint32_t x,
                                             float v[3][8])
{
    uint32_t element = ldri_type_bytes(f->dtype);
    uint8_t *p = row + 3 * (size_t)x * element;
    if (f->width % 8 != 0) {
        LDRI_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            if (x + i >= f->width) continue;
            LDRI_UNROLL
            for (uint32_t c = 0; c < 3; c++)
                ldri_store_value(p + (3 * i + c) * element, f->dtype, v[c][i]);
        }
        return;
    }
    if (f->dtype == LDR_F32) {
        uint32_t out[24];
        LDRI_UNROLL
        for (uint32_t i = 0; i < 24; i++) out[i] = ldri_float_bits(v[i % 3][i / 3]);
        ldri_store_words(p, out, 24);
        return;
    }
    uint32_t bits[3][8], out[12];
    LDRI_UNROLL
    for (int c = 0; c < 3; c++) ldri_chunk_bits(f->dtype, v[c], bits[c]);
    if (f->dtype == LDR_U8) {
        LDRI_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t r = bits[0][i], g = bits[1][i], b = bits[2][i];
            out[3 * i] = ldri_permute(ldri_permute(r, g, 0x5140), b, 0x2410);
            out[3 * i + 1] =
                ldri_permute(ldri_permute(g, b, 0x0051), ldri_permute(r, g, 0x0062), 0x5410);
            out[3 * i + 2] =
                ldri_permute(ldri_permute(b, r, 0x0072), ldri_permute(g, b, 0x0073), 0x5410);
        }
        ldri_store_pairs(p, out, 6);
        return;
    }
    LDRI_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t r = bits[0][i], g = bits[1][i], b = bits[2][i];
        out[3 * i] = ldri_permute(r, g, 0x5410);
        out[3 * i + 1] = ldri_permute(b, r, 0x7610);
        out[3 * i + 2] = ldri_permute(g, b, 0x7632);
    }
    ldri_store_words(p, out, 12);
}

/* A chunk of bytes, mixed already, to its place in the image. */
static LDRI_HD inline void ldri_finish_chunk(const ldri_finish *f, const ldri_descriptor *d,
                                             uint32_t y, uint32_t x, const ldri_chunk *bytes,
                                             const float *quantiles, uint8_t *image)
{
    uint32_t mask = ldri_erase_mask(d, y, x);
    size_t element = ldri_type_bytes(f->dtype);
    if (f->layout == LDR_NCHW) {
        LDRI_ROLLED
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t low = c == 0   ? bytes->word[0][0]
                           : c == 1 ? bytes->word[1][0]
                                    : bytes->word[2][0];
            uint32_t high = c == 0   ? bytes->word[0][1]
                            : c == 1 ? bytes->word[1][1]
                                     : bytes->word[2][1];
            float v[8];
            ldri_chunk_values(f, d, c, y, x, low, high, mask, quantiles, v);
            size_t row = ((size_t)c * f->height + y) * f->width;
            ldri_store_channel(f, image + row * element, x, v);
        }
        return;
    }
    float v[3][8];
    LDRI_UNROLL
    for (uint32_t c = 0; c < 3; c++)
        ldri_chunk_values(f, d, c, y, x, bytes->word[c][0], bytes->word[c][1], mask, quantiles,
                          v[c]);
    ldri_store_pixels(f, image + 3 * (size_t)y * f->width * element, x, v);
}

#endif
