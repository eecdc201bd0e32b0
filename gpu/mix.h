/* mix.h - mixup and cutmix of one byte.  C and CUDA; contraction must be off.
 *
 * Source: timm, mixup.py.  Both work on bytes, before normalise; y and x are in the output's frame,
 * after flips.  own: the byte of this picture; other: that of its partner at the same place.  Both
 * are final pictures after flips, jitter and greyscale, not yet mixed. */
#ifndef LDR_MIX_H
#define LDR_MIX_H

#include <math.h>
#include <stdint.h>

#include "loader/descriptor.h"
#include "loader/rng.h"

/* Two products and a sum, each rounded; lambda + rest is 1 but for a rounding, so no bound is
 * needed. */
static LDRI_HD inline uint8_t ldri_mixup(uint8_t own, uint8_t other, float lambda, float rest)
{
    float a = (float)own * lambda, b = (float)other * rest;
    return (uint8_t)rintf(a + b);
}

/* Whether cutmix takes the byte at (y, x) from the partner. */
static LDRI_HD inline int ldri_cutmix_takes(const ldri_descriptor *d, uint32_t y, uint32_t x)
{
    return y >= d->mix_top && y < d->mix_bottom && x >= d->mix_left && x < d->mix_right;
}

static LDRI_HD inline uint8_t ldri_mix_byte(const ldri_descriptor *d, uint32_t y, uint32_t x,
                                            uint8_t own, uint8_t other)
{
    if (d->mix == LDRI_MIXUP) return ldri_mixup(own, other, d->lambda, d->rest);
    if (d->mix == LDRI_CUTMIX && ldri_cutmix_takes(d, y, x)) return other;
    return own;
}

#endif
