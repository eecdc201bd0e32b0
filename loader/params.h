/* params.h - what is drawn for one sample: a pure function of (options, seed, epoch, sample,
 * repeat) and, for the box, the picture's size. */
#ifndef LDR_PARAMS_H
#define LDR_PARAMS_H

#include "loader/descriptor.h"
#include "loader/status.h"

#define LDRI_REPEAT_REPLACEMENT 255u /* `repeat` of a sample that stands in for a bad one */

typedef struct ldri_box {
    uint32_t top, left, height, width;
} ldri_box;

typedef struct ldri_params { /* what does not depend on the picture's size */
    uint64_t seed, epoch, sample;
    uint32_t repeat;
    uint8_t filter; /* LDR_BILINEAR, LDR_BICUBIC or LDR_NEAREST */
    uint8_t hflip, vflip;
    /* As in ldri_descriptor. */
    uint8_t jitter, hue, order[4], greyscale, n_erase;
    float factor[3];
    double hue_turns; /* what hue was made from */
    ldri_erase_box erase[LDRI_MAX_ERASE];
} ldri_params;

void ldri_params_draw(const ldr_options *o, uint64_t epoch, uint64_t sample, uint32_t repeat,
                      ldri_params *out);

/* The box that is resampled: drawn for view train, the whole picture for the others.  Returns the
 * attempt that gave it, 0 .. 9, or 10 for the fallback; 0 for the other views.  The picture has at
 * least one pixel. */
int ldri_params_box(const ldr_options *o, const ldri_params *p, uint32_t picture_width,
                    uint32_t picture_height, ldri_box *out);

/* Fills *d from the parameters and the picture's size, and *region with the part of the picture to
 * decode: its pixels are the stored ones of the descriptor.  offset, pitch and kind are left alone;
 * mix is set to none, for params_mix.h to change. */
void ldri_params_describe(const ldr_options *o, const ldri_params *p, uint32_t picture_width,
                          uint32_t picture_height, ldri_descriptor *d, ldri_box *region);

#endif
