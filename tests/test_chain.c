/* The whole chain of the CPU back end, value by value against the formulas of the headers:
 * resample, colour, flips, mixing, normalise, erasing, every type and layout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "gpu/colour.h"
#include "gpu/erase.h"
#include "gpu/mix.h"
#include "gpu/normalise.h"
#include "gpu/simd.h"
#include "loader/backend.h"
#include "tests/crops.h"

#define WIDTH  45u
#define HEIGHT 31u
#define BATCH  7u
#define VALUES (3 * WIDTH * HEIGHT)

static uint32_t state; /* of draw */

static uint32_t draw(uint32_t lo, uint32_t hi)
{
    return lo + mix(++state) % (hi - lo + 1);
}

static ldri_backend_config config_of(ldr_dtype dtype, ldr_layout layout, ldr_erase mode, int mixes)
{
    ldri_backend_config c = {.batch = BATCH,
                             .width = WIDTH,
                             .height = HEIGHT,
                             .dtype = dtype,
                             .layout = layout,
                             .mean = {0.485f, 0.456f, 0.406f},
                             .std = {0.229f, 0.224f, 0.225f},
                             .seed = 0x123456789abcdefu,
                             .erase_mode = mode,
                             .mixes = mixes,
                             .n_hosts = 2,
                             .n_outputs = 2,
                             .arena_bytes = 1 << 20};
    return c;
}

static void draw_descriptor(ldri_descriptor *d, uint32_t i, uint32_t count)
{
    memset(d, 0xEE, sizeof *d); /* nothing may rest on zeros */
    d->kind = LDRI_RGB_CROP;
    d->filter = (uint8_t[]){LDR_BILINEAR, LDR_BICUBIC, LDR_NEAREST}[draw(0, 2)];
    d->hflip = (uint8_t)draw(0, 1);
    d->vflip = (uint8_t)draw(0, 1);
    d->x = whole_axis(draw(1, 120), WIDTH);
    d->y = whole_axis(draw(1, 90), HEIGHT);
    if (draw(0, 4) == 0) { /* a border */
        d->x = centred_axis(40, 20, WIDTH, d->filter);
        d->y = centred_axis(90, 50, HEIGHT, d->filter);
    }
    static const uint8_t orders[5][4] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}, {3, 1, 0, 2}};
    memcpy(d->order, orders[draw(0, 4)], 4);
    d->jitter = (uint8_t)draw(0, 15);
    for (int k = 0; k < 3; k++) d->factor[k] = (float)draw(0, 2000) / 1000.0f;
    d->hue = (uint8_t)draw(0, 255);
    d->greyscale = draw(0, 3) == 0;
    d->sample = i == 2 ? 0x100000000u + i : i;
    d->epoch = 3;
    d->repeat = i == 3 ? 255 : 0;
    d->luma_sum = 0;
    d->n_erase = (uint8_t)draw(0, 3);
    for (uint32_t k = 0; k < d->n_erase; k++) {
        ldri_erase_box *b = &d->erase[k];
        b->height = draw(0, HEIGHT - 1);
        b->width = draw(0, WIDTH - 1);
        b->top = draw(0, HEIGHT - b->height);
        b->left = draw(0, WIDTH - b->width);
        for (int c = 0; c < 3; c++) b->z[c] = (float)draw(0, 7000) / 1000.0f - 3.5f;
    }
    d->partner = count - 1 - i;
    d->mix = draw(0, 2);
    d->lambda = (float)draw(0, 1000) / 1000.0f;
    d->rest = (float)(1.0 - (double)d->lambda);
    d->mix_top = draw(0, HEIGHT);
    d->mix_bottom = draw(d->mix_top, HEIGHT);
    d->mix_left = draw(0, WIDTH);
    d->mix_right = draw(d->mix_left, WIDTH);
}

/* --- the chain, a value at a time ----------------------------------------------------------- */

typedef uint8_t picture[HEIGHT][WIDTH][3];

static void blend_all(picture p, uint8_t from, float factor)
{
    for (uint32_t i = 0; i < VALUES; i++) {
        uint8_t *v = &p[0][0][0] + i;
        *v = ldri_blend(from, *v, factor);
    }
}

static void each_pixel(picture p, const ldri_descriptor *d, int op)
{
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
        uint8_t *at = &p[0][0][0] + 3 * i;
        ldri_rgb v = {at[0], at[1], at[2]};
        v = op == LDRI_HUE          ? ldri_hue(v, d->hue)
            : op == LDRI_SATURATION ? ldri_saturation(v, d->factor[LDRI_SATURATION])
                                    : ldri_greyscale(v);
        memcpy(at, &v, 3);
    }
}

static uint64_t luma_sum(picture p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < VALUES; i += 3) {
        const uint8_t *v = &p[0][0][0] + i;
        sum += ldri_luma(v[0], v[1], v[2]);
    }
    return sum;
}

static void wanted_bytes(picture p, const ldri_descriptor *d, const uint8_t *final)
{
    size_t pitch = ldri_pitch(WIDTH);
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++)
                p[d->vflip ? HEIGHT - 1 - y : y][d->hflip ? WIDTH - 1 - x : x][c] =
                    final[y * pitch + 3 * x + (uint32_t)c];
    for (int k = 0; k < 4; k++) {
        int op = d->order[k];
        if (!(d->jitter >> op & 1)) continue;
        if (op == LDRI_BRIGHTNESS)
            blend_all(p, 0, d->factor[op]);
        else if (op == LDRI_CONTRAST)
            blend_all(p, ldri_contrast_mean(luma_sum(p), WIDTH * HEIGHT), d->factor[op]);
        else
            each_pixel(p, d, op);
    }
    if (d->greyscale) each_pixel(p, d, -1);
}

static void wanted_value(const ldri_backend_config *k, const ldri_descriptor *d, uint8_t byte,
                         uint32_t y, uint32_t x, uint32_t c, void *to)
{
    float s = (float)(1.0 / (255.0 * (double)k->std[c]));
    float b = (float)(-(double)k->mean[c] / (double)k->std[c]);
    float v = fmaf((float)byte, s, b);
    for (uint32_t i = 0; i < d->n_erase; i++) {
        if (!ldri_erase_box_holds(&d->erase[i], y, x)) continue;
        uint32_t element = ldri_erase_element(c, y, x, WIDTH, HEIGHT);
        v = k->erase_mode == LDR_ERASE_CONST ? 0.0f
            : k->erase_mode == LDR_ERASE_RAND
                ? d->erase[i].z[c]
                : ldri_erase_noise(k->seed, d, element, ldri_normal_quantiles);
        byte = ldri_erase_byte(v, k->mean[c], k->std[c]);
    }
    uint16_t half = k->dtype == LDR_F16 ? ldri_f16_bits(v) : ldri_bf16_bits(v);
    switch (k->dtype) {
    case LDR_F32:
        memcpy(to, &v, 4);
        break;
    case LDR_F16:
    case LDR_BF16:
        memcpy(to, &half, 2);
        break;
    case LDR_U8:
        memcpy(to, &byte, 1);
        break;
    }
}

/* --- the test --------------------------------------------------------------------------------- */

static void check(const ldri_backend_config *c, uint32_t count, uint32_t seed)
{
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, NULL);
    ldri_backend *be;
    ldr_error err;
    assert_int_equal(cpu->open(&be, c, &err), LDR_OK);
    ldri_scratch *scratch = cpu->scratch_open(be);
    assert_non_null(scratch);
    ldri_host_arena a;
    ldri_output o;
    cpu->host_arena(be, 1, &a);
    cpu->output(be, 1, &o);
    assert_int_equal(a.mix_labels != NULL, c->mixes);
    assert_int_equal(a.mix_lambda != NULL, c->mixes);

    size_t used = 0, element = ldri_dtype_bytes(c->dtype), pitch = ldri_pitch(WIDTH);
    picture *want = malloc(sizeof(picture) * BATCH);
    uint8_t *final = malloc(pitch * HEIGHT), *image = malloc(VALUES * element);
    assert_true(want && final && image);
    memset(o.images, 0x5A, VALUES * element * BATCH);
    state = seed * 65536;
    for (uint32_t i = 0; i < count; i++) {
        ldri_descriptor *d = &a.descriptors[i];
        draw_descriptor(d, i, count);
        uint8_t *crop = draw_crop(d, (int)draw(0, 3), draw(0, 9999), 0, 0);
        memset(final, 0, pitch * HEIGHT);
        assert_int_equal(cpu->resample_sample(be, scratch, d, crop, final), LDR_OK);
        wanted_bytes(want[i], d, final);
        d->offset = used;
        if (draw(0, 1)) { /* its worker found no room for the crop */
            d->kind = LDRI_RGB_FINAL;
            d->pitch = (uint32_t)pitch;
            memcpy(a.pixels + used, final, pitch * HEIGHT);
            used += (pitch * HEIGHT + 63) / 64 * 64;
        } else {
            memcpy(a.pixels + used, crop, crop_bytes(d));
            used += ((size_t)d->pitch * d->y.n_stored + 63) / 64 * 64;
        }
        free(crop);
    }
    for (uint32_t k = 0; k < count; k++)
        assert_int_equal(cpu->augment_sample(be, scratch, 1, count - 1 - k, 1), LDR_OK);
    for (uint32_t k = 0; c->mixes && k < count; k++)
        assert_int_equal(cpu->finish_sample(be, scratch, 1, (k + 2) % count, 1), LDR_OK);
    assert_int_equal(cpu->submit(be, 1, 1, count, used, &err), LDR_OK);

    for (uint32_t i = 0; i < count; i++) {
        const ldri_descriptor *d = &a.descriptors[i];
        for (uint32_t y = 0; y < HEIGHT; y++) {
            for (uint32_t x = 0; x < WIDTH; x++) {
                for (uint32_t k = 0; k < 3; k++) {
                    uint8_t byte = want[i][y][x][k];
                    if (c->mixes) byte = ldri_mix_byte(d, y, x, byte, want[d->partner][y][x][k]);
                    size_t at = c->layout == LDR_NCHW ? (k * HEIGHT + y) * WIDTH + x
                                                      : (y * WIDTH + x) * 3 + k;
                    wanted_value(c, d, byte, y, x, k, image + at * element);
                }
            }
        }
        if (memcmp(image, (uint8_t *)o.images + i * VALUES * element, VALUES * element) != 0)
            fail_msg("seed %u, image %u of %u: dtype %d, layout %d, erase %d, mix %u", seed, i,
                     count, (int)c->dtype, (int)c->layout, (int)c->erase_mode,
                     c->mixes ? d->mix : 0);
    }
    for (size_t i = VALUES * element * count; i < VALUES * element * BATCH; i++)
        assert_int_equal(((uint8_t *)o.images)[i], 0x5A);
    free(want);
    free(final);
    free(image);
    cpu->scratch_close(scratch);
    cpu->close(be);
}

static void all_of_it_follows_the_formulas(void **unused)
{
    static const char *const levels[] = {"none", "avx2", "avx512"};
    uint32_t seed = 1;
    for (int level = 0; level < 3; level++) {
        setenv("LDR_SIMD", levels[level], 1);
        for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++) {
            for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++) {
                for (int mixes = 0; mixes < 2; mixes++) {
                    ldr_erase mode = (ldr_erase)(seed % 3);
                    ldri_backend_config c =
                        config_of((ldr_dtype)dtype, (ldr_layout)layout, mode, mixes);
                    check(&c, BATCH, seed++);
                    check(&c, BATCH - 1, seed++);
                }
            }
        }
        for (uint32_t count = 1; count < 4; count++) {
            ldri_backend_config c = config_of(LDR_F16, LDR_NCHW, LDR_ERASE_PIXEL, 1);
            check(&c, count, seed++);
        }
    }
    unsetenv("LDR_SIMD");
}

/* Computed by a second program, in Python, from the description alone. */
static void noise_is_the_recorded_one(void **unused)
{
    static const uint32_t bits[4] = {0xbec04986, 0xbe5dd180, 0x3ec97892, 0xbf6fb1b0};
    ldri_descriptor d = {.sample = 7, .epoch = 3};
    for (uint32_t i = 0; i < 4; i++) {
        float z = ldri_erase_noise(42, &d, 400000 + i, ldri_normal_quantiles);
        assert_memory_equal(&z, &bits[i], 4);
    }
    d.repeat = 1;
    float z = ldri_erase_noise(42, &d, 400000, ldri_normal_quantiles);
    assert_memory_not_equal(&z, &bits[0], 4);
}

static void every_level_makes_the_same_noise(void **unused)
{
    for (uint32_t first = 0; first < 40; first += 13) {
        for (uint32_t n = 1; n <= LDRI_NOISE_BLOCKS; n++) {
            ldri_descriptor d = {.sample = 0x9876543210u + n, .epoch = 4000000000u, .repeat = n};
            for (int level = 0; level <= (int)ldri_simd_best(); level++) {
                float z[4 * LDRI_NOISE_BLOCKS];
                ldri_simd_erase((ldri_simd)level)->noise(0xfedcba9876543210u, &d, first, n, z);
                for (uint32_t i = 0; i < 4 * n; i++) {
                    float want = ldri_erase_noise(0xfedcba9876543210u, &d, 4 * first + i,
                                                  ldri_normal_quantiles);
                    assert_memory_equal(&z[i], &want, 4);
                }
            }
        }
    }
}

static void erased_bytes_are_bounded(void **unused)
{
    assert_int_equal(ldri_erase_byte(0.0f, 0.485f, 0.229f), 124);
    assert_int_equal(ldri_erase_byte(0.0f, 0.456f, 0.224f), 116);
    assert_int_equal(ldri_erase_byte(0.0f, 0.406f, 0.225f), 104);
    assert_int_equal(ldri_erase_byte(3.79f, 0.485f, 0.229f), 255);
    assert_int_equal(ldri_erase_byte(-3.79f, 0.485f, 0.229f), 0);
    assert_int_equal(ldri_erase_byte(1.0f, 0.5f, 0.1f), 153);
    assert_int_equal(ldri_erase_byte(0.0f, -9.0f, 0.1f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_follows_the_formulas),
        cmocka_unit_test(noise_is_the_recorded_one),
        cmocka_unit_test(every_level_makes_the_same_noise),
        cmocka_unit_test(erased_bytes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
