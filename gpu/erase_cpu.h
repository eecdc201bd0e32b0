/* erase_cpu.h - random erasing of an image in its output's type and layout. */
#ifndef LDR_ERASE_CPU_H
#define LDR_ERASE_CPU_H

#include "gpu/x86.h"
#include "loader/descriptor.h"
#include "loader/status.h"

#define LDRI_NOISE_BLOCKS 64u /* of one call; a multiple of a register's values */

typedef struct ldri_erase_kernels {
    /* The noise of blocks first .. first + n - 1 (n <= LDRI_NOISE_BLOCKS) of the picture of a
     * descriptor, four values each, to z.  What lies behind them in z may be written too, up to
     * LDRI_NOISE_BLOCKS blocks. */
    void (*noise)(uint64_t seed, const ldri_descriptor *d, uint32_t first, uint32_t n, float *z);
} ldri_erase_kernels;

extern const ldri_erase_kernels ldri_erase_plain;
#if LDRI_X86
extern const ldri_erase_kernels ldri_erase_avx2;
extern const ldri_erase_kernels ldri_erase_avx512;
#endif

typedef struct ldri_eraser { /* read-only after init; shared by all threads */
    const ldri_erase_kernels *kernels;
    uint32_t width, height;
    ldr_dtype dtype;
    ldr_layout layout;
    ldr_erase mode;
    uint64_t seed;
    float mean[3], std[3]; /* of uint8 output, which is not normalised */
} ldri_eraser;

/* The boxes of d, in their order, over the image. */
void ldri_eraser_apply(const ldri_eraser *e, const ldri_descriptor *d, void *image);

#endif
