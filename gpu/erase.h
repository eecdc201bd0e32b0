/* erase.h - random erasing: the fill of an erased value.  C and CUDA; contraction must be off.
 *
 * Source of the modes: timm, random_erasing.py.  Noise is drawn by the value's place in the output
 * picture, so boxes that overlap agree and nothing depends on who draws first.  The boxes are drawn
 * on the host (descriptor.h). */
#ifndef LDR_ERASE_H
#define LDR_ERASE_H

#include <math.h>
#include <stdint.h>

#include "loader/descriptor.h"
#include "loader/rng.h"

/* The number of a value of the output picture, whatever its layout. */
static LDRI_HD inline uint32_t ldri_erase_element(uint32_t channel, uint32_t y, uint32_t x,
                                                  uint32_t width, uint32_t height)
{
    return (channel * height + y) * width + x;
}

/* Words for elements 4 block .. 4 block + 3 of the picture of a descriptor. */
static LDRI_HD inline ldri_words ldri_erase_words(uint64_t seed, const ldri_descriptor *d,
                                                  uint32_t block)
{
    return ldri_draw(seed, d->epoch, d->sample, LDRI_DOMAIN_ERASE, d->repeat, block);
}

/* The noise of one value.  Runs of values take ldri_erase_words once for four. */
static LDRI_HD inline float ldri_erase_noise(uint64_t seed, const ldri_descriptor *d,
                                             uint32_t element, const float *quantiles)
{
    ldri_words words = ldri_erase_words(seed, d, element / 4);
    return ldri_normal(words.w[element % 4], quantiles);
}

/* z as a byte, where the output is not normalised. */
static LDRI_HD inline uint8_t ldri_erase_byte(float z, float mean, float std)
{
    float v = rintf(255.0f * (mean + std * z));
    return (uint8_t)(v <= 0.0f ? 0.0f : v >= 255.0f ? 255.0f : v);
}

static LDRI_HD inline int ldri_erase_box_holds(const ldri_erase_box *box, uint32_t y, uint32_t x)
{
    return y - box->top < box->height && x - box->left < box->width; /* below: wraps, is large */
}

#endif
