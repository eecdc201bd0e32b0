/* Whole JPEGs: the pixels are those of a plain libjpeg loop, written down again here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "decode/decode.h"
#include "tests/helper_images.h"

static const ldri_limits limits = {100000000, 500, (size_t)1 << 30};

/* The reference: library defaults, a line a call; `components` 3 or 4 of them. */
static uint8_t *plain_decode(const uint8_t *bytes, size_t n, int *components)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors; /* its error_exit ends the program: the files are good */
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, bytes, (unsigned long)n);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&c);
    size_t row = (size_t)c.output_width * (unsigned)c.output_components;
    uint8_t *out = malloc(row * c.output_height);
    assert_non_null(out);
    while (c.output_scanline < c.output_height) {
        JSAMPROW line = out + row * c.output_scanline;
        jpeg_read_scanlines(&c, &line, 1);
    }
    *components = c.output_components;
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
    return out;
}

static uint8_t *decode(ldri_decoder *d, const uint8_t *bytes, size_t n, ldri_image_info *info)
{
    ldri_failure why;
    if (ldri_decode_begin(d, bytes, n, info, &why) < 0) fail_msg("begin: %s", why.text);
    uint8_t *out = malloc((size_t)3 * info->width * info->height);
    assert_non_null(out);
    if (ldri_decode_region(d, 0, 0, info->width, info->height, out, (size_t)3 * info->width, &why) <
        0)
        fail_msg("region: %s", why.text);
    ldri_decode_end(d);
    return out;
}

static void expect_plain(ldri_decoder *d, const uint8_t *rgb, uint32_t width, uint32_t height,
                         const helper_jpeg *o, const char *what)
{
    size_t n;
    int components;
    ldri_image_info info;
    uint8_t *bytes = helper_jpeg_encode(rgb, width, height, o, &n);
    uint8_t *wanted = plain_decode(bytes, n, &components);
    uint8_t *got = decode(d, bytes, n, &info);
    assert_int_equal(info.format, LDRI_FORMAT_JPEG);
    assert_int_equal(info.width, width);
    assert_int_equal(info.height, height);
    assert_int_equal(components, 3);
    if (memcmp(wanted, got, (size_t)3 * width * height) != 0)
        fail_msg("%s, %u x %u: pixels differ", what, (unsigned)width, (unsigned)height);
    free(got);
    free(wanted);
    free(bytes);
}

static int open_decoder(void **state)
{
    ldri_decoder *d = NULL;
    if (ldri_decoder_open(&d, &limits) < 0) return -1;
    *state = d;
    return 0;
}

static int close_decoder(void **state)
{
    ldri_decoder *d = *state;
    ldri_decoder_close(&d);
    assert_null(d);
    ldri_decoder_close(&d);
    ldri_decoder_close(NULL);
    return 0;
}

static void every_sampling_size_and_process(void **state)
{
    static const char *sampling[] = {"444", "422", "420", "440", "411", "410", "441"};
    static const uint32_t size[][2] = {{1, 1},   {2, 2},   {3, 1},    {1, 37},
                                       {17, 16}, {33, 31}, {100, 75}, {131, 9}};
    char what[64];
    for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
        uint8_t *rgb = helper_draw(HELPER_PHOTO, size[s][0], size[s][1], s);
        for (size_t k = 0; k < sizeof sampling / sizeof *sampling; k++) {
            for (int process = 0; process < 4; process++) {
                for (unsigned restart = 0; restart < 4; restart += 3) {
                    helper_jpeg o;
                    helper_jpeg_init(&o);
                    helper_jpeg_sampling(&o, sampling[k]);
                    o.progressive = process;
                    o.restart = restart;
                    snprintf(what, sizeof what, "%s process %d restart %u", sampling[k], process,
                             restart);
                    expect_plain(*state, rgb, size[s][0], size[s][1], &o, what);
                }
            }
        }
        free(rgb);
    }
}

static void every_drawing_and_quality(void **state)
{
    for (int drawing = 0; drawing < HELPER_N_DRAWINGS; drawing++) {
        uint8_t *rgb = helper_draw((helper_drawing)drawing, 97, 61, 5);
        for (int quality = 1; quality <= 100; quality += 33) {
            helper_jpeg o;
            helper_jpeg_init(&o);
            helper_jpeg_sampling(&o, "420");
            o.quality = quality;
            o.optimize = quality > 50;
            expect_plain(*state, rgb, 97, 61, &o, "quality");
        }
        free(rgb);
    }
}

static void arithmetic_coding(void **state)
{
    if (!helper_jpeg_has_arithmetic()) {
        print_message("libjpeg here writes no arithmetic coding\n");
        skip();
    }
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 70, 50, 8);
    for (int process = 0; process < 2; process++) {
        helper_jpeg o;
        helper_jpeg_init(&o);
        helper_jpeg_sampling(&o, "422");
        o.arithmetic = 1;
        o.progressive = process;
        expect_plain(*state, rgb, 70, 50, &o, "arithmetic");
    }
    free(rgb);
}

static void grey_is_three_equal_channels(void **state)
{
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 61, 47, 2);
    for (int process = 0; process < 2; process++) {
        size_t n;
        ldri_image_info info;
        helper_jpeg o;
        helper_jpeg_init(&o);
        o.components = 1;
        o.progressive = process;
        expect_plain(*state, rgb, 61, 47, &o, "grey");
        uint8_t *bytes = helper_jpeg_encode(rgb, 61, 47, &o, &n);
        uint8_t *got = decode(*state, bytes, n, &info);
        for (size_t i = 0; i < 61 * 47; i++) {
            assert_int_equal(got[3 * i], got[3 * i + 1]);
            assert_int_equal(got[3 * i], got[3 * i + 2]);
            /* and the grey that went in, but for the loss */
            assert_in_range(abs(got[3 * i] - rgb[3 * i + 1]), 0, 40);
        }
        free(got);
        free(bytes);
    }
    free(rgb);
}

/* As Pillow: R = k - round((255 - c) * k / 255) of the values as stored. */
static void four_components_as_inverted_cmyk(void **state)
{
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 61, 47, 3);
    for (int kind = 0; kind < 8; kind++) {
        size_t n;
        int components;
        ldri_image_info info;
        helper_jpeg o;
        helper_jpeg_init(&o);
        o.components = 4;
        o.ycck = kind & 1;
        o.adobe = o.ycck || !(kind & 2);
        o.progressive = kind >> 2;
        if (kind & 1) helper_jpeg_sampling(&o, "420");
        uint8_t *bytes = helper_jpeg_encode(rgb, 61, 47, &o, &n);
        uint8_t *cmyk = plain_decode(bytes, n, &components);
        uint8_t *got = decode(*state, bytes, n, &info);
        assert_int_equal(components, 4);
        for (size_t i = 0; i < 61 * 47; i++) {
            for (int c = 0; c < 3; c++) {
                int k = cmyk[4 * i + 3], a = (255 - cmyk[4 * i + (unsigned)c]) * k;
                assert_int_equal(got[3 * i + (unsigned)c], k - (2 * a + 255) / 510);
            }
        }
        free(got);
        free(cmyk);
        free(bytes);
    }
    free(rgb);
}

static void bytes_between_rows_are_left_alone(void **state)
{
    enum { W = 37, H = 21, PITCH = 3 * W + 13 };
    size_t n;
    ldri_image_info info;
    ldri_failure why;
    helper_jpeg o;
    helper_jpeg_init(&o);
    uint8_t *rgb = helper_draw(HELPER_SMOOTH, W, H, 1);
    uint8_t *bytes = helper_jpeg_encode(rgb, W, H, &o, &n);
    uint8_t *whole = decode(*state, bytes, n, &info);
    uint8_t *wide = malloc((size_t)PITCH * H);
    assert_non_null(wide);
    memset(wide, 0xa5, (size_t)PITCH * H);
    assert_int_equal(ldri_decode_begin(*state, bytes, n, &info, &why), LDR_OK);
    assert_int_equal(ldri_decode_region(*state, 0, 0, W, H, wide, PITCH, &why), LDR_OK);
    for (size_t y = 0; y < H; y++) {
        assert_memory_equal(wide + y * PITCH, whole + y * 3 * W, 3 * W);
        for (size_t x = 3 * W; x < PITCH; x++) assert_int_equal(wide[y * PITCH + x], 0xa5);
    }
    free(wide);
    free(whole);
    free(bytes);
    free(rgb);
}

/* The header's estimate must cover what libjpeg takes: 128 bytes a block of each component. */
static void working_memory_is_estimated(void **state)
{
    size_t n;
    ldri_image_info info;
    ldri_failure why;
    helper_jpeg o;
    uint8_t *rgb = helper_draw(HELPER_SMOOTH, 200, 120, 1);
    for (int process = 0; process < 3; process++) {
        helper_jpeg_init(&o);
        helper_jpeg_sampling(&o, "420");
        o.progressive = process;
        uint8_t *bytes = helper_jpeg_encode(rgb, 200, 120, &o, &n);
        assert_int_equal(ldri_decode_begin(*state, bytes, n, &info, &why), LDR_OK);
        ldri_decode_end(*state);
        /* 26 x 16 blocks of the first component (25 x 15 made even), 13 x 8 of the others */
        uint64_t blocks = 26 * 16 + 2 * 13 * 8;
        if (process == 0) assert_int_equal(info.working_bytes, 0);
        if (process != 0) assert_in_range(info.working_bytes, blocks * 128, blocks * 128 + 100000);
        free(bytes);
    }
    free(rgb);
}

static void harmless_warnings_are_counted(void **state)
{
    size_t n;
    ldri_image_info info;
    const char *first;
    helper_jpeg o;
    helper_jpeg_init(&o);
    uint8_t *rgb = helper_draw(HELPER_SMOOTH, 20, 20, 1);
    uint8_t *bytes = helper_jpeg_encode(rgb, 20, 20, &o, &n);
    uint8_t *clean = decode(*state, bytes, n, &info);
    assert_int_equal(ldri_decode_warnings(*state, &first), 0);
    assert_string_equal(first, "");
    assert_memory_equal(bytes + 6, "JFIF", 5);
    bytes[11] = 3; /* a major version that does not exist */
    uint8_t *warned = decode(*state, bytes, n, &info);
    assert_int_equal(ldri_decode_warnings(*state, &first), 1);
    assert_non_null(strstr(first, "JFIF revision"));
    assert_memory_equal(clean, warned, 3 * 20 * 20);
    free(warned);
    free(clean);
    free(bytes);
    free(rgb);
}

static void bytes_behind_the_end_do_not_matter(void **state)
{
    size_t n;
    ldri_image_info info;
    helper_jpeg o;
    helper_jpeg_init(&o);
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 40, 30, 1);
    for (int process = 0; process < 2; process++) {
        o.progressive = process;
        uint8_t *bytes = helper_jpeg_encode(rgb, 40, 30, &o, &n);
        uint8_t *longer = malloc(n + 1000);
        assert_non_null(longer);
        memcpy(longer, bytes, n);
        memset(longer + n, 0x5a, 1000);
        uint8_t *clean = decode(*state, bytes, n, &info);
        uint8_t *got = decode(*state, longer, n + 1000, &info);
        assert_memory_equal(clean, got, 3 * 40 * 30);
        free(got);
        free(clean);
        free(longer);
        free(bytes);
    }
    free(rgb);
}

/* Drops every marker segment of a kind before the first scan. */
static size_t without(uint8_t *bytes, size_t n, uint8_t marker)
{
    size_t at = 2;
    while (bytes[at + 1] != 0xda) {
        size_t length = 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
        if (bytes[at + 1] == marker) {
            memmove(bytes + at, bytes + at + length, n - at - length);
            n -= length;
        } else {
            at += length;
        }
    }
    return n;
}

enum { FILES = 7 };

/* What becomes of a file: a digest of its pixels, or of its failure. */
static uint64_t outcome(ldri_decoder *d, const uint8_t *bytes, size_t n)
{
    ldri_image_info info;
    ldri_failure why;
    ldr_status s = ldri_decode_begin(d, bytes, n, &info, &why);
    uint64_t h = 14695981039346656037u;
    if (s == LDR_OK) {
        size_t all = (size_t)3 * info.width * info.height;
        uint8_t *out = calloc(1, all);
        assert_non_null(out);
        s = ldri_decode_region(d, 0, 0, info.width, info.height, out, (size_t)3 * info.width, &why);
        for (size_t i = 0; s == LDR_OK && i < all; i++) h = (h ^ out[i]) * 1099511628211u;
        free(out);
    }
    ldri_decode_end(d);
    return s == LDR_OK ? h : (uint64_t)s;
}

/* libjpeg keeps the tables of the last picture: one that lacks its own must not get them. */
static void a_picture_does_not_borrow_from_the_one_before(void **state)
{
    ldri_decoder *shared = *state;
    uint8_t *file[FILES];
    size_t n[FILES];
    uint64_t alone[FILES];
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 61, 47, 3);
    for (int i = 0; i < FILES; i++) {
        helper_jpeg o;
        helper_jpeg_init(&o);
        o.quality = 50 + 5 * i;
        o.optimize = i == 1;
        o.progressive = i == 2 || i == 6;
        o.components = i == 3 ? 1 : 3;
        file[i] = helper_jpeg_encode(rgb, 61, 47, &o, &n[i]);
        if (i == 4) n[i] = without(file[i], n[i], 0xc4); /* DHT, as in a frame of Motion JPEG */
        if (i == 5) n[i] = without(file[i], n[i], 0xdb); /* DQT */
        if (i == 6) n[i] = without(file[i], n[i], 0xc4);
        ldri_decoder *fresh = NULL;
        assert_int_equal(ldri_decoder_open(&fresh, &limits), LDR_OK);
        alone[i] = outcome(fresh, file[i], n[i]);
        ldri_decoder_close(&fresh);
    }
    assert_int_equal(alone[5], (uint64_t)LDR_E_FORMAT);
    for (int first = 0; first < FILES; first++) {
        for (int second = 0; second < FILES; second++) {
            outcome(shared, file[first], n[first]);
            if (outcome(shared, file[second], n[second]) != alone[second]) {
                fail_msg("file %d after file %d is not what it is alone", second, first);
            }
        }
    }
    for (int i = 0; i < FILES; i++) free(file[i]);
    free(rgb);
}

static void versions_are_named(void **state)
{
    char text[80], shorter[8];
    ldri_decode_versions(text, sizeof text);
    assert_non_null(strstr(text, "jpeg"));
    assert_non_null(strstr(text, "libpng 1."));
    ldri_decode_versions(shorter, sizeof shorter);
    assert_int_equal(strlen(shorter), 7);
    assert_memory_equal(shorter, text, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sampling_size_and_process),
        cmocka_unit_test(every_drawing_and_quality),
        cmocka_unit_test(arithmetic_coding),
        cmocka_unit_test(grey_is_three_equal_channels),
        cmocka_unit_test(four_components_as_inverted_cmyk),
        cmocka_unit_test(bytes_between_rows_are_left_alone),
        cmocka_unit_test(working_memory_is_estimated),
        cmocka_unit_test(harmless_warnings_are_counted),
        cmocka_unit_test(bytes_behind_the_end_do_not_matter),
        cmocka_unit_test(a_picture_does_not_borrow_from_the_one_before),
        cmocka_unit_test(versions_are_named),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
