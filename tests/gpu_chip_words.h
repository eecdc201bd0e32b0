/* gpu_chip_words.h - what gpu_chip computes: on the device and, to compare, on the host. */
#ifndef LDR_GPU_CHIP_WORDS_H
#define LDR_GPU_CHIP_WORDS_H

#include "gpu/chip.h"

static LDRI_HD inline void gpu_chip_words(uint32_t i, uint32_t out[12])
{
    ldri_words w = ldri_philox(i, 1, 2, 3, 4, 5);
    uint32_t a = w.w[0], b = w.w[1], c = w.w[2], d = w.w[3];
    float t = (float)(a >> 8) * (1.0f / 32768.0f); /* below 512 */
    int32_t small[4];
    for (int k = 0; k < 4; k++) small[k] = (int32_t)(w.w[k] % 1000u) - 300;
    out[0] = ldri_dot_uu(a, b, c);
    out[1] = ldri_dot_us(a, b, c);
    out[2] = ldri_permute(a, b, c & 0x7777u);
    out[3] = ldri_funnel(a, b, d & 31u);
    out[4] = ldri_pack_bytes(small[0], small[1], small[2], small[3]);
    out[5] = ldri_float_bits(ldri_truncate_biased(t));
    out[6] = ldri_half_pair(t, -t * 300.0f);
    out[7] = ldri_bfloat_pair(t, -t * 300.0f);
    /* Floats of any size, subnormal halves among them; but no NaN. */
    uint32_t bits = b & 0xC7FFFFFFu, other = c & 0x8FFFFFFFu;
    out[8] = ldri_half_pair(ldri_bits_float(bits), ldri_bits_float(other | 0x30000000u));
    out[9] = ldri_bfloat_pair(ldri_bits_float(bits), ldri_bits_float(other));
    out[10] = ldri_float_bits(fmaf(t, 1.0f / 3.0f, -7.7f));
    out[11] = ldri_float_bits(t * 1.1f - 3.3f); /* two roundings: no contraction */
}

#endif
