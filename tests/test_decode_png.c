/* PNG pixels of every type, depth and order of rows; and the writers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "decode/decode.h"
#include "tests/helper_images.h"

static const ldri_limits limits = {100000000, 500, (size_t)1 << 30};

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
    return 0;
}

static void put_big_endian(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Start of the first chunk of a type (its length field); the file has one. */
static uint8_t *find_chunk(uint8_t *bytes, size_t n, const char *type)
{
    for (size_t at = 8; at + 12 <= n; at += 12 + get_big_endian(bytes + at)) {
        if (memcmp(bytes + at + 4, type, 4) == 0) return bytes + at;
    }
    fail_msg("no %s", type);
    return NULL;
}

static void seal_chunk(uint8_t *chunk)
{
    uint32_t length = get_big_endian(chunk);
    put_big_endian(chunk + 8 + length, (uint32_t)crc32(crc32(0, NULL, 0), chunk + 4, length + 4));
}

static void every_type_depth_and_order(void **state)
{
    static const int kinds[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                   {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    static const uint32_t size[][2] = {{1, 1}, {2, 3},  {3, 2},   {5, 1},  {1, 9},
                                       {9, 7}, {33, 8}, {77, 53}, {300, 2}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
            for (int variant = 0; variant < 8; variant++) {
                helper_png o;
                size_t n;
                ldri_image_info info;
                uint32_t w = size[s][0], h = size[s][1];
                helper_png_init(&o);
                o.colour_type = kinds[k][0];
                o.depth = kinds[k][1];
                o.interlaced = variant & 1;
                o.trns = o.colour_type < 4 && (variant & 2);
                o.extras = variant >> 2;
                if (o.colour_type == 3 && o.extras && o.depth > 1) o.palette_entries = 3;
                uint8_t *rgb = helper_draw(s % 2 ? HELPER_NOISE : HELPER_EDGES, w, h, k);
                uint8_t *bytes = helper_png_encode(rgb, w, h, &o, &n);
                uint8_t *wanted = helper_png_expected(rgb, w, h, &o);
                uint8_t *got = decode(*state, bytes, n, &info);
                assert_int_equal(info.format, LDRI_FORMAT_PNG);
                assert_int_equal(info.width, w);
                assert_int_equal(info.height, h);
                assert_true((info.working_bytes >= (uint64_t)3 * w * h) == o.interlaced);
                if (memcmp(wanted, got, (size_t)3 * w * h) != 0)
                    fail_msg("type %d depth %d, %u x %u, variant %d: pixels differ", o.colour_type,
                             o.depth, w, h, variant);
                free(got);
                free(wanted);
                free(bytes);
                free(rgb);
            }
        }
    }
}

/* 0, 1, 2, 3 of two bits are 0, 85, 170, 255, and so on: checked apart from the helper. */
static void grey_of_few_bits_spans_the_range(void **state)
{
    static const int factor[] = {0, 255, 85, 0, 17};
    for (int depth = 1; depth <= 4; depth *= 2) {
        helper_png o;
        size_t n;
        ldri_image_info info;
        uint8_t rgb[3 * 16];
        helper_png_init(&o);
        o.colour_type = 0;
        o.depth = depth;
        for (int x = 0; x < 16; x++) {
            memset(rgb + 3 * x, x % (1 << depth) << (8 - depth), 3);
        }
        uint8_t *bytes = helper_png_encode(rgb, 16, 1, &o, &n);
        uint8_t *got = decode(*state, bytes, n, &info);
        for (int x = 0; x < 16; x++) {
            for (int c = 0; c < 3; c++)
                assert_int_equal(got[3 * x + c], x % (1 << depth) * factor[depth]);
        }
        free(got);
        free(bytes);
    }
}

static void colours_beyond_the_palette_are_black(void **state)
{
    enum { W = 40, H = 30, LEFT = 100 };
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        helper_png o;
        size_t n;
        ldri_image_info info;
        helper_png_init(&o);
        o.colour_type = 3;
        o.interlaced = interlaced;
        uint8_t *rgb = helper_draw(HELPER_NOISE, W, H, 4);
        uint8_t *bytes = helper_png_encode(rgb, W, H, &o, &n);
        uint8_t *wanted = helper_png_expected(rgb, W, H, &o);
        /* cut the palette: the chunk shrinks, what follows moves up */
        uint8_t *chunk = find_chunk(bytes, n, "PLTE");
        uint8_t *next = chunk + 12 + get_big_endian(chunk);
        assert_int_equal(get_big_endian(chunk), 768);
        uint8_t lost[768 - 3 * LEFT];
        memcpy(lost, chunk + 8 + 3 * LEFT, sizeof lost);
        put_big_endian(chunk, 3 * LEFT);
        seal_chunk(chunk);
        memmove(chunk + 12 + 3 * LEFT, next, n - (size_t)(next - bytes));
        n -= sizeof lost;
        int blackened = 0;
        for (size_t i = 0; i < W * H; i++) {
            for (size_t k = 0; k < sizeof lost; k += 3) {
                if (memcmp(wanted + 3 * i, lost + k, 3) != 0) continue;
                memset(wanted + 3 * i, 0, 3);
                blackened++;
                break;
            }
        }
        assert_true(blackened > 100);
        uint8_t *got = decode(*state, bytes, n, &info);
        assert_memory_equal(got, wanted, 3 * W * H);
        free(got);
        free(wanted);
        free(bytes);
        free(rgb);
    }
}

/* What is wrong beside or behind the pixels is passed over. */
static void damage_outside_the_pixels_is_accepted(void **state)
{
    enum { W = 50, H = 40 };
    for (int damage = 0; damage < 5; damage++) {
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            helper_png o;
            size_t n;
            ldri_image_info info;
            ldri_failure why;
            helper_png_init(&o);
            o.extras = 1;
            o.interlaced = interlaced;
            uint8_t *rgb = helper_draw(HELPER_SMOOTH, W, H, 4);
            uint8_t *bytes = helper_png_encode(rgb, W, H, &o, &n);
            uint8_t *chunk = find_chunk(bytes, n, "IDAT");
            uint32_t length = get_big_endian(chunk);
            switch (damage) {
            case 0: /* a wrong checksum of an ancillary chunk */
                find_chunk(bytes, n, "zTXt")[9] ^= 1;
                break;
            case 1: /* a wrong Adler-32 in the last four bytes of the stream */
                chunk[8 + length - 1] ^= 1;
                seal_chunk(chunk);
                break;
            case 2: /* the file ends behind the pixels' chunk */
                n = (size_t)(chunk - bytes) + 8 + length + 2;
                break;
            case 3: /* and within the Adler-32 */
                n = (size_t)(chunk - bytes) + 8 + length - 2;
                break;
            default: /* a wrong CRC of the pixels' only chunk, whose content is right */
                chunk[8 + length] ^= 1;
                break;
            }
            uint8_t *got = decode(*state, bytes, n, &info);
            assert_memory_equal(got, rgb, 3 * W * H);
            /* and through the buffers that cutting takes */
            uint8_t part[3 * 10 * 10];
            assert_int_equal(ldri_decode_begin(*state, bytes, n, &info, &why), LDR_OK);
            assert_int_equal(ldri_decode_region(*state, 40, 30, 10, 10, part, 30, &why), LDR_OK);
            ldri_decode_end(*state);
            for (size_t y = 0; y < 10; y++)
                assert_memory_equal(part + 30 * y, rgb + ((30 + y) * W + 40) * 3, 30);
            free(got);
            free(bytes);
            free(rgb);
        }
    }
}

static uint8_t *written(ldr_status (*write)(void *, const uint8_t *, uint32_t, uint32_t, size_t,
                                            ldri_failure *),
                        const uint8_t *rgb, uint32_t w, uint32_t h, size_t pitch, size_t *n)
{
    ldri_failure why;
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(write(f, rgb, w, h, pitch, &why), LDR_OK);
    *n = (size_t)ftell(f);
    uint8_t *bytes = malloc(*n);
    assert_non_null(bytes);
    rewind(f);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

static void written_pictures_read_back(void **state)
{
    enum { W = 30, H = 20, BIG = 41 };
    size_t n;
    ldri_image_info info;
    uint8_t *rgb = helper_draw(HELPER_PHOTO, BIG, H, 4), wanted[3 * W * H];
    for (size_t y = 0; y < H; y++) memcpy(wanted + y * 3 * W, rgb + y * 3 * BIG, 3 * W);

    uint8_t *png = written(ldri_png_write, rgb, W, H, 3 * BIG, &n);
    uint8_t *got = decode(*state, png, n, &info);
    assert_int_equal(info.width, W);
    assert_int_equal(info.height, H);
    assert_memory_equal(got, wanted, sizeof wanted);
    free(got);
    free(png);

    static const char header[] = "P6\n30 20\n255\n";
    uint8_t *ppm = written(ldri_ppm_write, rgb, W, H, 3 * BIG, &n);
    assert_int_equal(n, sizeof header - 1 + sizeof wanted);
    assert_memory_equal(ppm, header, sizeof header - 1);
    assert_memory_equal(ppm + sizeof header - 1, wanted, sizeof wanted);
    free(ppm);
    free(rgb);
}

static void a_full_disk_is_reported(void **state)
{
    uint8_t *rgb = helper_draw(HELPER_NOISE, 200, 200, 4);
    for (int k = 0; k < 2; k++) {
        ldri_failure why;
        FILE *f = fopen("/dev/full", "wb");
        if (!f) {
            free(rgb);
            print_message("there is no /dev/full here\n");
            skip();
        }
        ldr_status s = k ? ldri_ppm_write(f, rgb, 200, 200, 600, &why)
                         : ldri_png_write(f, rgb, 200, 200, 600, &why);
        assert_int_equal(s, LDR_E_IO);
        assert_int_equal(why.detail, ENOSPC);
        assert_int_equal(why.cause, LDR_CAUSE_NONE);
        fclose(f);
    }
    free(rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_depth_and_order),
        cmocka_unit_test(grey_of_few_bits_spans_the_range),
        cmocka_unit_test(colours_beyond_the_palette_are_black),
        cmocka_unit_test(damage_outside_the_pixels_is_accepted),
        cmocka_unit_test(written_pictures_read_back),
        cmocka_unit_test(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
