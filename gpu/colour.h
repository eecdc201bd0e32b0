/* colour.h - the colour operators, one formula each.  C and CUDA; contraction must be off.
 *
 * Sources: Pillow, ImageEnhance.py (Brightness, Contrast, Color), libImaging/Blend.c and Convert.c
 * (L, HSV).  Pillow works on bytes: each operator rounds to a byte before the next, so none can be
 * folded into another. Hue is Pillow's 8-bit HSV in integers: a floating point HSV differs by
 * several levels. */
#ifndef LDR_COLOUR_H
#define LDR_COLOUR_H

#include <stdint.h>

#include "loader/rng.h" /* LDRI_HD */

typedef struct ldri_rgb {
    uint8_t r, g, b;
} ldri_rgb;

typedef struct ldri_hsv {
    uint8_t h, s, v;
} ldri_hsv;

static LDRI_HD inline uint8_t ldri_luma(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)((19595u * r + 38470u * g + 7471u * b + 32768u) >> 16);
}

/* From d (alpha 0) to x (alpha 1) and beyond.  For alpha in 0 .. 1 the bounds change nothing. */
static LDRI_HD inline uint8_t ldri_blend(uint8_t d, uint8_t x, float alpha)
{
    float t = (float)d + alpha * (float)((int)x - (int)d);
    return (uint8_t)(t <= 0.0f ? 0.0f : t >= 255.0f ? 255.0f : t);
}

static LDRI_HD inline uint8_t ldri_brightness(uint8_t x, float factor)
{
    return ldri_blend(0, x, factor);
}

/* What contrast blends from: the rounded mean of the luma of the picture as it is when contrast
 * comes in its order. */
static LDRI_HD inline uint8_t ldri_contrast_mean(uint64_t luma_sum, uint64_t n_pixels)
{
    return (uint8_t)((2u * luma_sum + n_pixels) / (2u * n_pixels));
}

static LDRI_HD inline uint8_t ldri_contrast(uint8_t x, uint8_t mean, float factor)
{
    return ldri_blend(mean, x, factor);
}

static LDRI_HD inline ldri_rgb ldri_saturation(ldri_rgb p, float factor)
{
    uint8_t l = ldri_luma(p.r, p.g, p.b);
    ldri_rgb out = {ldri_blend(l, p.r, factor), ldri_blend(l, p.g, factor),
                    ldri_blend(l, p.b, factor)};
    return out;
}

static LDRI_HD inline ldri_rgb ldri_greyscale(ldri_rgb p)
{
    uint8_t l = ldri_luma(p.r, p.g, p.b);
    ldri_rgb out = {l, l, l};
    return out;
}

/* n / d in integers, for n < 2^21.  The half moves (n + 1/2) / d at least 1 / 2d away from whole
 * numbers, a part of 2^-22 of it; two roundings are off by 2^-23 at most.  So a reciprocal that is
 * off by some units in the last place would do as well, where n is smaller (hue: n < 390,150). */
static LDRI_HD inline uint32_t ldri_quotient(uint32_t n, uint32_t d)
{
    return (uint32_t)(((float)n + 0.5f) * (1.0f / (float)d));
}

/* Pillow computes H in floating point; where H is a whole number its result is sometimes just
 * below, and then truncated.  1 for the values of H for which it is. */
static LDRI_HD inline uint32_t ldri_hue_falls_short(uint32_t h)
{
    uint32_t word = 0;
    switch (h >> 5) {
    case 0:
        word = 0xFFFFFFFEu;
        break;
    case 2:
        word = 0x11000000u;
        break;
    case 3:
        word = 0x00000111u;
        break;
    case 4:
        word = 0x222AAAAAu;
        break;
    case 5:
        word = 0x23232222u;
        break;
    case 6:
        word = 0x00022222u;
        break;
    default:
        break;
    }
    return word >> (h & 31u) & 1u;
}

static LDRI_HD inline ldri_hsv ldri_rgb_to_hsv(ldri_rgb p)
{
    int r = p.r, g = p.g, b = p.b;
    int max = r > g ? r : g, min = r < g ? r : g;
    max = max > b ? max : b;
    min = min < b ? min : b;
    int c = max - min;
    ldri_hsv out = {0, 0, (uint8_t)max};
    if (c == 0) return out;
    out.s = (uint8_t)ldri_quotient(255u * (uint32_t)c, (uint32_t)max);
    int n = max == r ? g - b : max == g ? 2 * c + b - r : 4 * c + r - g;
    if (n < 0) n += 6 * c;
    uint32_t n255 = 255u * (uint32_t)n, c6 = 6u * (uint32_t)c;
    uint32_t h = ldri_quotient(n255, c6);
    if (h * c6 == n255) h -= ldri_hue_falls_short(h);
    out.h = (uint8_t)h;
    return out;
}

/* v less the share w / 255 of its saturation, rounded: p, q, t of the usual formulas are w = 255,
 * the fraction of the sextant, and the rest of it. */
static LDRI_HD inline uint8_t ldri_hsv_channel(uint32_t v, uint32_t s, int w)
{
    w = w < 0 ? 0 : w > 255 ? 255 : w;
    return (uint8_t)(v - (v * s * (uint32_t)w + 32512u) / 65025u);
}

/* The six sextants are 255 units wide; w of each channel is a trapezoid over them. */
static LDRI_HD inline ldri_rgb ldri_hsv_to_rgb(ldri_hsv p)
{
    int h = 6 * p.h;
    int red = h - 765, green = h - 510, blue = h - 1020;
    red = red < 0 ? -red : red;
    green = green < 0 ? -green : green;
    blue = blue < 0 ? -blue : blue;
    ldri_rgb out = {ldri_hsv_channel(p.v, p.s, 510 - red), ldri_hsv_channel(p.v, p.s, green - 255),
                    ldri_hsv_channel(p.v, p.s, blue - 255)};
    return out;
}

static LDRI_HD inline ldri_rgb ldri_hue(ldri_rgb p, uint8_t shift)
{
    ldri_hsv q = ldri_rgb_to_hsv(p);
    q.h = (uint8_t)(q.h + shift);
    return ldri_hsv_to_rgb(q);
}

#endif
