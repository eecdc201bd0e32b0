/* A region equals the whole picture, cut: over samplings, processes, restart intervals and boxes.
 *
 * Boxes favour what goes wrong: one to four columns or rows, the edges, full width or height. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/decode.h"
#include "tests/helper_images.h"

enum { BOXES = 30 };

static const ldri_limits limits = {100000000, 500, (size_t)1 << 30};

static uint32_t some_length(uint64_t *random, uint32_t n)
{
    switch (helper_below(random, 5)) {
    case 0:
        return n;
    case 1:
        return 1 + helper_below(random, n < 4 ? n : 4);
    default:
        return 1 + helper_below(random, n);
    }
}

static uint32_t some_place(uint64_t *random, uint32_t room)
{
    switch (helper_below(random, 6)) {
    case 0:
        return 0;
    case 1:
        return room;
    default:
        return helper_below(random, room + 1);
    }
}

/* The bytes before and behind the region's memory are guarded. */
static void check_boxes(ldri_decoder *d, const uint8_t *bytes, size_t n, uint64_t *random,
                        const char *what)
{
    ldri_image_info info;
    ldri_failure why;
    if (ldri_decode_begin(d, bytes, n, &info, &why) < 0) fail_msg("%s: %s", what, why.text);
    const uint32_t w = info.width, h = info.height;
    const size_t pitch = (size_t)3 * w;
    uint8_t *whole = malloc(pitch * h), *part = malloc(pitch * h + 128);
    assert_non_null(whole);
    assert_non_null(part);
    if (ldri_decode_region(d, 0, 0, w, h, whole, pitch, &why) < 0)
        fail_msg("%s: %s", what, why.text);
    ldri_decode_end(d);
    for (int k = 0; k < BOXES; k++) {
        uint32_t rw = some_length(random, w), rh = some_length(random, h);
        uint32_t left = some_place(random, w - rw), top = some_place(random, h - rh);
        size_t row = (size_t)3 * rw, size = row * rh;
        memset(part, 0x77, size + 128);
        if (ldri_decode_begin(d, bytes, n, &info, &why) < 0 ||
            ldri_decode_region(d, left, top, rw, rh, part + 64, row, &why) < 0)
            fail_msg("%s: %s", what, why.text);
        if (k % 2) ldri_decode_end(d); /* else begin does it */
        for (uint32_t y = 0; y < rh; y++) {
            const uint8_t *wanted = whole + (top + y) * pitch + (size_t)3 * left;
            if (memcmp(part + 64 + y * row, wanted, row) != 0)
                fail_msg("%s: %u x %u at %u,%u of %u x %u differs in its row %u", what, rw, rh,
                         left, top, w, h, y);
        }
        for (int i = 0; i < 64; i++) {
            assert_int_equal(part[i], 0x77);
            assert_int_equal(part[64 + size + (unsigned)i], 0x77);
        }
    }
    free(part);
    free(whole);
}

static uint32_t some_side(uint64_t *random)
{
    return 1 + helper_below(random, helper_below(random, 3) ? 140 : 12);
}

/* Random files of one process; `components` 0: any. */
static void check_jpegs(int process, int components, int files, uint64_t seed)
{
    static const char *sampling[] = {"444", "422", "420", "440", "411", "410", "441"};
    static const int several[] = {3, 3, 1, 4};
    char what[128];
    uint64_t random = seed;
    ldri_decoder *d;
    assert_int_equal(ldri_decoder_open(&d, &limits), LDR_OK);
    for (int k = 0; k < files; k++) {
        helper_jpeg o;
        size_t n;
        helper_jpeg_init(&o);
        o.components = components ? components : several[helper_below(&random, 4)];
        o.progressive = process;
        helper_jpeg_sampling(&o, o.components == 4 ? (k % 2 ? "420" : "444")
                                                   : sampling[helper_below(&random, 7)]);
        if (o.components == 3 && k % 4 == 0) { /* factors that nobody uses but the format allows */
            int blocks;
            do {
                blocks = 0;
                for (int c = 0; c < 3; c++) {
                    o.h[c] = 1 + (int)helper_below(&random, 2);
                    o.v[c] = 1 + (int)helper_below(&random, 2);
                    blocks += o.h[c] * o.v[c];
                }
            } while (blocks > 10);
        }
        o.ycck = o.components == 4 && k % 3 == 0;
        o.restart = k % 3 ? 0 : 1 + helper_below(&random, 9);
        o.quality = 20 + (int)helper_below(&random, 80);
        o.arithmetic = helper_jpeg_has_arithmetic() && k % 8 == 7;
        uint32_t w = some_side(&random), h = some_side(&random);
        snprintf(what, sizeof what,
                 "seed %llu file %d: %d components, %dx%d %dx%d %dx%d, restart %u, arithmetic %d",
                 (unsigned long long)seed, k, o.components, o.h[0], o.v[0], o.h[1], o.v[1], o.h[2],
                 o.v[2], o.restart, o.arithmetic);
        uint8_t *rgb =
            helper_draw((helper_drawing)helper_below(&random, HELPER_N_DRAWINGS), w, h, random);
        uint8_t *bytes = helper_jpeg_encode(rgb, w, h, &o, &n);
        check_boxes(d, bytes, n, &random, what);
        free(bytes);
        free(rgb);
    }
    ldri_decoder_close(&d);
}

static void sequential_jpeg(void **state)
{
    check_jpegs(0, 0, 500, 11);
}

static void progressive_jpeg(void **state)
{
    check_jpegs(1, 0, 250, 12);
}

static void jpeg_of_several_sequential_scans(void **state)
{
    check_jpegs(2, 3, 100, 13);
}

/* libjpeg smooths blocks here, which its cropping and skipping get wrong. */
static void progressive_jpeg_with_scans_missing(void **state)
{
    check_jpegs(3, 0, 250, 14);
}

/* Wider than a row buffer's usual size, and tall. */
static void long_thin_jpegs(void **state)
{
    static const uint32_t size[][2] = {{5000, 3}, {3, 3000}, {2049, 17}};
    uint64_t random = 15;
    ldri_decoder *d;
    assert_int_equal(ldri_decoder_open(&d, &limits), LDR_OK);
    for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
        size_t n;
        helper_jpeg o;
        helper_jpeg_init(&o);
        helper_jpeg_sampling(&o, s % 2 ? "422" : "420");
        uint8_t *rgb = helper_draw(HELPER_NOISE, size[s][0], size[s][1], s);
        uint8_t *bytes = helper_jpeg_encode(rgb, size[s][0], size[s][1], &o, &n);
        check_boxes(d, bytes, n, &random, "long and thin");
        free(bytes);
        free(rgb);
    }
    ldri_decoder_close(&d);
}

static void png_of_every_kind(void **state)
{
    static const int kinds[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                   {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    char what[64];
    uint64_t random = 16;
    ldri_decoder *d;
    assert_int_equal(ldri_decoder_open(&d, &limits), LDR_OK);
    for (int k = 0; k < 240; k++) {
        helper_png o;
        size_t n;
        helper_png_init(&o);
        o.colour_type = kinds[k % 15][0];
        o.depth = kinds[k % 15][1];
        o.interlaced = k / 15 % 2;
        o.trns = o.colour_type < 4 && k / 30 % 2;
        uint32_t w = some_side(&random), h = some_side(&random);
        snprintf(what, sizeof what, "file %d: type %d depth %d interlaced %d", k, o.colour_type,
                 o.depth, o.interlaced);
        uint8_t *rgb = helper_draw(HELPER_PHOTO, w, h, random);
        uint8_t *bytes = helper_png_encode(rgb, w, h, &o, &n);
        check_boxes(d, bytes, n, &random, what);
        free(bytes);
        free(rgb);
    }
    ldri_decoder_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential_jpeg),
        cmocka_unit_test(progressive_jpeg),
        cmocka_unit_test(jpeg_of_several_sequential_scans),
        cmocka_unit_test(progressive_jpeg_with_scans_missing),
        cmocka_unit_test(long_thin_jpegs),
        cmocka_unit_test(png_of_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
