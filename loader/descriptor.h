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

typedef struct ldri_descriptor {
    uint64_t
        offset;     /* of the first pixel, from the start of the arena's pixels; a multiple of 16 */
    uint32_t pitch; /* bytes from row to row; a multiple of 16 */
    uint8_t kind;   /* ldri_source_kind */
    uint8_t filter; /* LDR_BILINEAR or LDR_BICUBIC */
    uint8_t hflip, vflip;
    ldri_axis x, y;
} ldri_descriptor;

/* Row pitch of an RGB picture in an arena: a multiple of 16 for the GPU, of 32 for the reason that
 * arena.h gives. */
static inline uint32_t ldri_pitch(uint32_t width)
{
    return (3u * width + 31u) & ~31u;
}

#endif
