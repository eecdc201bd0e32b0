/* tint.h - the colour operators of colour.h on four pixels at a time, as a GPU does them.  C and
 * CUDA; contraction must be off.
 *
 * The same values, found in another way: bytes are kept as floats, because a GPU adds and
 * multiplies floats twice as often as integers and converts between them slowly.  All sums and
 * products here are exact but where colour.h rounds too (blend), or are truncated at a safe
 * distance from whole numbers: L: (19595 R + 38470 G + 7471 B + 32768) / 65536 has 24 bits. S = 255
 * c / M, H = 255 n / 6c: colour.h, ldri_quotient. A test runs every colour through both. */
#ifndef LDR_TINT_H
#define LDR_TINT_H

#include "gpu/chip.h"
#include "gpu/colour.h"
#include "loader/descriptor.h"

#define LDRI_HUE_ENTRIES 512u

/* v[c][i]: channel c of pixel i, biased: 2^23 + its byte. */
typedef struct ldri_quad {
    float v[3][4];
} ldri_quad;

/* Of one picture: read-only, shared by a block's threads. */
typedef struct ldri_tint {
    float factor[3];
    float mean;                     /* of luma, what contrast blends from */
    uint8_t jitter, order[4];       /* as in the descriptor */
    uint8_t split;                  /* place of contrast in `order`; 4 without it */
    uint32_t hue[LDRI_HUE_ENTRIES]; /* ldri_hue_entry */
} ldri_tint;

/* What HSV -> RGB does with a hue: bits 0 .. 11 select which of (V, other, V less its saturation)
 * each channel is, the top byte is the weight of `other`.  Index: H as the quotient gives it, plus
 * 256 if the division left no rest. */
static LDRI_HD inline uint32_t ldri_hue_entry(uint32_t index, uint8_t shift)
{
    uint32_t h = index & 255u;
    if (index >> 8) h -= ldri_hue_falls_short(h);
    int at = 6 * (int)(uint8_t)(h + shift);
    int red = at - 765, green = at - 510, blue = at - 1020;
    int w[3];
    w[0] = 510 - (red < 0 ? -red : red);
    w[1] = (green < 0 ? -green : green) - 255;
    w[2] = (blue < 0 ? -blue : blue) - 255;
    uint32_t entry = 0;
    for (int c = 0; c < 3; c++) {
        if (w[c] <= 0) continue; /* V: byte 0 */
        if (w[c] >= 255)
            entry |= 2u << 4 * c;
        else
            entry |= 1u << 4 * c | (uint32_t)w[c] << 24;
    }
    return entry;
}

static LDRI_HD inline uint8_t ldri_tint_split(const ldri_descriptor *d)
{
    uint8_t k = 0;
    while (k < 4 && !(d->order[k] == LDRI_CONTRAST && (d->jitter >> LDRI_CONTRAST & 1))) k++;
    return k;
}

static LDRI_HD inline void ldri_quad_open(ldri_quad *q, const uint32_t planar[3])
{
    LDRI_UNROLL
    for (int c = 0; c < 3; c++) {
        LDRI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            q->v[c][i] = ldri_bits_float(ldri_permute(planar[c], LDRI_BIAS_BITS, 0x7440u + i));
    }
}

static LDRI_HD inline void ldri_quad_close(const ldri_quad *q, uint32_t planar[3])
{
    LDRI_UNROLL
    for (int c = 0; c < 3; c++) {
        uint32_t low = ldri_permute(ldri_float_bits(q->v[c][0]), ldri_float_bits(q->v[c][1]), 0x40);
        uint32_t high =
            ldri_permute(ldri_float_bits(q->v[c][2]), ldri_float_bits(q->v[c][3]), 0x40);
        planar[c] = ldri_permute(low, high, 0x5410);
    }
}

static LDRI_HD inline float ldri_biased_luma(float r, float g, float b)
{
    float sum = fmaf(r - LDRI_BIAS, 19595.0f / 65536.0f, 0.5f);
    sum = fmaf(g - LDRI_BIAS, 38470.0f / 65536.0f, sum);
    sum = fmaf(b - LDRI_BIAS, 7471.0f / 65536.0f, sum);
    return ldri_truncate_biased(sum);
}

/* ldri_blend; base is `from` without its bias. */
static LDRI_HD inline float ldri_biased_blend(float from, float base, float x, float factor,
                                              int within)
{
    float t = base + factor * (x - from);
    if (!within) t = fminf(fmaxf(t, 0.0f), 255.0f);
    return ldri_truncate_biased(t);
}

static LDRI_HD inline void ldri_quad_brightness(ldri_quad *q, float factor, int within)
{
    LDRI_UNROLL
    for (int c = 0; c < 3; c++) {
        LDRI_UNROLL
        for (int i = 0; i < 4; i++) {
            float t = factor * (q->v[c][i] - LDRI_BIAS);
            if (!within) t = fminf(fmaxf(t, 0.0f), 255.0f);
            q->v[c][i] = ldri_truncate_biased(t);
        }
    }
}

static LDRI_HD inline void ldri_quad_contrast(ldri_quad *q, float mean, float factor, int within)
{
    float from = mean + LDRI_BIAS;
    LDRI_UNROLL
    for (int c = 0; c < 3; c++) {
        LDRI_UNROLL
        for (int i = 0; i < 4; i++)
            q->v[c][i] = ldri_biased_blend(from, mean, q->v[c][i], factor, within);
    }
}

static LDRI_HD inline void ldri_quad_saturation(ldri_quad *q, float factor, int within)
{
    LDRI_UNROLL
    for (int i = 0; i < 4; i++) {
        float from = ldri_biased_luma(q->v[0][i], q->v[1][i], q->v[2][i]);
        float base = from - LDRI_BIAS;
        LDRI_UNROLL
        for (int c = 0; c < 3; c++)
            q->v[c][i] = ldri_biased_blend(from, base, q->v[c][i], factor, within);
    }
}

static LDRI_HD inline void ldri_quad_greyscale(ldri_quad *q)
{
    LDRI_UNROLL
    for (int i = 0; i < 4; i++) {
        float l = ldri_biased_luma(q->v[0][i], q->v[1][i], q->v[2][i]);
        q->v[0][i] = q->v[1][i] = q->v[2][i] = l;
    }
}

static LDRI_HD inline void ldri_pixel_hue(float *red, float *green, float *blue,
                                          const uint32_t *table)
{
    float r = *red, g = *green, b = *blue;
    float most = fmaxf(fmaxf(r, g), b), least = fminf(fminf(r, g), b);
    float v = most - LDRI_BIAS, c = most - least, c6 = 6.0f * c;
    /* Where c is 0 all channels become V, whatever the hue: divisors of 0 only have to be avoided.
     */
    float s = ldri_truncate_biased(fmaf(255.0f, c, 0.5f) * ldri_rough_reciprocal(fmaxf(v, 1.0f)));
    /* All three, so that nobody branches; fmaf of small whole numbers is exact. */
    float at_red = g - b, at_green = fmaf(2.0f, c, b - r), at_blue = fmaf(4.0f, c, r - g);
    float n = r == most ? at_red : g == most ? at_green : at_blue;
    float n_next = n + c6;
    float n255 = 255.0f * (n < 0.0f ? n_next : n);
    float h = ldri_truncate_biased((n255 + 0.5f) * ldri_rough_reciprocal(fmaxf(c6, 1.0f)));
    uint32_t index = ldri_float_bits(h) & 255u;
    uint32_t entry = table[(h - LDRI_BIAS) * c6 == n255 ? index + 256u : index];
    uint32_t value = ldri_float_bits(most) & 255u;
    uint32_t saturated = value * (ldri_float_bits(s) & 255u);
    uint32_t least_of = value - ((saturated * 32897u + 127u * 32897u) >> 23); /* (. + 127) / 255 */
    uint32_t other = value - (saturated * (entry >> 24) + 32512u) / 65025u;
    uint32_t three = ldri_permute(value | other << 8, least_of, 0x0410);
    uint32_t rgb = ldri_permute(three, 0, entry);
    *red = ldri_bits_float(ldri_permute(rgb, LDRI_BIAS_BITS, 0x7440));
    *green = ldri_bits_float(ldri_permute(rgb, LDRI_BIAS_BITS, 0x7441));
    *blue = ldri_bits_float(ldri_permute(rgb, LDRI_BIAS_BITS, 0x7442));
}

static LDRI_HD inline void ldri_quad_hue(ldri_quad *q, const uint32_t *table)
{
    LDRI_UNROLL
    for (int i = 0; i < 4; i++) ldri_pixel_hue(&q->v[0][i], &q->v[1][i], &q->v[2][i], table);
}

/* The operators at places from .. to - 1 of the picture's order. */
static LDRI_HD inline void ldri_quad_tint(ldri_quad *q, const ldri_tint *t, uint32_t from,
                                          uint32_t to)
{
    for (uint32_t k = from; k < to; k++) {
        uint32_t op = t->order[k];
        if (!(t->jitter >> op & 1)) continue;
        float factor = op < 3 ? t->factor[op] : 0.0f;
        int within = factor >= 0.0f && factor <= 1.0f; /* then a blend stays in 0 .. 255 */
        switch (op) {
        case LDRI_BRIGHTNESS:
            if (within)
                ldri_quad_brightness(q, factor, 1);
            else
                ldri_quad_brightness(q, factor, 0);
            break;
        case LDRI_CONTRAST:
            if (within)
                ldri_quad_contrast(q, t->mean, factor, 1);
            else
                ldri_quad_contrast(q, t->mean, factor, 0);
            break;
        case LDRI_SATURATION:
            if (within)
                ldri_quad_saturation(q, factor, 1);
            else
                ldri_quad_saturation(q, factor, 0);
            break;
        default:
            ldri_quad_hue(q, t->hue);
            break;
        }
    }
}

/* The sum of luma of the first n pixels. */
static LDRI_HD inline uint32_t ldri_quad_luma(const ldri_quad *q, uint32_t n)
{
    float sum = 0.0f;
    LDRI_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        float l = ldri_biased_luma(q->v[0][i], q->v[1][i], q->v[2][i]) - LDRI_BIAS;
        if (i < n) sum += l;
    }
    return (uint32_t)sum;
}

#endif
