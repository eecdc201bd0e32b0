/* Resample and colour equal Pillow's, byte for byte, at every SIMD level. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

#include "gpu/simd.h"
#include "tests/crops.h"
#include "tests/pixels_digests.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static uint32_t state; /* of draw */

static uint32_t draw(uint32_t lo, uint32_t hi)
{
    return lo + mix(++state) % (hi - lo + 1);
}

/* FNV-1a over the rows' pixels. */
static uint64_t digest(const uint8_t *rgb, size_t pitch, uint32_t width, uint32_t height)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint32_t y = 0; y < height; y++)
        for (size_t i = 0; i < 3 * (size_t)width; i++)
            h = (h ^ rgb[y * pitch + i]) * 0x100000001b3u;
    return h;
}

/* Resamples the crop at each level and compares digests; frees the crop.  Returns the number of
 * levels that differ. */
static int differs(const char *what, size_t at, const ldri_descriptor *d, uint8_t *crop,
                   uint32_t width, uint32_t height, uint64_t expected)
{
    int n = 0;
    size_t pitch = ldri_pitch(width);
    uint8_t *out = malloc(pitch * height);
    assert_non_null(out);
    for (int level = 0; level <= (int)ldri_simd_best(); level++) {
        ldri_resampler *r =
            ldri_resampler_open(ldri_simd_resample((ldri_simd)level), width, height);
        assert_non_null(r);
        memset(out, 0x5A, pitch * height);
        assert_int_equal(ldri_resampler_run(r, d, crop, out, pitch), LDR_OK);
        if (digest(out, pitch, width, height) != expected) {
            print_error("%s case %zu differs from Pillow at level %s: %ux%u -> %ux%u, filter %d\n",
                        what, at, ldri_simd_name((ldri_simd)level), d->x.n, d->y.n, d->x.m, d->y.m,
                        d->filter);
            n++;
        }
        ldri_resampler_close(r);
    }
    free(out);
    free(crop);
    return n;
}

static void random_boxes_equal_pillow(void **unused)
{
    int n = 0;
    for (uint32_t i = 0; i < COUNT(random_digests); i++) {
        static const uint32_t limits[4] = {24, 90, 260, 700}, out_limits[4] = {140, 90, 70, 50};
        ldri_descriptor d = {0};
        state = i * 4096;
        int kind = (int)draw(0, 3);
        d.filter = draw(0, 1) ? LDR_BICUBIC : LDR_BILINEAR;
        uint32_t size = draw(0, 3), limit = limits[size];
        uint32_t width = draw(1, limit), height = draw(1, limit);
        uint32_t box_w = draw(1, width), box_h = draw(1, height);
        uint32_t left = draw(0, width - box_w), top = draw(0, height - box_h);
        uint32_t out_w = draw(1, out_limits[size]), out_h = draw(1, out_limits[size]);
        uint32_t same = draw(0, 9);
        if (same == 0 && box_w <= 140) out_w = box_w;
        if (same == 1 && box_h <= 140) out_h = box_h;
        d.x = whole_axis(box_w, out_w);
        d.y = whole_axis(box_h, out_h);
        n += differs("random", i, &d, draw_crop(&d, kind, mix(i), left, top), out_w, out_h,
                     random_digests[i]);
    }
    assert_int_equal(n, 0);
}

static void evaluation_views_equal_pillow(void **unused)
{
    int n = 0;
    for (uint32_t i = 0; i < COUNT(eval_digests); i++) {
        ldri_descriptor d = {0};
        uint32_t seed = 1000000 + i, m_w, m_h;
        state = seed * 4096;
        int kind = (int)draw(0, 3);
        d.filter = draw(0, 1) ? LDR_BICUBIC : LDR_BILINEAR;
        uint32_t width = draw(4, 300), height = draw(4, 300);
        uint32_t out_w = draw(8, 64), out_h = draw(8, 64);
        uint32_t view = draw(0, 2);
        if (view == 0) {
            uint32_t edge = (out_w < out_h ? out_w : out_h) * 8 / 7;
            m_w = width <= height ? edge : edge * width / height;
            m_h = width <= height ? edge * height / width : edge;
        } else if (view == 1) {
            m_w = out_w * 8 / 7;
            m_h = out_h * 8 / 7;
        } else {
            m_w = draw(1, 80);
            m_h = draw(1, 80);
        }
        d.x = centred_axis(width, m_w, out_w, d.filter);
        d.y = centred_axis(height, m_h, out_h, d.filter);
        n += differs("evaluation", i, &d, draw_crop(&d, kind, mix(seed), 0, 0), out_w, out_h,
                     eval_digests[i]);
    }
    assert_int_equal(n, 0);
}

static void large_and_lopsided_boxes_equal_pillow(void **unused)
{
    static const uint32_t boxes[][6] = {
        /* left, top, width, height, output width, height */
        {40, 10, 400, 350, 224, 224}, {0, 0, 2000, 40, 224, 17}, {0, 0, 30, 3000, 40, 100},
        {0, 0, 10000, 2, 50, 3},      {0, 0, 1, 5000, 9, 1},     {1, 3, 1111, 877, 96, 80},
    };
    int n = 0;
    assert_int_equal(COUNT(large_digests), 2 * COUNT(boxes));
    for (uint32_t i = 0; i < COUNT(large_digests); i++) {
        const uint32_t *b = boxes[i / 2];
        ldri_descriptor d = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR};
        d.x = whole_axis(b[2], b[4]);
        d.y = whole_axis(b[3], b[5]);
        n += differs("large", i, &d, draw_crop(&d, (int)(i % 3), mix(2000000 + i), b[0], b[1]),
                     b[4], b[5], large_digests[i]);
    }
    assert_int_equal(n, 0);
}

static void nearest_equals_pillow(void **unused)
{
    int n = 0;
    for (uint32_t i = 0; i < COUNT(nearest_digests); i++) {
        static const uint32_t limits[4] = {24, 90, 260, 700};
        ldri_descriptor d = {.filter = LDR_NEAREST};
        state = (3000000 + i) * 4096;
        uint32_t limit = limits[draw(0, 3)];
        uint32_t width = draw(1, limit), height = draw(1, limit);
        uint32_t box_w = draw(1, width), box_h = draw(1, height);
        uint32_t left = draw(0, width - box_w), top = draw(0, height - box_h);
        uint32_t out_w = draw(1, 140), out_h = draw(1, 140);
        d.x = whole_axis(box_w, out_w);
        d.y = whole_axis(box_h, out_h);
        n += differs("nearest", i, &d, draw_crop(&d, 0, mix(3000000 + i), left, top), out_w, out_h,
                     nearest_digests[i]);
    }
    assert_int_equal(n, 0);
}

/* Permutation `index` of 0 .. 3 in lexicographic order. */
static void permutation(uint32_t index, uint8_t order[4])
{
    for (uint32_t word = 0;; word++) { /* four digits to base 4, ascending */
        uint32_t seen = 0;
        for (uint32_t i = 0; i < 4; i++) {
            order[i] = (uint8_t)(word >> (6 - 2 * i) & 3);
            seen |= 1u << order[i];
        }
        if (seen == 15 && index-- == 0) return;
    }
}

static void colour_equals_pillow(void **unused)
{
    int n = 0;
    for (uint32_t i = 0; i < COUNT(colour_digests); i++) {
        ldri_descriptor d = {0};
        state = (4000000 + i) * 4096;
        int kind = (int)draw(0, 3);
        uint32_t width = draw(1, 90), height = draw(1, 60);
        d.jitter = (uint8_t)draw(0, 15);
        permutation(draw(0, 23), d.order);
        for (int k = 0; k < 3; k++) d.factor[k] = (float)(draw(0, 2500) / 1000.0);
        if (draw(0, 9) == 0) d.factor[draw(0, 2)] = 1.0f;
        d.hue = (uint8_t)draw(0, 255);
        d.greyscale = draw(0, 3) == 0;
        d.x = whole_axis(width, width);
        d.y = whole_axis(height, height);
        for (int level = 0; level <= (int)ldri_simd_best(); level++) {
            uint8_t *rgb = draw_crop(&d, kind, mix(4000000 + i), 0, 0);
            ldri_colour_apply(ldri_simd_colour((ldri_simd)level), &d, rgb, d.pitch, width, height);
            if (digest(rgb, d.pitch, width, height) != colour_digests[i]) {
                print_error("colour case %u differs from Pillow at level %s: %ux%u, jitter %u, "
                            "order %u%u%u%u, grey %d\n",
                            i, ldri_simd_name((ldri_simd)level), width, height, d.jitter,
                            d.order[0], d.order[1], d.order[2], d.order[3], d.greyscale);
                n++;
            }
            free(rgb);
        }
    }
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_boxes_equal_pillow),
        cmocka_unit_test(evaluation_views_equal_pillow),
        cmocka_unit_test(large_and_lopsided_boxes_equal_pillow),
        cmocka_unit_test(nearest_equals_pillow),
        cmocka_unit_test(colour_equals_pillow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
