/* The colour operators: formulas over all colours, vector levels against plain C.  That they equal
 * Pillow's is test_pixels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gpu/colour.h"
#include "gpu/mix.h"
#include "gpu/simd.h"
#include "tests/crops.h"

#define ALL (1u << 24)

#ifdef __SANITIZE_THREAD__ /* minutes for what has no threads: a part of it will do */
#define STRIDE 4u
#else
#define STRIDE 1u
#endif

/* The conversions as they are described: integer divisions, and a mask for the values of H that
 * Pillow's floating point makes one too small. */
static ldri_hsv described_hsv(ldri_rgb p)
{
    static const uint32_t mask[8] = {0xFFFFFFFE, 0x00000000, 0x11000000, 0x00000111,
                                     0x222AAAAA, 0x23232222, 0x00022222, 0x00000000};
    int r = p.r, g = p.g, b = p.b;
    int m = r > g ? r : g, low = r < g ? r : g;
    if (b > m) m = b;
    if (b < low) low = b;
    int c = m - low, h = 0, s = 0;
    if (c > 0) {
        s = 255 * c / m;
        int n = m == r ? g - b : m == g ? 2 * c + b - r : 4 * c + r - g;
        if (n < 0) n += 6 * c;
        h = 255 * n / (6 * c);
        if (255 * n % (6 * c) == 0 && (mask[h >> 5] >> (h & 31) & 1)) h--;
    }
    return (ldri_hsv){(uint8_t)h, (uint8_t)s, (uint8_t)m};
}

static ldri_rgb described_rgb(ldri_hsv x)
{
    int64_t h = x.h, s = x.s, v = x.v, d = 65025;
    int64_t i = 6 * h / 255, g = 6 * h - 255 * i;
    int64_t p = (2 * v * (255 - s) + 255) / 510;
    int64_t q = (2 * v * (d - s * g) + d) / (2 * d);
    int64_t t = (2 * v * (d - s * (255 - g)) + d) / (2 * d);
    const int64_t v_t_p[3] = {v, t, p}, q_v_p[3] = {q, v, p}, p_v_t[3] = {p, v, t},
                  p_q_v[3] = {p, q, v}, t_p_v[3] = {t, p, v}, v_p_q[3] = {v, p, q};
    const int64_t *const sextants[6] = {v_t_p, q_v_p, p_v_t, p_q_v, t_p_v, v_p_q};
    const int64_t *o = sextants[i % 6];
    if (s == 0) return (ldri_rgb){x.v, x.v, x.v};
    return (ldri_rgb){(uint8_t)o[0], (uint8_t)o[1], (uint8_t)o[2]};
}

static void conversions_equal_their_description(void **state)
{
    for (uint32_t i = 0; i < ALL; i += STRIDE) {
        uint8_t a = (uint8_t)(i >> 16), b = (uint8_t)(i >> 8), c = (uint8_t)i;
        ldri_hsv hsv = ldri_rgb_to_hsv((ldri_rgb){a, b, c});
        ldri_hsv want_hsv = described_hsv((ldri_rgb){a, b, c});
        if (memcmp(&hsv, &want_hsv, 3) != 0) fail_msg("rgb %u %u %u", a, b, c);
        ldri_rgb rgb = ldri_hsv_to_rgb((ldri_hsv){a, b, c});
        ldri_rgb want_rgb = described_rgb((ldri_hsv){a, b, c});
        if (memcmp(&rgb, &want_rgb, 3) != 0) fail_msg("hsv %u %u %u", a, b, c);
    }
}

/* What the vector levels rest on: one fused float operation instead of an integer division. */
static void a_float_product_finds_the_channel(void **state)
{
    for (uint32_t vs = 0; vs <= 65025; vs += STRIDE) {
        for (uint32_t w = 0; w < 256; w++) {
            uint32_t exact = (vs * w + 32512) / 65025;
            float x = (float)(vs * w);
            /* fmaf without a library call: the product and sum fit a double */
            float t = (float)((double)x * (double)(1.0f / 65025.0f) + 0.5);
            if ((uint32_t)t != exact) fail_msg("v s = %u, w = %u", vs, w);
        }
    }
}

static void fill_all_colours(uint8_t *rgb, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rgb[3 * i] = (uint8_t)((from + i) >> 16);
        rgb[3 * i + 1] = (uint8_t)((from + i) >> 8);
        rgb[3 * i + 2] = (uint8_t)(from + i);
    }
}

static void every_level_gives_every_colour_the_same(void **state)
{
    const uint32_t n = LDRI_COLOUR_SPAN;
    uint8_t *want = malloc(3 * (size_t)n), *got = malloc(3 * (size_t)n);
    assert_true(want && got);
    const ldri_colour_step steps[] = {
        {.kind = LDRI_STEP_HUE, .hue = 0},
        {.kind = LDRI_STEP_HUE, .hue = 24},
        {.kind = LDRI_STEP_HUE, .hue = 231},
        {.kind = LDRI_STEP_GREY},
        {.kind = LDRI_STEP_SATURATION, .factor = 0.7321f},
        {.kind = LDRI_STEP_SATURATION, .factor = 1.37f},
    };
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        for (uint32_t from = 0; from < ALL; from += STRIDE * n) {
            fill_all_colours(want, from, n);
            uint64_t luma = ldri_colour_plain.run(&steps[k], 1, want, n, 1);
            for (int level = 1; level <= (int)ldri_simd_best(); level++) {
                fill_all_colours(got, from, n);
                uint64_t sum = ldri_simd_colour((ldri_simd)level)->run(&steps[k], 1, got, n, 1);
                if (sum != luma || memcmp(got, want, 3 * (size_t)n) != 0)
                    fail_msg("level %s, step %zu, colours from %u on",
                             ldri_simd_name((ldri_simd)level), k, from);
            }
        }
    }
    free(want);
    free(got);
}

/* Every byte from every other, with factors that end on and beside whole numbers. */
static void every_level_blends_the_same(void **state)
{
    static const float factors[] = {0.0f, 0.5f, 0.6f,   0.99999994f, 1.0f, 1.0000001f,
                                    1.4f, 2.0f, 100.0f, 101.0f,      0.1f, 0.33333334f};
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        for (int from = 0; from < 256; from++) {
            uint8_t want[768], got[768];
            ldri_colour_step s = {.kind = LDRI_STEP_BLEND, .factor = factors[k]};
            s.from = (uint8_t)from;
            for (int i = 0; i < 768; i++) want[i] = (uint8_t)i;
            ldri_colour_plain.run(&s, 1, want, 256, 0);
            for (int x = 0; x < 256; x++) {
                /* the two roundings of Pillow's floats */
                float product = factors[k] * (float)(x - from);
                float t = (float)from + product;
                uint8_t exact = t <= 0 ? 0 : t >= 255 ? 255 : (uint8_t)t;
                assert_int_equal(want[x], exact);
            }
            for (int level = 1; level <= (int)ldri_simd_best(); level++) {
                for (int i = 0; i < 768; i++) got[i] = (uint8_t)i;
                ldri_simd_colour((ldri_simd)level)->run(&s, 1, got, 256, 0);
                assert_memory_equal(got, want, 768);
            }
        }
    }
}

/* Any length, and nothing beyond it; exact buffers, so that AddressSanitizer sees a reader of more.
 */
static void every_length_is_done_to_its_end(void **state)
{
    const ldri_colour_step steps[5] = {{.kind = LDRI_STEP_BLEND, .factor = 1.3f, .from = 90},
                                       {.kind = LDRI_STEP_HUE, .hue = 77},
                                       {.kind = LDRI_STEP_SATURATION, .factor = 0.4f},
                                       {.kind = LDRI_STEP_BLEND, .factor = 0.8f},
                                       {.kind = LDRI_STEP_GREY}};
    for (size_t n = 1; n < 70; n++) {
        for (uint32_t n_steps = 0; n_steps <= 5; n_steps++) {
            uint8_t *want = malloc(3 * n), *got = malloc(3 * n);
            assert_true(want && got);
            for (size_t i = 0; i < 3 * n; i++) want[i] = (uint8_t)mix((uint32_t)(i + 999 * n));
            for (int level = 0; level <= (int)ldri_simd_best(); level++) {
                uint64_t luma = 0, expected = 0;
                for (size_t i = 0; i < 3 * n; i++) got[i] = (uint8_t)mix((uint32_t)(i + 999 * n));
                luma = ldri_simd_colour((ldri_simd)level)->run(steps, n_steps, got, n, 1);
                if (level == 0 && n_steps == 0) assert_memory_equal(got, want, 3 * n);
                if (level == 0) memcpy(want, got, 3 * n);
                assert_memory_equal(got, want, 3 * n);
                for (size_t i = 0; i < n; i++)
                    expected += ldri_luma(got[3 * i], got[3 * i + 1], got[3 * i + 2]);
                assert_int_equal(luma, expected);
            }
            free(want);
            free(got);
        }
    }
}

static void gaps_between_rows_are_left_alone(void **state)
{
    for (int level = 0; level <= (int)ldri_simd_best(); level++) {
        enum { WIDTH = 13, HEIGHT = 9, PITCH = 48 };
        uint8_t rgb[PITCH * HEIGHT], want[PITCH * HEIGHT];
        ldri_descriptor d = {.jitter = 15, .order = {3, 1, 2, 0}, .hue = 9, .greyscale = 0};
        d.factor[0] = 1.2f;
        d.factor[1] = 0.7f;
        d.factor[2] = 1.9f;
        uint64_t luma = 0;
        for (int i = 0; i < PITCH * HEIGHT; i++) rgb[i] = want[i] = (uint8_t)mix((uint32_t)i);
        for (int pass = 0; pass < 2; pass++) { /* by the formulas alone */
            for (int y = 0; y < HEIGHT; y++) {
                for (int x = 0; x < WIDTH; x++) {
                    uint8_t *at = want + y * PITCH + 3 * x;
                    ldri_rgb p = {at[0], at[1], at[2]};
                    if (pass == 0) {
                        p = ldri_hue(p, 9);
                        luma += ldri_luma(p.r, p.g, p.b);
                    } else {
                        uint8_t mean = ldri_contrast_mean(luma, WIDTH * HEIGHT);
                        p = (ldri_rgb){ldri_contrast(p.r, mean, 0.7f),
                                       ldri_contrast(p.g, mean, 0.7f),
                                       ldri_contrast(p.b, mean, 0.7f)};
                        p = ldri_saturation(p, 1.9f);
                        p = (ldri_rgb){ldri_brightness(p.r, 1.2f), ldri_brightness(p.g, 1.2f),
                                       ldri_brightness(p.b, 1.2f)};
                    }
                    memcpy(at, &p, 3);
                }
            }
        }
        ldri_colour_apply(ldri_simd_colour((ldri_simd)level), &d, rgb, PITCH, WIDTH, HEIGHT);
        assert_memory_equal(rgb, want, sizeof rgb);
    }
}

static void contrast_takes_the_rounded_mean(void **state)
{
    assert_int_equal(ldri_contrast_mean(0, 10), 0);
    assert_int_equal(ldri_contrast_mean(4, 10), 0);
    assert_int_equal(ldri_contrast_mean(5, 10), 1);
    assert_int_equal(ldri_contrast_mean(14, 10), 1);
    assert_int_equal(ldri_contrast_mean(15, 10), 2);
    assert_int_equal(ldri_contrast_mean(255ull << 28, 1ull << 28), 255);
}

static void every_level_mixes_the_same(void **state)
{
    static const double lambdas[] = {0, 1, 0.5, 0.3, 0.999999, 0.17095787823200226, 1e-9};
    uint8_t own[1000], other[1000], want[1000], got[1000];
    for (int i = 0; i < 1000; i++) {
        own[i] = (uint8_t)mix((uint32_t)i);
        other[i] = (uint8_t)mix((uint32_t)i + 5000);
    }
    for (int i = 0; i < 256; i++) { /* halves round to even */
        own[i] = (uint8_t)i;
        other[i] = (uint8_t)(i / 2 * 2 + 1);
    }
    for (size_t k = 0; k < sizeof lambdas / sizeof *lambdas; k++) {
        float lambda = (float)lambdas[k], rest = (float)(1 - lambdas[k]);
        for (size_t n = 940; n <= 1000; n++) {
            memset(want, 1, sizeof want);
            ldri_colour_plain.mixup(own, other, lambda, rest, want, n);
            for (size_t i = 0; i < n; i++) {
                float a = (float)own[i] * lambda, b = (float)other[i] * rest;
                assert_int_equal(want[i], (int)nearbyintf(a + b));
            }
            for (int level = 1; level <= (int)ldri_simd_best(); level++) {
                memset(got, 1, sizeof got);
                ldri_simd_colour((ldri_simd)level)->mixup(own, other, lambda, rest, got, n);
                assert_memory_equal(got, want, sizeof got);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_equal_their_description),
        cmocka_unit_test(a_float_product_finds_the_channel),
        cmocka_unit_test(every_level_gives_every_colour_the_same),
        cmocka_unit_test(every_level_blends_the_same),
        cmocka_unit_test(every_length_is_done_to_its_end),
        cmocka_unit_test(gaps_between_rows_are_left_alone),
        cmocka_unit_test(contrast_takes_the_rounded_mean),
        cmocka_unit_test(every_level_mixes_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
