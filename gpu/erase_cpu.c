#include "gpu/erase_cpu.h"

#include "gpu/erase.h"
#include "gpu/normal_table.h"
#include "gpu/normalise.h"
#include "loader/backend.h"

const float ldri_normal_quantiles[LDRI_NORMAL_STEPS + 1] = {LDRI_NORMAL_QUANTILES};

static void plain_noise(uint64_t seed, const ldri_descriptor *d, uint32_t first, uint32_t n,
                        float *z)
{
    for (uint32_t i = 0; i < n; i++) {
        ldri_words words = ldri_erase_words(seed, d, first + i);
        for (int k = 0; k < 4; k++) z[4 * i + k] = ldri_normal(words.w[k], ldri_normal_quantiles);
    }
}

const ldri_erase_kernels ldri_erase_plain = {plain_noise};

/* A part of one row of one channel of a box. */
typedef struct run {
    size_t at, step; /* in values: of the first one in the image, and from one to the next */
    uint32_t n;
    int channel;
} run;

/* z[0], z[z_step], ... to the run's places. */
static void put(const ldri_eraser *e, const run *r, void *image, const float *z, size_t z_step)
{
    size_t at = r->at, step = r->step;
    float mean = e->mean[r->channel], std = e->std[r->channel];
    switch (e->dtype) {
    case LDR_F32:
        for (uint32_t i = 0; i < r->n; i++, at += step) ((float *)image)[at] = z[i * z_step];
        break;
    case LDR_F16:
        for (uint32_t i = 0; i < r->n; i++, at += step)
            ((uint16_t *)image)[at] = ldri_f16_bits(z[i * z_step]);
        break;
    case LDR_BF16:
        for (uint32_t i = 0; i < r->n; i++, at += step)
            ((uint16_t *)image)[at] = ldri_bf16_bits(z[i * z_step]);
        break;
    case LDR_U8:
        for (uint32_t i = 0; i < r->n; i++, at += step)
            ((uint8_t *)image)[at] = ldri_erase_byte(z[i * z_step], mean, std);
        break;
    }
}

/* element: the number of the run's first value. */
static void put_noise(const ldri_eraser *e, const ldri_descriptor *d, run r, uint32_t element,
                      void *image)
{
    float z[4 * LDRI_NOISE_BLOCKS];
    uint32_t left = r.n;
    while (left > 0) {
        uint32_t before = element % 4, most = 4 * LDRI_NOISE_BLOCKS - before;
        r.n = left < most ? left : most;
        e->kernels->noise(e->seed, d, element / 4, (before + r.n + 3) / 4, z);
        put(e, &r, image, z + before, 1);
        r.at += r.n * r.step;
        element += r.n;
        left -= r.n;
    }
}

static void erase_box(const ldri_eraser *e, const ldri_descriptor *d, const ldri_erase_box *box,
                      void *image)
{
    static const float zero = 0.0f;
    for (uint32_t y = box->top; y < box->top + box->height; y++) {
        for (int c = 0; c < 3; c++) {
            uint32_t element = ldri_erase_element((uint32_t)c, y, box->left, e->width, e->height);
            size_t pixel = (size_t)y * e->width + box->left;
            run r = {.n = box->width, .channel = c};
            r.step = e->layout == LDR_NCHW ? 1 : 3;
            r.at = e->layout == LDR_NCHW ? element : 3 * pixel + (size_t)c;
            if (e->mode == LDR_ERASE_PIXEL)
                put_noise(e, d, r, element, image);
            else
                put(e, &r, image, e->mode == LDR_ERASE_RAND ? &box->z[c] : &zero, 0);
        }
    }
}

void ldri_eraser_apply(const ldri_eraser *e, const ldri_descriptor *d, void *image)
{
    for (uint32_t k = 0; k < d->n_erase; k++) erase_box(e, d, &d->erase[k], image);
}
