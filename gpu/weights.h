/* weights.h - the weights of Pillow's resample, one formula for every place that needs them.  C and
 * CUDA; contraction must be off.
 *
 * Source: Pillow, libImaging/Resample.c (bilinear_filter, bicubic_filter, precompute_coeffs,
 * normalize_coeffs_8bpc).  All in double, in this order, with these parentheses: another order of
 * the sum moves a weight by one unit, and that moves pixels. */
#ifndef LDR_WEIGHTS_H
#define LDR_WEIGHTS_H

#include <stdint.h>

#include "loader/rng.h" /* LDRI_HD */
#include "loader/window.h"

/* A weight of 1.0 is 1 << LDRI_WEIGHT_BITS.  Nine bits of an int32 are left for 255 and for the
 * overshoot of bicubic: the absolute weights of an output sum to less than 1.5. */
#define LDRI_WEIGHT_BITS  22
#define LDRI_WEIGHT_ROUND (1 << (LDRI_WEIGHT_BITS - 1))

static LDRI_HD inline double ldri_filter_value(int filter, double x)
{
    if (x < 0.0) x = -x;
    if (filter == LDR_BICUBIC) {
        const double a = -0.5;
        if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
        if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
        return 0.0;
    }
    return x < 1.0 ? 1.0 - x : 0.0;
}

static LDRI_HD inline int32_t ldri_weight_fixed(double v)
{
    return (int32_t)(v < 0.0 ? -0.5 + v * 4194304.0 : 0.5 + v * 4194304.0);
}

/* What the weights of one output pixel have in common. */
typedef struct ldri_weigher {
    int filter;
    uint32_t lo; /* first pixel of the window */
    double center, inv, sum;
} ldri_weigher;

static LDRI_HD inline double ldri_weight_value(const ldri_weigher *w, uint32_t k)
{
    return ldri_filter_value(w->filter, ((double)k + w->lo - w->center + 0.5) * w->inv);
}

/* Output pixel xx of a line n -> m, whose window is [lo, lo + count). */
static LDRI_HD inline ldri_weigher ldri_weigher_of(uint32_t n, uint32_t m, int filter, uint32_t xx,
                                                   uint32_t lo, uint32_t count)
{
    double scale = (double)n / m;
    ldri_weigher w;
    w.filter = filter;
    w.lo = lo;
    w.inv = 1.0 / (scale > 1.0 ? scale : 1.0);
    w.center = (xx + 0.5) * scale;
    w.sum = 0.0;
    for (uint32_t k = 0; k < count; k++) w.sum += ldri_weight_value(&w, k);
    return w;
}

static LDRI_HD inline int32_t ldri_weight(const ldri_weigher *w, uint32_t k) /* of pixel lo + k */
{
    double v = ldri_weight_value(w, k);
    return ldri_weight_fixed(w->sum != 0.0 ? v / w->sum : v);
}

/* The weights of output pixel xx of a line n -> m, whose window is [lo, lo + count).  The values
 * are computed twice instead of being kept: a window may be as long as the line. */
static LDRI_HD inline void ldri_weights(uint32_t n, uint32_t m, int filter, uint32_t xx,
                                        uint32_t lo, uint32_t count, int32_t *q)
{
    ldri_weigher w = ldri_weigher_of(n, m, filter, xx, lo, count);
    for (uint32_t k = 0; k < count; k++) q[k] = ldri_weight(&w, k);
}

static LDRI_HD inline uint8_t
ldri_weighted_byte(int32_t sum) /* sum of weight x byte, and the rounding */
{
    int32_t v = sum >> LDRI_WEIGHT_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

#endif
