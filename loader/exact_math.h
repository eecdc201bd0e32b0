/* exact_math.h - exp and log from correctly rounded operations only: the same bits on every
 * machine and in kernels.  C and CUDA; contraction must be off.
 *
 * libm's and CUDA's differ in the last bit, and one bit moves a crop.  Relative error of exp under
 * 3e-16 for |x| <= 20, absolute error of log under 9e-16 on (0, 100]. */
#ifndef LDR_EXACT_MATH_H
#define LDR_EXACT_MATH_H

#include <math.h>

#ifndef LDRI_HD /* as in rng.h */
#ifdef __CUDACC__
#define LDRI_HD __host__ __device__
#else
#define LDRI_HD
#endif
#endif

/* x = k ln 2 + r, |r| <= ln 2 / 2, with ln 2 in two parts (the first has trailing zeros, so that k
 * times it is exact); Taylor's series of exp(r) to r^14. */
static LDRI_HD inline double ldri_exp(double x)
{
    if (!(x > -746.0)) return x == x ? 0.0 : x; /* underflow; NaN stays */
    if (x > 710.0) return HUGE_VAL;
    double k = rint(x * 1.4426950408889634);
    double r = (x - k * 0.69314718036912382) - k * 1.9082149292705877e-10;
    double p = 1.0 / 87178291200.0;
    p = p * r + 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 1.0 / 2.0;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return ldexp(p, (int)k);
}

/* x > 0 and finite.  x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh z, z = (m-1)/(m+1),
 * as a series to z^23. */
static LDRI_HD inline double ldri_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m = m * 2.0;
        e = e - 1;
    }
    double z = (m - 1.0) / (m + 1.0), q = z * z;
    double p = 1.0 / 23.0;
    p = p * q + 1.0 / 21.0;
    p = p * q + 1.0 / 19.0;
    p = p * q + 1.0 / 17.0;
    p = p * q + 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    return e * 0.69314718055994531 + (2.0 * z) * p;
}

#endif
