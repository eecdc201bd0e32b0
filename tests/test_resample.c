/* The SIMD levels of the resample give the bytes of plain C, and touch nothing beside them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

#include "gpu/simd.h"
#include "gpu/weights.h"
#include "tests/crops.h"

#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define SENTINEL  0x5A
#define SIDE_ROOM 96 /* bytes of sentinel before and behind an output */

static uint32_t state; /* of draw */

static uint32_t draw(uint32_t lo, uint32_t hi)
{
    return lo + mix(++state) % (hi - lo + 1);
}

typedef struct picture {
    uint8_t *block, *rgb;
    size_t pitch, bytes;
    uint32_t width, height;
} picture;

/* pitch is odd now and then: nothing may rely on aligned rows of an output. */
static picture picture_make(uint32_t width, uint32_t height, size_t pitch)
{
    picture p = {.width = width, .height = height, .pitch = pitch};
    p.bytes = pitch * height + 2 * SIDE_ROOM;
    p.block = malloc(p.bytes);
    assert_non_null(p.block);
    p.rgb = p.block + SIDE_ROOM;
    memset(p.block, SENTINEL, p.bytes);
    return p;
}

static int sentinels_stand(const picture *p)
{
    for (size_t i = 0; i < SIDE_ROOM; i++)
        if (p->block[i] != SENTINEL || p->block[p->bytes - 1 - i] != SENTINEL) return 0;
    for (uint32_t y = 0; y < p->height; y++)
        for (size_t i = 3 * (size_t)p->width; i < p->pitch; i++)
            if (p->rgb[y * p->pitch + i] != SENTINEL) return 0;
    return 1;
}

static picture run(ldri_simd level, const ldri_descriptor *d, const uint8_t *crop, uint32_t width,
                   uint32_t height, size_t pitch)
{
    picture p = picture_make(width, height, pitch);
    ldri_resampler *r = ldri_resampler_open(ldri_simd_resample(level), width, height);
    assert_non_null(r);
    assert_int_equal(ldri_resampler_run(r, d, crop, p.rgb, pitch), LDR_OK);
    ldri_resampler_close(r);
    return p;
}

static void describe(const char *what, const ldri_descriptor *d)
{
    print_error("%s: x %u->%u first %u count %u dst %u stored %u+%u, y %u->%u first %u count %u "
                "dst %u stored %u+%u, filter %d\n",
                what, d->x.n, d->x.m, d->x.first, d->x.count, d->x.dst, d->x.stored, d->x.n_stored,
                d->y.n, d->y.m, d->y.first, d->y.count, d->y.dst, d->y.stored, d->y.n_stored,
                d->filter);
}

/* Runs a crop at all levels; all must equal `expected`, or plain C where that is NULL. */
static void check_levels(ldri_descriptor *d, int kind, uint32_t seed, uint32_t width,
                         uint32_t height, const picture *expected)
{
    uint8_t *crop = draw_crop(d, kind, seed, 0, 0);
    size_t pitch = 3 * (size_t)width + seed % 3;
    picture plain = run(LDRI_SIMD_NONE, d, crop, width, height, pitch);
    int good = sentinels_stand(&plain);
    if (expected)
        for (uint32_t y = 0; y < height; y++)
            good &= memcmp(expected->rgb + y * expected->pitch, plain.rgb + y * pitch,
                           3 * (size_t)width) == 0;
    if (!good) describe("plain C", d);
    assert_true(good);
    for (int level = 1; level <= (int)ldri_simd_best(); level++) {
        picture p = run((ldri_simd)level, d, crop, width, height, pitch);
        good = memcmp(p.block, plain.block, p.bytes) == 0;
        if (!good) describe(ldri_simd_name((ldri_simd)level), d);
        assert_true(good);
        free(p.block);
    }
    free(plain.block);
    free(crop);
}

/* A part of a line n -> m, somewhere in a side of `side` pixels. */
static ldri_axis random_axis(uint32_t n, uint32_t m, uint32_t side, int filter)
{
    ldri_axis a = {.n = n, .m = m};
    a.count = draw(1, m < side ? m : side);
    a.first = draw(0, m - a.count);
    a.dst = draw(0, side - a.count);
    store_what_is_read(&a, filter);
    /* now and then more is stored than is needed */
    uint32_t before = draw(0, 3), behind = draw(0, 3);
    if (before > a.stored) before = a.stored;
    a.stored -= before;
    a.n_stored += before;
    if (behind > n - a.stored - a.n_stored) behind = n - a.stored - a.n_stored;
    a.n_stored += behind;
    return a;
}

static void levels_agree_on_random_descriptors(void **unused)
{
    for (uint32_t i = 0; i < 1500; i++) {
        static const uint32_t sides[] = {1, 2, 7, 33, 120, 400};
        state = 77000 + i * 64;
        ldri_descriptor d = {.filter = draw(0, 1) ? LDR_BICUBIC : LDR_BILINEAR};
        uint32_t n_x = draw(1, sides[draw(0, 5)]), n_y = draw(1, sides[draw(0, 5)]);
        uint32_t m_x = draw(0, 7) ? draw(1, sides[draw(0, 4)]) : n_x;
        uint32_t m_y = draw(0, 7) ? draw(1, sides[draw(0, 4)]) : n_y;
        uint32_t width = draw(1, sides[draw(1, 4)]), height = draw(1, sides[draw(1, 4)]);
        d.x = random_axis(n_x, m_x, width, d.filter);
        d.y = random_axis(n_y, m_y, height, d.filter);
        check_levels(&d, (int)draw(0, 3), i, width, height, NULL);
    }
}

static void levels_agree_on_extreme_crops(void **unused)
{
    static const uint32_t cases[][4] = {
        /* input width, height -> output width, height */
        {1, 1, 1, 1},      {1, 1, 37, 5},     {2, 1, 64, 1},    {10000, 1, 224, 3},
        {10000, 3, 1, 1},  {3, 10000, 5, 7},  {1, 10000, 1, 1}, {5, 5, 5, 9},
        {6, 5, 9, 5},      {7, 7, 3, 3},      {8, 9, 8, 9},     {1000, 7, 225, 31},
        {950, 5, 226, 4},  {2150, 3, 227, 2}, {21, 21, 5, 5},   {300000, 1, 3, 1},
        {1, 300000, 1, 3}, {65535, 1, 1, 1},  {4, 4, 300, 300}, {400, 350, 224, 224},
        {222, 9, 222, 8},  {9, 223, 8, 223},  {640, 1, 5, 1},   {257, 3, 64, 2},
    };
    for (uint32_t i = 0; i < 2 * COUNT(cases); i++) {
        const uint32_t *c = cases[i / 2];
        ldri_descriptor d = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR};
        d.x = whole_axis(c[0], c[2]);
        d.y = whole_axis(c[1], c[3]);
        check_levels(&d, (int)(i % 3), i, c[2], c[3], NULL);
    }
}

/* 255 everywhere, and points of 255 that meet only positive or only negative weights: the largest
 * sums. */
static void levels_agree_at_the_ends_of_the_range(void **unused)
{
    for (uint32_t i = 0; i < 200; i++) {
        state = 5000 + i * 64;
        ldri_descriptor d = {.filter = LDR_BICUBIC};
        uint32_t width = draw(1, 60), height = draw(1, 60);
        d.x = whole_axis(draw(1, 90), width);
        d.y = whole_axis(draw(1, 90), height);
        check_levels(&d, i % 2 ? 2 : 1, i * 13, width, height, NULL); /* 13: blocks of one pixel */
    }
}

static void rest_of_the_final_picture_is_black(void **unused)
{
    ldri_descriptor d = {.filter = LDR_BICUBIC};
    for (int level = 0; level <= (int)ldri_simd_best(); level++) {
        d.x = (ldri_axis){.n = 9, .m = 9, .first = 2, .count = 5, .dst = 3, .n_stored = 9};
        d.y = (ldri_axis){.n = 6, .m = 4, .count = 4, .dst = 7, .n_stored = 6};
        d.pitch = 32;
        uint8_t crop[6 * 32];
        memset(crop, 200, sizeof crop);
        picture p = run((ldri_simd)level, &d, crop, 12, 20, 37);
        assert_true(sentinels_stand(&p));
        for (uint32_t y = 0; y < 20; y++)
            for (uint32_t x = 0; x < 12; x++)
                for (uint32_t c = 0; c < 3; c++) {
                    int inside = x >= 3 && x < 8 && y >= 7 && y < 11;
                    assert_int_equal(p.rgb[y * p.pitch + 3 * x + c], inside ? 200 : 0);
                }
        free(p.block);
        d.x.count = 0; /* nothing of the picture is wanted */
        p = run((ldri_simd)level, &d, NULL, 12, 20, 37);
        assert_true(sentinels_stand(&p));
        for (uint32_t y = 0; y < 20; y++)
            for (uint32_t i = 0; i < 36; i++) assert_int_equal(p.rgb[y * p.pitch + i], 0);
        free(p.block);
    }
}

/* A crop of a resize is the resize, cropped: also where a part of the input is not there. */
static void part_equals_the_whole_cut(void **unused)
{
    for (uint32_t i = 0; i < 150; i++) {
        state = 31000 + i * 64;
        ldri_descriptor whole = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR}, part = whole;
        uint32_t m_x = draw(1, 90), m_y = draw(1, 90);
        whole.x = whole_axis(draw(1, 200), m_x);
        whole.y = whole_axis(draw(1, 200), m_y);
        part.x = random_axis(whole.x.n, m_x, m_x, part.filter);
        part.y = random_axis(whole.y.n, m_y, m_y, part.filter);
        part.x.dst = part.y.dst = 0;
        uint8_t *crop = draw_crop(&whole, 0, i, 0, 0);
        picture full = run(LDRI_SIMD_NONE, &whole, crop, m_x, m_y, 3 * (size_t)m_x);
        free(crop);
        picture cut = full; /* the part's corner; its rows lie in the whole's */
        cut.rgb += part.y.first * full.pitch + 3 * (size_t)part.x.first;
        check_levels(&part, 0, i, part.x.count, part.y.count, &cut);
        free(full.block);
    }
}

/* The formula in its simplest form: one value of the final picture, all in 64 bits. */
static uint8_t line_value(const uint8_t *in, size_t step, uint32_t n, uint32_t m, int filter,
                          uint32_t at)
{
    uint32_t lo, hi;
    if (n == m) return in[at * step];
    ldri_window(n, m, filter, at, &lo, &hi);
    int32_t *q = malloc((hi - lo) * sizeof *q);
    assert_non_null(q);
    ldri_weights(n, m, filter, at, lo, hi - lo, q);
    int64_t sum = 1 << 21;
    for (uint32_t k = lo; k < hi; k++) sum += (int64_t)q[k - lo] * in[k * step];
    free(q);
    sum >>= 22;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Sides so long that tables are made and windows are taken in parts: the same bytes, and memory
 * that follows one side at most. */
static void long_sides_go_in_parts(void **unused)
{
    static const uint32_t cases[][4] = {
        /* input width, height -> output width, height */
        {1000000, 1, 20, 1}, {600000, 2, 2, 3}, {2, 140000, 1, 2},
        {4, 300000, 4, 1},   {3, 300000, 4, 1},
    };
    for (uint32_t i = 0; i < 2 * COUNT(cases); i++) {
        const uint32_t *c = cases[i / 2];
        uint32_t width = c[2], height = c[3];
        ldri_descriptor d = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR};
        d.x = whole_axis(c[0], width);
        d.y = whole_axis(c[1], height);
        uint8_t *crop = draw_crop(&d, 0, i, 0, 0);
        uint8_t *between = malloc((size_t)3 * width * c[1]);
        picture expected = picture_make(width, height, (size_t)3 * width);
        assert_non_null(between);
        for (uint32_t x = 0; x < width; x++) {
            /* The weights of a long line are costly: all rows with one set. */
            uint32_t lo = x, hi = x + 1;
            if (d.x.n != d.x.m) ldri_window(c[0], width, d.filter, x, &lo, &hi);
            int32_t *q = malloc((hi - lo) * sizeof *q);
            assert_non_null(q);
            if (d.x.n != d.x.m)
                ldri_weights(c[0], width, d.filter, x, lo, hi - lo, q);
            else
                q[0] = 1 << 22;
            for (uint32_t y = 0; y < c[1]; y++)
                for (uint32_t b = 0; b < 3; b++) {
                    int64_t sum = 1 << 21;
                    for (uint32_t k = lo; k < hi; k++)
                        sum += (int64_t)q[k - lo] * crop[(size_t)y * d.pitch + 3 * (size_t)k + b];
                    sum >>= 22;
                    between[3 * ((size_t)y * width + x) + b] = (uint8_t)(sum < 0     ? 0
                                                                         : sum > 255 ? 255
                                                                                     : sum);
                }
            free(q);
        }
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < 3 * width; x++)
                expected.rgb[y * expected.pitch + x] =
                    line_value(between + x, (size_t)3 * width, c[1], height, d.filter, y);
        for (int level = 0; level <= (int)ldri_simd_best(); level++) {
            picture p = picture_make(width, height, (size_t)3 * width);
            ldri_resampler *r =
                ldri_resampler_open(ldri_simd_resample((ldri_simd)level), width, height);
            assert_non_null(r);
            assert_int_equal(ldri_resampler_run(r, &d, crop, p.rgb, p.pitch), LDR_OK);
            if (memcmp(p.block, expected.block, p.bytes) != 0) {
                describe(ldri_simd_name((ldri_simd)level), &d);
                fail();
            }
            assert_true(ldri_resampler_bytes(r) < ((size_t)64 << 20));
            ldri_resampler_close(r);
            free(p.block);
        }
        free(expected.block);
        free(between);
        free(crop);
    }
}

/* The bounds that the vector levels rest on. */
static void weights_stay_within_bounds(void **unused)
{
    static const uint32_t sides[] = {1,  2,  3,   4,   5,   7,   8,   15,   16,   31,
                                     64, 97, 128, 224, 256, 299, 384, 1000, 4096, 65535};
    static int32_t q[65536 + 8];
    for (int filter = LDR_BILINEAR; filter <= (int)LDR_BICUBIC; filter++)
        for (size_t a = 0; a < COUNT(sides); a++)
            for (size_t b = 0; b < COUNT(sides); b++) {
                uint32_t n = sides[a], m = sides[b];
                for (uint32_t xx = 0; xx < m; xx += 1 + (m > 300 ? m / 300 : 0)) {
                    uint32_t lo, hi;
                    ldri_window(n, m, filter, xx, &lo, &hi);
                    assert_true(lo < hi && hi <= n);
                    ldri_weights(n, m, filter, xx, lo, hi - lo, q);
                    int64_t sum = 0, size = 0;
                    for (uint32_t k = 0; k < hi - lo; k++) {
                        sum += q[k];
                        size += q[k] < 0 ? -(int64_t)q[k] : q[k];
                    }
                    assert_true(size < (int64_t)3 << 21);        /* 1.5 */
                    assert_true(llabs(sum - (1 << 22)) < 20000); /* about 1 */
                }
            }
}

static void tables_of_all_levels_are_equal(void **unused)
{
    for (uint32_t i = 0; i < 600; i++) {
        state = 91000 + i * 64;
        int filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR;
        ldri_axis axis = random_axis(draw(1, i % 5 ? 700 : 20000), draw(1, 300), 300, filter);
        ldri_table plain = {0}, other = {0};
        assert_int_equal(
            ldri_table_make(&plain, &ldri_resample_plain, &axis, filter, axis.first, axis.count, 1),
            LDR_OK);
        for (int level = 1; level <= (int)ldri_simd_best(); level++) {
            assert_int_equal(ldri_table_make(&other, ldri_simd_resample((ldri_simd)level), &axis,
                                             filter, axis.first, axis.count, 1),
                             LDR_OK);
            assert_int_equal(other.stride, plain.stride);
            size_t n = (size_t)plain.count * plain.stride;
            assert_memory_equal(other.q, plain.q, n * sizeof *plain.q);
        }
        ldri_table_free(&plain);
        ldri_table_free(&other);
    }
}

static void contradicting_descriptors_are_refused(void **unused)
{
    static const ldri_axis bad[] = {
        {.n = 0, .m = 8, .count = 8, .n_stored = 0},               /* no input */
        {.n = 20, .m = 8, .first = 1, .count = 8, .n_stored = 20}, /* past the line's end */
        {.n = 20, .m = 8, .count = 8, .dst = 1, .n_stored = 20},   /* past the picture's end */
        {.n = 20, .m = 8, .count = 8, .n_stored = 19},             /* the last pixel is missing */
        {.n = 20, .m = 8, .count = 8, .stored = 1, .n_stored = 19},
        {.n = 20, .m = 8, .count = 8, .stored = 1, .n_stored = 20}, /* past the input's end */
        {.n = 8, .m = 8, .count = 8, .n_stored = 7},
        {.n = 8, .m = 8, .count = 8, .stored = UINT32_MAX, .n_stored = 8},
        {.n = 8, .m = 8, .first = UINT32_MAX, .count = 8, .n_stored = 8},
    };
    uint8_t out[3 * 8 * 8], crop[20 * 64] = {0};
    for (int level = 0; level <= (int)ldri_simd_best(); level++) {
        ldri_resampler *r = ldri_resampler_open(ldri_simd_resample((ldri_simd)level), 8, 8);
        assert_non_null(r);
        for (size_t i = 0; i < 2 * COUNT(bad); i++) {
            ldri_descriptor d = {.filter = LDR_BILINEAR, .pitch = 64};
            d.x = d.y = whole_axis(20, 8);
            *(i % 2 ? &d.x : &d.y) = bad[i / 2];
            assert_int_equal(ldri_resampler_run(r, &d, crop, out, 24), LDR_E_INTERNAL);
        }
        ldri_resampler_close(r);
    }
}

static void ordinary_pictures_do_not_allocate(void **unused)
{
    for (int level = 0; level <= (int)ldri_simd_best(); level++) {
        ldri_resampler *r = ldri_resampler_open(ldri_simd_resample((ldri_simd)level), 64, 48);
        assert_non_null(r);
        size_t before = ldri_resampler_bytes(r);
        uint8_t *crop = calloc(8192, 16 * 1536); /* never written: one page stands for most */
        uint8_t *out = malloc(64 * 48 * 3);
        assert_true(crop && out);
        for (uint32_t i = 0; i < (level ? 12u : 4u); i++) {
            state = 400 + i * 64;
            ldri_descriptor d = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR};
            d.x = whole_axis(i == 0 ? 8192 : draw(1, i == 1 ? 300 : 4096), 64);
            d.y = whole_axis(i == 1 ? 8192 : draw(1, 300), 48);
            d.pitch = ldri_pitch(d.x.n);
            assert_int_equal(ldri_resampler_run(r, &d, crop, out, 64 * 3), LDR_OK);
            assert_int_equal(ldri_resampler_bytes(r), before);
        }
        free(crop);
        free(out);
        ldri_resampler_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree_on_random_descriptors),
        cmocka_unit_test(levels_agree_on_extreme_crops),
        cmocka_unit_test(levels_agree_at_the_ends_of_the_range),
        cmocka_unit_test(rest_of_the_final_picture_is_black),
        cmocka_unit_test(part_equals_the_whole_cut),
        cmocka_unit_test(long_sides_go_in_parts),
        cmocka_unit_test(weights_stay_within_bounds),
        cmocka_unit_test(tables_of_all_levels_are_equal),
        cmocka_unit_test(contradicting_descriptors_are_refused),
        cmocka_unit_test(ordinary_pictures_do_not_allocate),
    };
    print_message("SIMD levels: plain C to %s\n", ldri_simd_name(ldri_simd_best()));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
