/* descriptor.h - everything drawn for one sample, as the augmentation reads it.  C and CUDA.
 *
 * Made by the plan on the host (params.h) before the picture is decoded; a kernel or a worker reads
 * it and draws nothing itself.
 *
 * Geometry.  Per axis, a line of `n` input pixels (the crop box's side, or the whole picture's) is
 * resampled to `m` output pixels (pixels of Pillow's resize(box.size -> (m_x, m_y))).  Of those
 * outputs only [first, first + count) are wanted; they land in the final picture at [dst, dst +
 * count), before any flip.  The rest of the final picture is black.  Of the input only pixels
 * [stored, stored + n_stored) are needed, and only those are decoded and kept.
 *     random resized crop: n = side of the box, m = count = side of the final picture, first = dst
 * = stored = 0, n_stored = n shorter edge + centre crop: n = side of the picture, m = its side
 * after the resize, first = the crop's edge, ... The final picture is `width` x `height`, fixed for
 * a loader. */
#ifndef LDR_DESCRIPTOR_H
#define LDR_DESCRIPTOR_H

#include <stdint.h>

#include "loader/rng.h" /* LDRI_HD */

typedef struct ldri_axis {
    uint32_t n, m;
    uint32_t first, count, dst;
    uint32_t stored, n_stored;
} ldri_axis;

typedef enum ldri_source_kind {
    LDRI_RGB_CROP = 0, /* the stored part of the crop, RGB, to be resampled */
    LDRI_RGB_FINAL = 1 /* already resampled to width x height (its worker had no room for the crop),
                          black border included */
} ldri_source_kind;

typedef enum ldri_jitter { /* an operator, and its bit in ldri_descriptor.jitter */
                           LDRI_BRIGHTNESS = 0,
                           LDRI_CONTRAST = 1,
                           LDRI_SATURATION = 2,
                           LDRI_HUE = 3
} ldri_jitter;

typedef enum ldri_mix { LDRI_MIX_NONE, LDRI_MIXUP, LDRI_CUTMIX } ldri_mix;

#define LDRI_MAX_ERASE 8u /* boxes a sample */

typedef struct ldri_erase_box { /* in the output picture, after flips */
    uint32_t top, left, height, width;
    float z[3]; /* erase mode `rand`: the N(0,1) of each channel */
} ldri_erase_box;

/* The chain after the resample: flips, jitter in `order`, greyscale, mix, normalise, erase.  Flips
 * commute with jitter, so an implementation may mirror when it stores; mix boxes and erase boxes
 * are in the output's frame, after flips. */
typedef struct ldri_descriptor {
    uint64_t
        offset;     /* of the first pixel, from the start of the arena's pixels; a multiple of 16 */
    uint32_t pitch; /* bytes from row to row; a multiple of 16 */
    uint8_t kind;   /* ldri_source_kind */
    uint8_t filter; /* LDR_BILINEAR, LDR_BICUBIC or LDR_NEAREST */
    uint8_t hflip, vflip;
    ldri_axis x, y;

    float factor[3];  /* brightness, contrast, saturation */
    uint8_t hue;      /* added to the 8-bit H, modulo 256 */
    uint8_t jitter;   /* bit 1 << ldri_jitter: the operator is applied */
    uint8_t order[4]; /* ldri_jitter, in the order in which they come */
    uint8_t greyscale;
    uint8_t n_erase;

    uint32_t partner;   /* place in the batch of the picture it is mixed with */
    float lambda, rest; /* mixup: weight of the own picture, (float)(1 - lambda) */
    uint32_t mix;       /* ldri_mix */
    uint32_t mix_top, mix_left, mix_bottom, mix_right; /* cutmix: rows [top, bottom), columns
                                                          likewise are the partner's */
    uint64_t sample; /* erasing noise is drawn by (seed, epoch, sample, repeat) */
    uint32_t epoch, repeat;
    uint64_t luma_sum; /* 0 from the host; a kernel's own */
    ldri_erase_box erase[LDRI_MAX_ERASE];
} ldri_descriptor;

/* Row pitch of an RGB picture in an arena: a multiple of 16 for the GPU, of 32 for the reason that
 * arena.h gives. */
static LDRI_HD inline uint32_t ldri_pitch(uint32_t width)
{
    return (3u * width + 31u) & ~31u;
}

#endif
