/* colour_cpu.h - the colour operators, and mixup, over whole pictures on the CPU.
 *
 * A picture's operators are cut into runs at contrast, which needs a sum over the picture as the
 * operators before it leave it: one pass over the bytes for a run, which also sums the luma if
 * contrast is next.  Plain C applies the formulas of colour.h; the vector levels keep pixels as
 * whole numbers in float registers and give the same bytes. */
#ifndef LDR_COLOUR_CPU_H
#define LDR_COLOUR_CPU_H

#include <stddef.h>

#include "gpu/x86.h"
#include "loader/descriptor.h"

typedef enum ldri_colour_kind {
    LDRI_STEP_BLEND, /* brightness: from 0; contrast: from the mean */
    LDRI_STEP_SATURATION,
    LDRI_STEP_HUE,
    LDRI_STEP_GREY
} ldri_colour_kind;

typedef struct ldri_colour_step {
    ldri_colour_kind kind;
    float factor;
    uint8_t from; /* blend */
    uint8_t hue;
} ldri_colour_step;

#define LDRI_MAX_STEPS   5u                /* of one picture */
#define LDRI_COLOUR_SPAN ((size_t)1 << 20) /* pixels of one call */

typedef struct ldri_colour_kernels {
    /* Takes n <= LDRI_COLOUR_SPAN pixels at rgb through the steps, in place, and reads and writes
     * nothing else.  Returns the sum of the luma of the result if wants_luma, else anything.
     * Without steps it writes nothing. */
    uint64_t (*run)(const ldri_colour_step *steps, uint32_t n_steps, uint8_t *rgb, size_t n,
                    int wants_luma);
    /* out = own x lambda + other x rest, for n bytes. */
    void (*mixup)(const uint8_t *own, const uint8_t *other, float lambda, float rest, uint8_t *out,
                  size_t n);
} ldri_colour_kernels;

extern const ldri_colour_kernels ldri_colour_plain;
#if LDRI_X86
extern const ldri_colour_kernels ldri_colour_avx2;
extern const ldri_colour_kernels ldri_colour_avx512;
#endif

static inline int ldri_colour_wanted(const ldri_descriptor *d)
{
    return d->jitter || d->greyscale;
}

/* Jitter in its order, then greyscale, of a picture of width x height pixels whose rows are `pitch`
 * bytes apart; in place. */
void ldri_colour_apply(const ldri_colour_kernels *kernels, const ldri_descriptor *d, uint8_t *rgb,
                       size_t pitch, uint32_t width, uint32_t height);

#endif
