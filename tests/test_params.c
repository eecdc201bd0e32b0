/* Drawn parameters and geometry.  Vectors were computed by a second program from the descriptions
 * alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/exact_math.h"
#include "loader/params.h"
#include "loader/rng.h"
#include "loader/window.h"

static ldr_options train(uint64_t seed)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.seed = seed;
    return o;
}

static ldr_options eval(uint32_t width, uint32_t height, double crop_pct)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_eval(&o, width);
    o.height = height;
    o.crop_pct = crop_pct;
    return o;
}

static uint64_t fnv(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> 8 * i & 255)) * 0x100000001b3u;
    return h;
}

static double frand(uint32_t i, double a, double b) /* fixed numbers for tests */
{
    return ldri_uniform(ldri_philox(i, 0, 0, 0, 2024, 1).w[0], a, b);
}

static void exp_and_log_are_accurate(void **state)
{
    double worst_exp = 0, worst_log = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        double x = frand(i, -20, 20), y = i % 2 ? frand(i, 0, 100) : frand(i, 0.5, 2);
        double e = fabs(ldri_exp(x) / exp(x) - 1.0);
        if (e > worst_exp) worst_exp = e;
        if (y <= 0) continue;
        double l = fabs(ldri_log(y) - log(y));
        if (l > worst_log) worst_log = l;
    }
    if (worst_exp >= 3e-16 * 1.5) fail_msg("exp: relative error %g", worst_exp); /* + libm's own */
    if (worst_log >= 9e-16) fail_msg("log: absolute error %g", worst_log);
    assert_true(ldri_exp(0.0) == 1.0 && ldri_log(1.0) == 0.0);
    assert_true(ldri_log(2.0) == 0.69314718055994531);
    assert_true(ldri_exp(-1000.0) == 0.0 && isinf(ldri_exp(1000.0)) &&
                isnan(ldri_exp((double)NAN)));
}

static void boxes_are_the_recorded_ones(void **state)
{
    const struct {
        uint64_t seed, epoch, sample;
        uint32_t repeat, width, height;
        ldri_box box;
        int attempt;
    } v[] = {
        {42, 3, 7, 0, 500, 375, {8, 115, 272, 307}, 0},
        {42, 3, 8, 0, 500, 375, {20, 156, 240, 274}, 1},
        {42, 3, 9, 0, 500, 375, {25, 24, 349, 292}, 0},
        {42, 3, 10, 0, 500, 375, {38, 26, 309, 398}, 0},
        {42, 3, 11, 0, 500, 375, {61, 157, 242, 260}, 0},
        {42, 3, 7, 0, 1000, 40, {0, 473, 40, 53}, 10},
        {42, 3, 7, 0, 40, 1000, {473, 0, 53, 40}, 10},
        {0x0123456789abcdefu, 1, 0x100000005u, 0, 4032, 3024, {416, 387, 2572, 2206}, 1},
        {42, 3, 7, LDRI_REPEAT_REPLACEMENT, 500, 375, {87, 48, 244, 204}, 1},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ldr_options o = train(v[i].seed);
        ldri_params p;
        ldri_params_draw(&o, v[i].epoch, v[i].sample, v[i].repeat, &p);
        ldri_box box;
        assert_int_equal(ldri_params_box(&o, &p, v[i].width, v[i].height, &box), v[i].attempt);
        assert_int_equal(box.top, v[i].box.top);
        assert_int_equal(box.left, v[i].box.left);
        assert_int_equal(box.height, v[i].box.height);
        assert_int_equal(box.width, v[i].box.width);
    }
    ldr_options o = train(42);
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t s = 0; s < 1000; s++) {
        ldri_params p;
        ldri_box b;
        ldri_params_draw(&o, 3, s, 0, &p);
        int attempt = ldri_params_box(&o, &p, 500, 375, &b);
        h = fnv(fnv(fnv(fnv(fnv(h, b.top), b.left), b.height), b.width), (uint64_t)attempt);
    }
    assert_int_equal(h, 0x350a42ccb7e3c45au);
}

static void flips_and_filter_are_the_recorded_ones(void **state)
{
    ldr_options o = train(42);
    o.filter = LDR_RANDOM_FILTER;
    o.vflip = 0.25f;
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t s = 0; s < 1000; s++) {
        ldri_params p;
        ldri_params_draw(&o, 3, s, 0, &p);
        h = fnv(fnv(fnv(h, p.filter), p.hflip), p.vflip);
    }
    assert_int_equal(h, 0x4bda42025ceac645u);
    ldri_params p;
    ldri_params_draw(&o, 3, 11, LDRI_REPEAT_REPLACEMENT, &p);
    assert_int_equal(p.filter, LDR_BILINEAR);
    assert_int_equal(p.hflip, 1);
    assert_int_equal(p.vflip, 1);
}

static void flips_and_filter_have_their_shares(void **state)
{
    ldr_options o = train(1);
    o.filter = LDR_RANDOM_FILTER;
    o.hflip = 0.3f;
    o.vflip = 0.1f;
    double bicubic = 0, h = 0, v = 0, both = 0;
    for (uint64_t s = 0; s < 100000; s++) {
        ldri_params p;
        ldri_params_draw(&o, 0, s, 0, &p);
        bicubic += p.filter == LDR_BICUBIC;
        h += p.hflip;
        v += p.vflip;
        both += p.hflip && p.vflip;
    }
    /* Deviations: 0.0016, 0.0015, 0.001, 0.0006; five of them. */
    assert_true(fabs(bicubic / 1e5 - 0.5) < 0.008);
    assert_true(fabs(h / 1e5 - 0.3) < 0.0075);
    assert_true(fabs(v / 1e5 - 0.1) < 0.005);
    assert_true(fabs(both / 1e5 - 0.03) < 0.003);
    o.hflip = 1.0f;
    o.vflip = 0.0f;
    o.filter = LDR_BICUBIC;
    for (uint64_t s = 0; s < 1000; s++) {
        ldri_params p;
        ldri_params_draw(&o, 0, s, 0, &p);
        assert_true(p.hflip == 1 && p.vflip == 0 && p.filter == LDR_BICUBIC);
    }
}

/* The references are means of a million draws, good to 0.001; with 100,000 draws here the largest
 * deviation of a mean is 0.0015 (shares of accepted), so 0.008 is five of them. */
static void boxes_have_the_statistics_of_the_algorithm(void **state)
{
    const struct {
        uint32_t width, height;
        double area, tall, log_ratio, first, fallback;
    } v[] = {
        {500, 375, 0.433, 0.721, 0.031, 0.742, 0},
        {375, 375, 0.479, 0.670, 0.000, 0.861, 0},
        {375, 500, 0.433, 0.564, -0.031, 0.741, 0},
        {1000, 300, 0.210, 0.795, 0.052, 0.244, 0.060},
    };
    const double tolerance = 0.008;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ldr_options o = train(2025);
        double area = 0, tall = 0, log_ratio = 0, first = 0, fallback = 0, top = 0, left = 0;
        const double n = 100000;
        for (uint64_t s = 0; s < 100000; s++) {
            ldri_params p;
            ldri_box b;
            ldri_params_draw(&o, 0, s, 0, &p);
            int attempt = ldri_params_box(&o, &p, v[i].width, v[i].height, &b);
            assert_true(b.width >= 1 && b.height >= 1 && b.left + b.width <= v[i].width &&
                        b.top + b.height <= v[i].height);
            area += (double)b.width * b.height / ((double)v[i].width * v[i].height);
            tall += (double)b.height / v[i].height;
            log_ratio += log((double)b.width / b.height);
            first += attempt == 0;
            fallback += attempt == 10;
            top += (b.top + 0.5) / (v[i].height - b.height + 1);
            left += (b.left + 0.5) / (v[i].width - b.width + 1);
        }
        if (fabs(area / n - v[i].area) > tolerance || fabs(tall / n - v[i].tall) > tolerance ||
            fabs(log_ratio / n - v[i].log_ratio) > tolerance ||
            fabs(first / n - v[i].first) > tolerance ||
            fabs(fallback / n - v[i].fallback) > tolerance) {
            fail_msg("%ux%u seed 2025: area %.4f height %.4f log ratio %+.4f first %.4f fallback "
                     "%.5f",
                     v[i].width, v[i].height, area / n, tall / n, log_ratio / n, first / n,
                     fallback / n);
        }
        assert_true(fabs(top / n - 0.5) < tolerance && fabs(left / n - 0.5) < tolerance);
    }
}

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(ldri_words));
}

static void no_two_samples_share_their_draws(void **state)
{
    enum { N = 50000 };
    ldri_words *all = malloc(2 * N * sizeof *all);
    assert_non_null(all);
    int same_box = 0;
    ldr_options o = train(3);
    for (uint64_t s = 0; s < N; s++) {
        ldri_box box[2];
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            all[2 * s + epoch] = ldri_draw(3, epoch, s, LDRI_DOMAIN_SAMPLE, 0, 0);
            ldri_params p;
            ldri_params_draw(&o, epoch, s, 0, &p);
            ldri_params_box(&o, &p, 500, 375, &box[epoch]);
        }
        same_box += memcmp(&box[0], &box[1], sizeof box[0]) == 0;
    }
    qsort(all, 2 * N, sizeof *all, by_value);
    for (int i = 1; i < 2 * N; i++) assert_true(by_value(&all[i - 1], &all[i]) != 0);
    assert_in_range(same_box, 0, 5); /* by chance: one in a million */
    free(all);
}

static void odd_ratios_and_pictures_give_boxes_inside(void **state)
{
    const uint32_t sides[] = {1, 2, 3, 7, 100, 65500};
    const float ratios[][2] = {{0.75f, 4.0f / 3.0f}, {4.0f, 5.0f}, {0.1f, 0.2f}, {1e-20f, 1e20f}};
    const float scales[][2] = {{0.08f, 1.0f}, {1e-30f, 1e-20f}, {1.0f, 1.0f}, {50.0f, 1e30f}};
    for (size_t r = 0; r < 4; r++) {
        for (size_t s = 0; s < 4; s++) {
            ldr_options o = train(11);
            memcpy(o.ratio, ratios[r], sizeof o.ratio);
            memcpy(o.scale, scales[s], sizeof o.scale);
            for (size_t x = 0; x < 6; x++) {
                for (size_t y = 0; y < 6; y++) {
                    for (uint64_t sample = 0; sample < 20; sample++) {
                        ldri_params p;
                        ldri_box b;
                        ldri_params_draw(&o, 0, sample, 0, &p);
                        ldri_params_box(&o, &p, sides[x], sides[y], &b);
                        assert_true(b.width >= 1 && b.height >= 1);
                        assert_true(b.left + b.width <= sides[x] && b.top + b.height <= sides[y]);
                    }
                }
            }
        }
    }
}

static void same_axis(const ldri_axis *a, ldri_axis want)
{
    assert_int_equal(a->n, want.n);
    assert_int_equal(a->m, want.m);
    assert_int_equal(a->first, want.first);
    assert_int_equal(a->count, want.count);
    assert_int_equal(a->dst, want.dst);
    assert_int_equal(a->stored, want.stored);
    assert_int_equal(a->n_stored, want.n_stored);
}

static void describe(const ldr_options *o, uint32_t width, uint32_t height, ldri_descriptor *d,
                     ldri_box *region)
{
    ldri_params p;
    ldri_params_draw(o, 0, 0, 0, &p);
    memset(d, 0xee, sizeof *d);
    ldri_params_describe(o, &p, width, height, d, region);
    assert_true(d->pitch == 0xeeeeeeeeu && d->kind == 0xee);
    assert_int_equal(d->filter, p.filter);
    assert_int_equal(region->width, d->x.n_stored);
    assert_int_equal(region->height, d->y.n_stored);
    assert_true(region->left + region->width <= width && region->top + region->height <= height);
}

static void train_view_is_described(void **state)
{
    ldr_options o = train(42);
    o.width = 200;
    ldri_params p;
    ldri_descriptor d;
    ldri_box region;
    ldri_params_draw(&o, 3, 7, 0, &p);
    ldri_params_describe(&o, &p, 500, 375, &d, &region);
    same_axis(&d.x, (ldri_axis){307, 200, 0, 200, 0, 0, 307});
    same_axis(&d.y, (ldri_axis){272, 224, 0, 224, 0, 0, 272});
    assert_true(region.top == 8 && region.left == 115 && region.height == 272 &&
                region.width == 307);
    assert_true(d.filter == LDR_BILINEAR && d.hflip == p.hflip && d.vflip == 0);
}

static void eval_views_are_described(void **state)
{
    ldri_descriptor d;
    ldri_box region;
    /* 500x375 -> 341x256, half to even 58.5 -> 58; bicubic windows by hand. */
    ldr_options o = eval(224, 224, 0.875);
    describe(&o, 500, 375, &d, &region);
    same_axis(&d.x, (ldri_axis){500, 341, 58, 224, 0, 83, 333});
    same_axis(&d.y, (ldri_axis){375, 256, 16, 224, 0, 21, 333});
    assert_true(region.left == 83 && region.top == 21);
    describe(&o, 375, 500, &d, &region); /* the same, turned */
    same_axis(&d.y, (ldri_axis){500, 341, 58, 224, 0, 83, 333});
    same_axis(&d.x, (ldri_axis){375, 256, 16, 224, 0, 21, 333});
    o.filter = LDR_BILINEAR; /* a narrower window: 24.17 - 1.46, 350.83 + 1.46 */
    describe(&o, 500, 375, &d, &region);
    same_axis(&d.y, (ldri_axis){375, 256, 16, 224, 0, 23, 329});

    /* Truncated, not rounded: 256 * 1024 / 683 = 383.8. */
    o = eval(224, 224, 0.875);
    describe(&o, 1024, 683, &d, &region);
    assert_int_equal(d.x.m, 383);
    assert_int_equal(d.x.first, 80); /* 79.5 */
    describe(&o, 683, 1024, &d, &region);
    assert_int_equal(d.y.m, 383);
    assert_int_equal(d.x.m, 256);
    /* The shorter side has its size: nothing is resampled; 16.5 -> 16, 17.5 -> 18. */
    describe(&o, 256, 257, &d, &region);
    same_axis(&d.x, (ldri_axis){256, 256, 16, 224, 0, 16, 224});
    same_axis(&d.y, (ldri_axis){257, 257, 16, 224, 0, 16, 224});
    describe(&o, 256, 259, &d, &region);
    same_axis(&d.y, (ldri_axis){259, 259, 18, 224, 0, 18, 224});
    /* One pixel. */
    describe(&o, 1, 1, &d, &region);
    same_axis(&d.x, (ldri_axis){1, 256, 16, 224, 0, 0, 1});
    /* crop_pct is a double: 256 / 0.8 is 320, not 319. */
    o = eval(256, 256, 0.8);
    describe(&o, 1000, 1000, &d, &region);
    assert_int_equal(d.x.m, 320);
    /* Not square: 365x256 is covered, 500 / 365 < 375 / 256; 375 / (500 / 365) = 273.75. */
    o = eval(320, 224, 0.875);
    describe(&o, 500, 375, &d, &region);
    assert_int_equal(d.x.m, 365);
    assert_int_equal(d.y.m, 274);
    assert_int_equal(d.x.first, 22); /* 22.5 */
    assert_int_equal(d.y.first, 25);
    assert_int_equal(d.x.count, 320);
    assert_int_equal(d.y.count, 224);
    assert_int_equal(d.filter, LDR_BICUBIC);

    o = eval(224, 224, 0.875);
    o.view = LDR_VIEW_SQUASH;
    describe(&o, 500, 375, &d, &region);
    assert_int_equal(d.x.m, 256);
    assert_int_equal(d.y.m, 256);
    assert_int_equal(d.x.first, 16);
    o.crop_pct = 1.0; /* the whole picture */
    describe(&o, 500, 375, &d, &region);
    same_axis(&d.x, (ldri_axis){500, 224, 0, 224, 0, 0, 500});
    same_axis(&d.y, (ldri_axis){375, 224, 0, 224, 0, 0, 375});

    /* A crop larger than the resized picture (beyond what options allow today) has a black border,
     * the odd pixel behind. */
    o = eval(224, 224, 2.0);
    describe(&o, 500, 375, &d, &region);
    same_axis(&d.x, (ldri_axis){500, 149, 0, 149, 37, 0, 500});
    same_axis(&d.y, (ldri_axis){375, 112, 0, 112, 56, 0, 375});
    /* A line whose resized length passes 32 bits. */
    o = eval(224, 224, 0.875);
    describe(&o, 100000000, 1, &d, &region);
    assert_int_equal(d.x.m, 2147483647);
    assert_true(d.x.first == (2147483647u - 224) / 2 || d.x.first == (2147483647u - 224) / 2 + 1);
    assert_true(region.width >= 1 && region.width < 64);
    o = eval(224, 224, 1e-300);
    describe(&o, 10, 10, &d, &region);
    assert_int_equal(d.x.m, 2147483647);
}

static void windows_hold_what_the_filter_reaches(void **state)
{
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t n = (uint32_t)frand(4 * i, 1, i % 3 ? 60 : 3000);
        uint32_t m = (uint32_t)frand(4 * i + 1, 1, i % 2 ? 60 : 3000);
        int filter = i & 1 ? LDR_BICUBIC : LDR_BILINEAR;
        double scale = (double)n / m, reach = ldri_filter_radius(filter) * (scale > 1 ? scale : 1);
        uint32_t last_low = 0, last_high = 0, low = 0, high = 0;
        for (uint32_t x = 0; x < m; x++) {
            ldri_window(n, m, filter, x, &low, &high);
            double center = (x + 0.5) * scale;
            if (low >= high || high > n || low < last_low || high < last_high ||
                (x == 0 && low != 0)) {
                fail_msg("%u -> %u, pixel %u: [%u, %u)", n, m, x, low, high);
            }
            /* The pixels just outside do not weigh; the outer ones inside are at most half a pixel
             * beyond. */
            assert_true(low == 0 || center - (low - 0.5) >= reach - 1e-6);
            assert_true(high == n || (high + 0.5) - center >= reach - 1e-6);
            assert_true(low == 0 || center - (low + 0.5) <= reach + 1e-6);
            assert_true(high == n || (high - 0.5) - center <= reach + 1e-6);
            last_low = low;
            last_high = high;
        }
        assert_int_equal(high, n);
    }
}

/* The stored pixels are exactly the union of the wanted outputs' windows. */
static void stored_pixels_are_those_that_are_read(void **state)
{
    for (uint32_t i = 0; i < 2000; i++) {
        ldr_options o = eval((uint32_t)frand(8 * i, 1, 300), (uint32_t)frand(8 * i + 1, 1, 300),
                             frand(8 * i + 2, 0.3, 1));
        o.view = i % 3 ? LDR_VIEW_EVAL : LDR_VIEW_SQUASH;
        o.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR;
        if (i % 5 == 0) o.height = o.width;
        ldri_descriptor d;
        ldri_box region;
        describe(&o, (uint32_t)frand(8 * i + 3, 1, 900), (uint32_t)frand(8 * i + 4, 1, 900), &d,
                 &region);
        const ldri_axis *axes[2] = {&d.x, &d.y};
        for (int k = 0; k < 2; k++) {
            const ldri_axis *a = axes[k];
            assert_true(a->count >= 1 && a->first + a->count <= a->m);
            assert_int_equal(a->count, k ? o.height : o.width);
            assert_int_equal(a->dst, 0);
            uint32_t low = UINT32_MAX, high = 0;
            for (uint32_t x = a->first; x < a->first + a->count; x++) {
                uint32_t from = x, to = x + 1;
                if (a->n != a->m) ldri_window(a->n, a->m, d.filter, x, &from, &to);
                if (from < low) low = from;
                if (to > high) high = to;
            }
            if (a->stored != low || a->n_stored != high - low) {
                fail_msg("case %u, axis %d: stored %u+%u, read [%u, %u)", i, k, a->stored,
                         a->n_stored, low, high);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_are_accurate),
        cmocka_unit_test(boxes_are_the_recorded_ones),
        cmocka_unit_test(flips_and_filter_are_the_recorded_ones),
        cmocka_unit_test(flips_and_filter_have_their_shares),
        cmocka_unit_test(boxes_have_the_statistics_of_the_algorithm),
        cmocka_unit_test(no_two_samples_share_their_draws),
        cmocka_unit_test(odd_ratios_and_pictures_give_boxes_inside),
        cmocka_unit_test(train_view_is_described),
        cmocka_unit_test(eval_views_are_described),
        cmocka_unit_test(windows_hold_what_the_filter_reaches),
        cmocka_unit_test(stored_pixels_are_those_that_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
