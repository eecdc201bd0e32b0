/* The last step: values, rounding, layouts, flips, at every SIMD level. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <cmocka.h>

#include "gpu/simd.h"
#include "tests/crops.h"

#define SENTINEL 0x5A
#define ROOM     64

static const float imagenet_mean[3] = {0.485f, 0.456f, 0.406f};
static const float imagenet_std[3] = {0.229f, 0.224f, 0.225f};

static float from_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* Rounding the long way: the nearest multiple of the unit in the last place, by rint of a double,
 * which is exact and to nearest even. */
static uint16_t f16_reference(float v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs((double)v);
    if (a >= 65520.0) return sign | 0x7c00;
    if (a < 0x1p-14) return sign | (uint16_t)rint(a * 0x1p24); /* 1024 is the first normal */
    int e;
    double m = rint(frexp(a, &e) * 2048.0); /* 1024 .. 2048 */
    return sign | (uint16_t)((e + 13) * 1024 + (int)m);
}

static uint16_t bf16_reference(float v)
{
    if (v == 0.0f) return signbit(v) ? 0x8000 : 0;
    int e;
    double m = rint(frexp(fabs((double)v), &e) * 256.0); /* 128 .. 256 */
    double r = ldexp(m, e - 8);
    float f = (float)r;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u >> 16) | (signbit(v) ? 0x8000 : 0));
}

static void rounding_to_f16_is_ieee(void **unused)
{
    static const struct {
        uint32_t in;
        uint16_t out;
    } cases[] = {
        {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x3f800000, 0x3c00},
        {0xc0000000, 0xc000}, {0x477fe000, 0x7bff},                       /* 65,504: the largest */
        {0x477fefff, 0x7bff},                                             /* just below 65,520 */
        {0x477ff000, 0x7c00},                                             /* 65,520 */
        {0xff7fffff, 0xfc00}, {0x7f800000, 0x7c00}, {0x38800000, 0x0400}, /* the least normal */
        {0x387fffff, 0x0400},                                             /* rounds up to it */
        {0x387fc000, 0x03ff}, {0x33800000, 0x0001},                       /* the least subnormal */
        {0x33000000, 0x0000},                                             /* half of it: to even */
        {0x33000001, 0x0001}, {0x33c00000, 0x0002}, /* one and a half: to even */
        {0x3f801000, 0x3c00}, {0x3f803000, 0x3c02}, {0x00000001, 0x0000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ldri_f16_bits(from_bits(cases[i].in)), cases[i].out);
    assert_true((ldri_f16_bits(NAN) & 0x7fff) > 0x7c00);
    for (uint32_t i = 0; i < 400000; i++) {
        uint32_t u = mix(i);
        if (i % 2) u = (u & 0x80ffffff) | (mix(i + 7) % 40 + 0x60) << 23; /* near f16's range */
        if ((u & 0x7f800000) == 0x7f800000) continue;
        assert_int_equal(ldri_f16_bits(from_bits(u)), f16_reference(from_bits(u)));
    }
}

static void rounding_to_bf16_is_to_even(void **unused)
{
    assert_int_equal(ldri_bf16_bits(from_bits(0x3f808000)), 0x3f80);
    assert_int_equal(ldri_bf16_bits(from_bits(0x3f818000)), 0x3f82);
    assert_int_equal(ldri_bf16_bits(from_bits(0x3f808001)), 0x3f81);
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t u = mix(i);
        uint32_t exponent = u >> 23 & 255;
        if (exponent < 20 || exponent > 250) continue; /* the reference goes through doubles */
        assert_int_equal(ldri_bf16_bits(from_bits(u)), bf16_reference(from_bits(u)));
    }
}

static void value_of(const ldri_normaliser *z, const float *mean, const float *std, int c,
                     uint8_t x, uint8_t out[4])
{
    float s = (float)(1.0 / (255.0 * (double)std[c]));
    float b = (float)(-(double)mean[c] / (double)std[c]);
    float v = fmaf((float)x, s, b);
    uint16_t h = z->dtype == LDR_F16 ? f16_reference(v) : bf16_reference(v);
    if (z->dtype == LDR_F32) memcpy(out, &v, 4);
    if (z->dtype == LDR_F16 || z->dtype == LDR_BF16) memcpy(out, &h, 2);
    if (z->dtype == LDR_U8) out[0] = x;
}

/* Every value, every place, against the formula, one element at a time. */
static void check_image(ldri_simd level, uint32_t width, uint32_t height, ldr_dtype dtype,
                        ldr_layout layout, int hflip, int vflip, const float *mean,
                        const float *std)
{
    ldri_normaliser z;
    ldri_normaliser_init(&z, ldri_simd_normalise(level), width, height, dtype, layout, mean, std);
    size_t element = ldri_dtype_bytes(dtype), n = 3 * (size_t)width * height * element;
    size_t pitch = ldri_pitch(width);
    size_t in_bytes = pitch * (height - 1) + 3 * (size_t)width; /* no byte more */
    uint8_t *rgb = malloc(in_bytes), *block = malloc(n + 2 * ROOM);
    assert_true(rgb && block);
    for (size_t i = 0; i < in_bytes; i++) rgb[i] = (uint8_t)(i * 37 + i / 256 + width);
    memset(block, SENTINEL, n + 2 * ROOM);
    ldri_normaliser_store(&z, rgb, pitch, hflip, vflip, block + ROOM);
    for (size_t i = 0; i < ROOM; i++) {
        assert_int_equal(block[i], SENTINEL);
        assert_int_equal(block[ROOM + n + i], SENTINEL);
    }
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                uint32_t from_x = hflip ? width - 1 - x : x, from_y = vflip ? height - 1 - y : y;
                uint8_t expected[4];
                value_of(&z, mean, std, c, rgb[from_y * pitch + 3 * from_x + (size_t)c], expected);
                size_t at = layout == LDR_NCHW ? ((size_t)c * height + y) * width + x
                                               : ((size_t)y * width + x) * 3 + (size_t)c;
                if (memcmp(block + ROOM + at * element, expected, element) != 0) {
                    print_error("level %s, %ux%u, dtype %d, layout %d, flips %d %d: pixel %u,%u "
                                "channel %d\n",
                                ldri_simd_name(level), width, height, dtype, layout, hflip, vflip,
                                x, y, c);
                    fail();
                }
            }
    free(rgb);
    free(block);
}

static void all_values_types_layouts_and_flips(void **unused)
{
    static const uint32_t sizes[][2] = {{1, 1},  {2, 3},  {5, 2},   {7, 3},  {8, 2},  {9, 2},
                                        {15, 2}, {16, 2}, {17, 3},  {31, 2}, {33, 2}, {64, 5},
                                        {96, 8}, {85, 4}, {224, 3}, {257, 2}};
    for (int level = 0; level <= (int)ldri_simd_best(); level++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++)
                for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++)
                    for (int flips = 0; flips < 4; flips++)
                        check_image((ldri_simd)level, sizes[i][0], sizes[i][1], (ldr_dtype)dtype,
                                    (ldr_layout)layout, flips & 1, flips >> 1, imagenet_mean,
                                    imagenet_std);
}

/* Small and large deviations push f16 into subnormals and to infinity. */
static void f16_leaves_the_normal_range_as_ieee_does(void **unused)
{
    static const float mean[3] = {0.0f, 0.5f, 0.25f};
    static const float std[3] = {1e5f, 1.25e-6f, 3e4f};
    for (int level = 0; level <= (int)ldri_simd_best(); level++)
        for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++)
            check_image((ldri_simd)level, 96, 8, LDR_F16, (ldr_layout)layout, 0, 0, mean, std);
}

static void level_is_forced_by_the_environment(void **unused)
{
    ldri_simd best = ldri_simd_best();
    setenv("LDR_SIMD", "none", 1);
    assert_int_equal(ldri_simd_wanted(), LDRI_SIMD_NONE);
    setenv("LDR_SIMD", "avx2", 1);
    assert_int_equal(ldri_simd_wanted(), best < LDRI_SIMD_AVX2 ? best : LDRI_SIMD_AVX2);
    setenv("LDR_SIMD", "avx512", 1);
    assert_int_equal(ldri_simd_wanted(), best);
    setenv("LDR_SIMD", "auto", 1);
    assert_int_equal(ldri_simd_wanted(), best);
    setenv("LDR_SIMD", "something", 1);
    assert_int_equal(ldri_simd_wanted(), best);
    unsetenv("LDR_SIMD");
    assert_int_equal(ldri_simd_wanted(), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_to_f16_is_ieee),
        cmocka_unit_test(rounding_to_bf16_is_to_even),
        cmocka_unit_test(all_values_types_layouts_and_flips),
        cmocka_unit_test(f16_leaves_the_normal_range_as_ieee_does),
        cmocka_unit_test(level_is_forced_by_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
