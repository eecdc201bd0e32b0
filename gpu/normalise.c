#include "gpu/normalise.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t ldri_dtype_bytes(ldr_dtype dtype)
{
    return dtype == LDR_F32 ? 4 : dtype == LDR_U8 ? 1 : 2;
}

uint16_t ldri_bf16_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

uint16_t ldri_f16_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) /* not a number: stays one, quiet, with the top of its payload */
        return (uint16_t)(sign | 0x7e00u | (u >> 13 & 0x3ffu));
    if (u >= 0x477ff000u) return sign | 0x7c00u; /* 65,520 and more */
    if (u >= 0x38800000u) { /* normal: exponent bias 127 -> 15, 13 bits of fraction go */
        u -= (uint32_t)(127 - 15) << 23;
        return (uint16_t)(sign | ((u + 0xfffu + (u >> 13 & 1u)) >> 13));
    }
    /* Subnormal or zero, in units of 2^-24. */
    uint32_t exponent = u >> 23;
    if (exponent < 102) return sign; /* below half a unit */
    uint32_t fraction = (u & 0x7fffffu) | 0x800000u, shift = 126 - exponent;
    uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1),
             half = 1u << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1u));
    return (uint16_t)(sign | kept);
}

void ldri_normaliser_init(ldri_normaliser *z, const ldri_normalise_kernels *kernels, uint32_t width,
                          uint32_t height, ldr_dtype dtype, ldr_layout layout, const float mean[3],
                          const float std[3])
{
    memset(z, 0, sizeof *z);
    z->kernels = kernels;
    z->width = width;
    z->height = height;
    z->dtype = dtype;
    z->layout = layout;
    if (dtype == LDR_U8) return;
    for (int c = 0; c < 3; c++) {
        z->scale[c] = (float)(1.0 / (255.0 * (double)std[c]));
        z->bias[c] = (float)(-(double)mean[c] / (double)std[c]);
        for (int x = 0; x < 256; x++) {
            float v = fmaf((float)x, z->scale[c], z->bias[c]);
            if (dtype == LDR_F32) z->table.f32[c][x] = v;
            if (dtype == LDR_F16) z->table.u16[c][x] = ldri_f16_bits(v);
            if (dtype == LDR_BF16) z->table.u16[c][x] = ldri_bf16_bits(v);
        }
    }
    for (int i = 0; i < 48; i++) {
        z->pixel_scale[i] = z->scale[i % 3];
        z->pixel_bias[i] = z->bias[i % 3];
    }
}

/* step: elements from a pixel to the next. */
static void plain_channel(const ldri_normaliser *z, const uint8_t *rgb, int hflip, int c, void *to,
                          size_t step)
{
    ptrdiff_t next = hflip ? -3 : 3;
    const uint8_t *in = rgb + c + (hflip ? 3 * ((size_t)z->width - 1) : 0);
    size_t n = z->width;
    switch (z->dtype) {
    case LDR_F32:
        for (float *out = to; n > 0; n--, in += next, out += step) *out = z->table.f32[c][*in];
        break;
    case LDR_F16:
    case LDR_BF16:
        for (uint16_t *out = to; n > 0; n--, in += next, out += step) *out = z->table.u16[c][*in];
        break;
    case LDR_U8:
        for (uint8_t *out = to; n > 0; n--, in += next, out += step) *out = *in;
        break;
    }
}

static void plain_row(const ldri_normaliser *z, const uint8_t *rgb, int hflip, void *const to[3])
{
    if (z->layout == LDR_NCHW) {
        for (int c = 0; c < 3; c++) plain_channel(z, rgb, hflip, c, to[c], 1);
        return;
    }
    size_t element = ldri_dtype_bytes(z->dtype);
    for (int c = 0; c < 3; c++)
        plain_channel(z, rgb, hflip, c, (uint8_t *)to[0] + (size_t)c * element, 3);
}

const ldri_normalise_kernels ldri_normalise_plain = {plain_row};

void ldri_normaliser_store(const ldri_normaliser *z, const uint8_t *rgb, size_t pitch, int hflip,
                           int vflip, void *image)
{
    size_t element = ldri_dtype_bytes(z->dtype);
    size_t row = (size_t)z->width * element * (z->layout == LDR_NCHW ? 1 : 3);
    size_t plane = z->layout == LDR_NCHW ? row * z->height : 0;
    for (uint32_t y = 0; y < z->height; y++) {
        uint8_t *to = (uint8_t *)image + row * (vflip ? z->height - 1 - y : y);
        void *const starts[3] = {to, to + plane, to + 2 * plane};
        z->kernels->row(z, rgb + y * pitch, hflip, starts);
    }
}
