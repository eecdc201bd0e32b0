/* normalise.h - the last step of the chain: RGB bytes to the output's type and layout, with flips.
 *
 * value = fmaf((float)x, s, b), s = (float)(1 / (255 std)), b = (float)(-mean / std), both computed
 * in double; then one rounding to the output's type.  There are 256 x 3 values, so plain C looks
 * them up in a table; the vector levels compute them, with the same result.  uint8 output has no
 * normalise. */
#ifndef LDR_NORMALISE_H
#define LDR_NORMALISE_H

#include "gpu/x86.h"
#include "loader/status.h"

typedef struct ldri_normaliser ldri_normaliser;

typedef struct ldri_normalise_kernels {
    /* One row of `width` RGB pixels at rgb, mirrored if hflip, to its place in the image: to[c] is
     * where the row of channel c starts (NCHW), to[0] where the row of pixels starts (NHWC).  Reads
     * and writes nothing else. */
    void (*row)(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3]);
} ldri_normalise_kernels;

extern const ldri_normalise_kernels ldri_normalise_plain;
#if LDRI_X86
extern const ldri_normalise_kernels ldri_normalise_avx2;
extern const ldri_normalise_kernels ldri_normalise_avx512;
#endif

struct ldri_normaliser { /* read-only after init; shared by all threads */
    const ldri_normalise_kernels *kernels;
    uint32_t width, height;
    ldr_dtype dtype;
    ldr_layout layout;
    float scale[3], bias[3];
    float pixel_scale[48], pixel_bias[48]; /* the same in the order of an RGB row */
    union {
        float f32[3][256];
        uint16_t u16[3][256]; /* f16 or bf16, as its bits */
    } table;
};

void ldri_normaliser_init(ldri_normaliser *z, const ldri_normalise_kernels *kernels, uint32_t width,
                          uint32_t height, ldr_dtype dtype, ldr_layout layout, const float mean[3],
                          const float std[3]);

/* A picture of height rows, `pitch` bytes apart -> one image, dense.  Nothing beyond 3 * width
 * bytes of a row is read. */
void ldri_normaliser_store(const ldri_normaliser *z, const uint8_t *rgb, size_t pitch, int hflip,
                           int vflip, void *image);

size_t ldri_dtype_bytes(ldr_dtype dtype);

/* Rounding to nearest even.  f16: IEEE with subnormals, infinity from 65,520 up. */
uint16_t ldri_f16_bits(float v);
uint16_t ldri_bf16_bits(float v);

#endif
