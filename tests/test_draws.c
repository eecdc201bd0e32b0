/* What is drawn for colour, erasing and mixing.  Vectors were computed by a second program, in
 * Python, from the descriptions alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/backend.h"
#include "loader/params.h"
#include "loader/params_mix.h"
#include "loader/rng.h"

#define FNV_START 0xcbf29ce484222325u

static uint64_t fnv(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> 8 * i & 255)) * 0x100000001b3u;
    return h;
}

static uint32_t bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static ldr_options train(uint64_t seed)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.seed = seed;
    return o;
}

static ldri_params draw(const ldr_options *o, uint64_t epoch, uint64_t sample)
{
    ldri_params p;
    ldri_params_draw(o, epoch, sample, 0, &p);
    return p;
}

/* --- colour ---------------------------------------------------------------------------------- */

static ldr_options colourful(void)
{
    ldr_options o = train(42);
    o.brightness = 0.4f;
    o.contrast = 0.3f;
    o.saturation = 1.2f;
    o.hue = 0.1f;
    o.jitter_prob = 0.8f;
    o.grayscale_prob = 0.2f;
    return o;
}

static void colour_is_the_recorded_one(void **state)
{
    ldr_options o = colourful();
    uint64_t h = FNV_START;
    for (uint64_t s = 0; s < 1000; s++) {
        ldri_params p = draw(&o, 3, s);
        h = fnv(fnv(h, p.jitter), p.greyscale);
        if (!p.jitter) continue;
        for (int i = 0; i < 4; i++) h = fnv(h, p.order[i]);
        for (int i = 0; i < 3; i++) h = fnv(h, bits(p.factor[i]));
        h = fnv(h, p.hue);
    }
    assert_int_equal(h, 0xae40ec6bc361a157u);
    ldri_params p = draw(&o, 3, 7);
    const uint8_t order[4] = {LDRI_SATURATION, LDRI_CONTRAST, LDRI_BRIGHTNESS, LDRI_HUE};
    assert_memory_equal(p.order, order, 4);
    assert_true(p.jitter == 15 && p.hue == 24 && !p.greyscale);
    assert_true(p.factor[0] == 1.3284000158309937f && p.factor[1] == 1.1364508867263794f);
    assert_true(p.factor[2] == 1.4031693935394287f && p.hue_turns == 0.09593870526647127);
    ldri_params_draw(&o, 3, 7, LDRI_REPEAT_REPLACEMENT, &p);
    assert_true(p.hue == 17 && p.factor[0] == 0.9445241093635559f && p.order[0] == 1);
}

static void colour_is_off_without_its_options(void **state)
{
    ldr_options o = train(42);
    for (uint64_t s = 0; s < 100; s++) {
        ldri_params p = draw(&o, 0, s);
        assert_true(p.jitter == 0 && p.greyscale == 0 && p.n_erase == 0);
    }
    o.contrast = 0.4f;
    for (uint64_t s = 0; s < 100; s++) assert_int_equal(draw(&o, 0, s).jitter, 1 << LDRI_CONTRAST);
    /* What one option is changes nothing that is drawn for another. */
    ldr_options all = colourful();
    all.contrast = 0.4f;
    all.jitter_prob = 1.0f;
    for (uint64_t s = 0; s < 100; s++) {
        ldri_params a = draw(&o, 5, s), b = draw(&all, 5, s);
        assert_true(a.factor[LDRI_CONTRAST] == b.factor[LDRI_CONTRAST]);
        assert_memory_equal(a.order, b.order, 4);
        assert_int_equal(a.hflip, b.hflip);
    }
    o = colourful();
    o.jitter_prob = 0.0f;
    for (uint64_t s = 0; s < 100; s++) assert_int_equal(draw(&o, 0, s).jitter, 0);
}

static void colour_has_its_distribution(void **state)
{
    ldr_options o = colourful();
    enum { N = 48000 };
    double on = 0, grey = 0, both = 0, sum[4] = {0}, low[4], high[4];
    int orders[256] = {0}, n_orders = 0;
    for (int i = 0; i < 4; i++) {
        low[i] = 1e9;
        high[i] = -1e9;
    }
    for (uint64_t s = 0; s < N; s++) {
        ldri_params p = draw(&o, 1, s);
        on += p.jitter == 15;
        grey += p.greyscale;
        both += p.jitter == 15 && p.greyscale;
        if (!p.jitter) continue;
        assert_int_equal(p.jitter, 15);
        const double v[4] = {(double)p.factor[0], (double)p.factor[1], (double)p.factor[2],
                             p.hue_turns};
        for (int i = 0; i < 4; i++) {
            sum[i] += v[i];
            low[i] = fmin(low[i], v[i]);
            high[i] = fmax(high[i], v[i]);
        }
        orders[p.order[0] << 6 | p.order[1] << 4 | p.order[2] << 2 | p.order[3]]++;
    }
    /* Five standard deviations each. */
    assert_true(fabs(on / N - 0.8) < 0.0092);
    assert_true(fabs(grey / N - 0.2) < 0.0092);
    assert_true(fabs(both / N - 0.16) < 0.0085);
    const double from[4] = {0.6, 0.7, 0.0, -0.1}, to[4] = {1.4, 1.3, 2.2, 0.1};
    for (int i = 0; i < 4; i++) {
        double width = to[i] - from[i];
        assert_true(low[i] >= from[i] - 1e-7 && low[i] < from[i] + width * 0.001);
        assert_true(high[i] <= to[i] + 1e-7 && high[i] > to[i] - width * 0.001);
        assert_true(fabs(sum[i] / on - (from[i] + to[i]) / 2) < 5 * width / sqrt(12 * on));
    }
    for (int i = 0; i < 256; i++) {
        if (orders[i] == 0) continue;
        n_orders++;
        assert_true(fabs(orders[i] - on / 24) < 5 * sqrt(on / 24));
    }
    assert_int_equal(n_orders, 24);
}

/* --- erasing --------------------------------------------------------------------------------- */

static void boxes_are_the_recorded_ones(void **state)
{
    ldr_options o = train(42);
    o.height = 160;
    o.erase_prob = 0.7f;
    o.erase_count[1] = 8;
    o.erase_mode = LDR_ERASE_RAND;
    uint64_t h = FNV_START, n = 0;
    for (uint64_t s = 0; s < 1000; s++) {
        ldri_params p = draw(&o, 3, s);
        h = fnv(h, p.n_erase);
        n += p.n_erase;
        for (uint32_t i = 0; i < p.n_erase; i++) {
            const ldri_erase_box *b = &p.erase[i];
            h = fnv(fnv(fnv(fnv(h, b->top), b->left), b->height), b->width);
            for (int c = 0; c < 3; c++) h = fnv(h, bits(b->z[c]));
        }
    }
    assert_int_equal(n, 3043);
    assert_int_equal(h, 0x800f659724e211ddu);
    o = train(42);
    o.erase_prob = 0.25f;
    for (uint64_t s = 0; s < 6; s++) assert_int_equal(draw(&o, 3, s).n_erase, s == 3);
    ldri_erase_box b = draw(&o, 3, 3).erase[0];
    assert_true(b.top == 0 && b.left == 1 && b.height == 160 && b.width == 104);
    assert_true(b.z[0] == 0.0f && b.z[2] == 0.0f);
}

static void boxes_stay_inside_and_have_their_shares(void **state)
{
    ldr_options o = train(9);
    o.width = 96;
    o.height = 120;
    o.erase_prob = 0.25f;
    enum { N = 40000 };
    double erased = 0, area = 0;
    for (uint64_t s = 0; s < N; s++) {
        ldri_params p = draw(&o, 0, s);
        if (!p.n_erase) continue;
        assert_int_equal(p.n_erase, 1);
        const ldri_erase_box *b = &p.erase[0];
        assert_true(b->height < 120 && b->width < 96);
        assert_true(b->top + b->height <= 120 && b->left + b->width <= 96);
        double share = (double)b->height * b->width / (96 * 120);
        double aspect = (double)b->height / b->width;
        assert_true(share > 0.017 && share < 0.345 && aspect > 0.27 && aspect < 3.8);
        erased++;
        area += share;
    }
    assert_true(fabs(erased / N - 0.25) < 0.011);
    assert_true(fabs(area / erased - 0.1765) < 0.006); /* few are refused */
}

/* Each place has its own words, so one count's boxes begin with another's gates. */
static void counts_are_drawn_and_share_the_area(void **state)
{
    ldr_options o = train(5);
    o.erase_prob = 1.0f;
    o.erase_count[0] = 2;
    o.erase_count[1] = 4;
    int seen[9] = {0};
    for (uint64_t s = 0; s < 3000; s++) {
        ldri_params p = draw(&o, 0, s);
        double area = 0;
        for (uint32_t i = 0; i < p.n_erase; i++)
            area += (double)p.erase[i].height * p.erase[i].width / (224 * 224);
        assert_true(area < 0.345);
        seen[p.n_erase]++;
    }
    for (int n = 0; n < 9; n++) {
        if (n < 2 || n > 4)
            assert_true(seen[n] < 5); /* a box that was refused ten times */
        else
            assert_true(abs(seen[n] - 1000) < 130);
    }
    /* A box as high or as wide as the picture is refused, and drawn again. */
    o.erase_count[0] = o.erase_count[1] = 1;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t n_boxes = 0, highest = 0, widest = 0;
        o.width = k ? 10 : 40;
        o.height = k ? 40 : 10;
        for (uint64_t s = 0; s < 500; s++) {
            ldri_params p = draw(&o, 0, s);
            n_boxes += p.n_erase;
            if (!p.n_erase) continue;
            if (p.erase[0].height > highest) highest = p.erase[0].height;
            if (p.erase[0].width > widest) widest = p.erase[0].width;
        }
        assert_true(n_boxes > 480);
        assert_int_equal(k ? widest : highest, 9);
    }
    /* Nothing fits. */
    o.width = 1;
    o.height = 50;
    for (uint64_t s = 0; s < 100; s++) {
        ldri_params p = draw(&o, 0, s);
        assert_int_equal(p.n_erase, 0);
    }
}

/* --- N(0,1) ---------------------------------------------------------------------------------- */

static void normal_numbers_are_the_recorded_ones(void **state)
{
    const uint32_t v[][2] = {{0, 0},
                             {1, 0x30206c9c},
                             {0x7fffffff, 0x407310a0},
                             {0x80000000, 0x80000000},
                             {0xffffffff, 0xc07310a0},
                             {0x12345678, 0x3e37812d},
                             {0xdeadbeef, 0xbf9014a1}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        assert_int_equal(bits(ldri_normal(v[i][0], ldri_normal_quantiles)), v[i][1]);
}

/* The table against the C library's error function, and the moments over an even grid of words. */
static void normal_numbers_are_normal(void **state)
{
    for (int c = 0; c < 1024; c++) {
        double q = (double)ldri_normal_quantiles[c];
        double p = 0.5 * erfc(-q / sqrt(2.0));
        double density = exp(-q * q / 2) / sqrt(2 * 3.141592653589793);
        /* half a unit in the last place of q, seen as probability */
        double slack = q * 0x1p-24 * density + 3e-16;
        if (fabs(p - (0.5 + c / 2048.0)) > slack) fail_msg("entry %d is off", c);
    }
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, largest = 0;
    enum { BITS = 20 };
    for (uint32_t i = 0; i < 1u << BITS; i++) {
        double z =
            (double)ldri_normal((i << (32 - BITS)) + (1u << (31 - BITS)), ldri_normal_quantiles);
        m1 += z;
        m2 += z * z;
        m3 += z * z * z;
        m4 += z * z * z * z;
        largest = fmax(largest, fabs(z));
    }
    const double n = 1u << BITS;
    assert_true(fabs(m1 / n) < 1e-9 && fabs(m3 / n) < 1e-9);
    assert_true(fabs(m2 / n - 1.0) < 1e-5);
    assert_true(fabs(m4 / n - 2.997) < 1e-3);
    assert_true(largest > 3.79 && largest < 3.798);
}

/* --- mixing ---------------------------------------------------------------------------------- */

static void mixes_are_the_recorded_ones(void **state)
{
    const float alphas[4][2] = {{0.8f, 1.0f}, {0.2f, 0.0f}, {0.0f, 2.5f}, {1.0f, 1.0f}};
    ldr_options o = train(42);
    o.height = 160;
    o.rank = 5;
    o.world = 6;
    o.mix_prob = 0.9f;
    uint64_t h = FNV_START;
    for (uint64_t batch = 0; batch < 300; batch++) {
        for (uint32_t i = 0; i <= 6; i += 3) {
            for (o.mix_pair = 0; o.mix_pair < 2; o.mix_pair++) {
                for (int k = 0; k < 4; k++) {
                    o.mixup_alpha = alphas[k][0];
                    o.cutmix_alpha = alphas[k][1];
                    ldri_mix_params m;
                    ldri_mix_draw(&o, 3, batch, 7, i, &m);
                    h = fnv(fnv(fnv(h, m.mix), m.partner), bits(m.label_weight));
                    if (m.mix == LDRI_MIXUP) h = fnv(h, bits(m.rest));
                    if (m.mix == LDRI_CUTMIX)
                        h = fnv(fnv(fnv(fnv(h, m.top), m.left), m.bottom), m.right);
                }
            }
        }
    }
    assert_int_equal(h, 0xa9ab61af6f99896eu);
    o = train(42);
    o.mixup_alpha = 0.8f;
    o.cutmix_alpha = 1.0f;
    ldri_mix_params m;
    ldri_mix_draw(&o, 3, 0, 64, 1, &m);
    assert_true(m.mix == LDRI_MIXUP && m.partner == 62 && m.lambda == 0.17095787823200226f);
    assert_true(m.rest == 0.8290421366691589f && m.label_weight == m.lambda);
    ldri_mix_draw(&o, 3, 3, 64, 1, &m);
    assert_true(m.mix == LDRI_CUTMIX && m.label_weight == 0.9184470772743225f);
    assert_true(m.top == 106 && m.left == 162 && m.bottom == 172 && m.right == 224);
    o.rank = 2;
    assert_true(ldri_batch_seed(&o, 3, 5) == 0xa345086b21e8e944u);
}

static void partners_have_the_same_draw(void **state)
{
    ldr_options o = train(3);
    o.cutmix_alpha = 1.0f;
    for (o.mix_pair = 0; o.mix_pair < 2; o.mix_pair++) {
        for (uint32_t count = 1; count < 9; count++) {
            ldri_mix_params first;
            int differ = 0;
            ldri_mix_draw(&o, 0, 7, count, 0, &first);
            for (uint32_t i = 0; i < count; i++) {
                ldri_mix_params a, b;
                ldri_mix_draw(&o, 0, 7, count, i, &a);
                assert_int_equal(a.partner, count - 1 - i);
                ldri_mix_draw(&o, 0, 7, count, a.partner, &b);
                assert_int_equal(b.partner, i);
                b.partner = a.partner;
                assert_memory_equal(&a, &b, sizeof a);
                b.partner = first.partner;
                differ += memcmp(&b, &first, sizeof b) != 0;
            }
            assert_int_equal(differ > 0, o.mix_pair && count > 2);
        }
    }
}

static void weights_are_beta(void **state)
{
    const float alphas[] = {0.05f, 0.2f, 0.8f, 1.0f, 2.0f, 8.0f};
    enum { N = 20000 };
    for (size_t k = 0; k < sizeof alphas / sizeof *alphas; k++) {
        ldr_options o = train(11);
        o.mixup_alpha = alphas[k];
        double sum = 0, squares = 0;
        for (uint64_t batch = 0; batch < N; batch++) {
            ldri_mix_params m;
            ldri_mix_draw(&o, 0, batch, 64, 0, &m);
            assert_int_equal(m.mix, LDRI_MIXUP);
            assert_true(m.lambda >= 0.0f && m.lambda <= 1.0f);
            assert_true(fabsf(m.lambda + m.rest - 1.0f) < 1e-7f);
            double d = (double)m.lambda - 0.5;
            sum += d;
            squares += d * d;
        }
        double variance = 1 / (4 * (2 * (double)alphas[k] + 1));
        assert_true(fabs(sum / N) < 5 * sqrt(variance / N));
        if (fabs(squares / N / variance - 1) > 0.05)
            fail_msg("alpha %g: variance %g, not %g", (double)alphas[k], squares / N, variance);
    }
}

static void gates_choose_between_mixes(void **state)
{
    ldr_options o = train(12);
    o.mixup_alpha = 1.0f;
    o.cutmix_alpha = 1.0f;
    o.mix_prob = 0.6f;
    o.mix_switch_prob = 0.25f;
    double n[3] = {0};
    for (uint64_t batch = 0; batch < 20000; batch++) {
        ldri_mix_params m;
        ldri_mix_draw(&o, 0, batch, 8, 2, &m);
        n[m.mix]++;
        if (m.mix == LDRI_MIX_NONE) assert_true(m.label_weight == 1.0f && m.partner == 5);
        if (m.mix != LDRI_CUTMIX) continue;
        assert_true(m.top <= m.bottom && m.bottom <= 224 && m.left <= m.right && m.right <= 224);
        double part = (double)(m.bottom - m.top) * (m.right - m.left) / (224 * 224);
        assert_true(m.label_weight == (float)(1.0 - part));
    }
    assert_true(fabs(n[LDRI_MIX_NONE] / 20000 - 0.4) < 0.018);
    assert_true(fabs(n[LDRI_CUTMIX] / 20000 - 0.15) < 0.013);
    ldri_mix_params m;
    o.mixup_alpha = o.cutmix_alpha = 0.0f;
    ldri_mix_draw(&o, 0, 1, 8, 2, &m);
    assert_int_equal(m.mix, LDRI_MIX_NONE);
}

/* --- descriptors ----------------------------------------------------------------------------- */

static void descriptors_hold_what_was_drawn(void **state)
{
    ldr_options o = colourful();
    o.jitter_prob = 1.0f;
    o.erase_prob = 1.0f;
    o.erase_count[1] = 3;
    o.mixup_alpha = 1.0f;
    ldri_params p;
    ldri_params_draw(&o, 6, 0x123456789u, 9, &p);
    ldri_descriptor d;
    ldri_box region;
    memset(&d, 0xEE, sizeof d);
    ldri_params_describe(&o, &p, 500, 375, &d, &region);
    assert_memory_equal(d.factor, p.factor, sizeof d.factor);
    assert_memory_equal(d.order, p.order, sizeof d.order);
    assert_true(d.jitter == 15 && d.hue == p.hue && d.greyscale == p.greyscale);
    assert_true(d.n_erase == p.n_erase && d.n_erase > 0);
    assert_memory_equal(d.erase, p.erase, d.n_erase * sizeof *d.erase);
    assert_true(d.sample == 0x123456789u && d.epoch == 6 && d.repeat == 9);
    assert_true(d.mix == LDRI_MIX_NONE && d.luma_sum == 0);
    ldri_mix_params m;
    ldri_mix_draw(&o, 6, 2, 10, 3, &m);
    ldri_mix_describe(&m, &d);
    assert_true(d.mix == LDRI_MIXUP && d.partner == 6 && d.lambda == m.lambda && d.rest == m.rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colour_is_the_recorded_one),
        cmocka_unit_test(colour_is_off_without_its_options),
        cmocka_unit_test(colour_has_its_distribution),
        cmocka_unit_test(boxes_are_the_recorded_ones),
        cmocka_unit_test(boxes_stay_inside_and_have_their_shares),
        cmocka_unit_test(counts_are_drawn_and_share_the_area),
        cmocka_unit_test(normal_numbers_are_the_recorded_ones),
        cmocka_unit_test(normal_numbers_are_normal),
        cmocka_unit_test(mixes_are_the_recorded_ones),
        cmocka_unit_test(partners_have_the_same_draw),
        cmocka_unit_test(weights_are_beta),
        cmocka_unit_test(gates_choose_between_mixes),
        cmocka_unit_test(descriptors_hold_what_was_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
