/* window.h - which input pixels an output pixel of Pillow's resample reads.  C and CUDA;
 * contraction must be off.
 *
 * Source: Pillow, libImaging/Resample.c (precompute_coeffs): support scaled by max(n/m, 1), window
 * [center - support + 0.5, center + support + 0.5) truncated and clamped to the line. */
#ifndef LDR_WINDOW_H
#define LDR_WINDOW_H

#include <math.h>
#include <stdint.h>

#include "loader/loader.h"
#include "loader/rng.h" /* LDRI_HD */

/* Half-width of the filter in its own units: 1 bilinear, 2 bicubic. */
static LDRI_HD inline double ldri_filter_radius(int filter)
{
    return filter == LDR_BICUBIC ? 2.0 : 1.0;
}

/* The input pixel that `nearest` takes for output pixel xx: Pillow adds the scale up, and the sum's
 * rounding is part of the result.  Source: libImaging/Geometry.c (ImagingScaleAffine). */
static LDRI_HD inline uint32_t ldri_nearest(uint32_t n, uint32_t m, uint32_t xx)
{
    double scale = (double)n / m, at = scale * 0.5;
    for (uint32_t i = 0; i < xx; i++) at += scale;
    uint32_t index = (uint32_t)at;
    return index < n ? index : n - 1;
}

/* Window of output pixel xx (0 <= xx < m) of a line n -> m: input pixels [*lo, *hi), at least one.
 */
static LDRI_HD inline void ldri_window(uint32_t n, uint32_t m, int filter, uint32_t xx,
                                       uint32_t *lo, uint32_t *hi)
{
    if (filter == LDR_NEAREST) {
        *lo = ldri_nearest(n, m, xx);
        *hi = *lo + 1;
        return;
    }
    double scale = (double)n / m;
    double support = ldri_filter_radius(filter) * (scale > 1.0 ? scale : 1.0);
    double center = (xx + 0.5) * scale;
    int64_t a =
        (int64_t)(center - support + 0.5); /* truncates towards zero, as Pillow's int cast does */
    int64_t b = (int64_t)(center + support + 0.5);
    *lo = a < 0 ? 0 : (uint32_t)a;
    *hi = b > (int64_t)n ? n : (uint32_t)b;
}

#endif
