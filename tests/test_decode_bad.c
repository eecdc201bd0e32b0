/* What cannot be decoded: each kind has its cause and one line of text; nothing crashes or leaks,
 * the outcome is the same each time, and the decoder goes on to the next file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <zlib.h>

#include "decode/decode.h"
#include "tests/helper_images.h"

enum { W = 90, H = 75 };

static const ldri_limits limits = {100000000, 500, (size_t)1 << 30};

typedef struct outcome {
    ldr_status status;
    ldri_failure why;
    uint64_t hash; /* of the pixels */
} outcome;

/* A copy of exactly n bytes, so that AddressSanitizer sees a read past them. */
static uint8_t *exact_copy(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    return copy;
}

/* The first `height` rows, 0: all. */
static outcome try_rows(ldri_decoder *d, const uint8_t *bytes, size_t n, uint32_t height)
{
    outcome o;
    ldri_image_info info;
    memset(&o, 0, sizeof o);
    uint8_t *copy = exact_copy(bytes, n);
    o.status = ldri_decode_begin(d, copy, n, &info, &o.why);
    if (o.status == LDR_OK) {
        if (height == 0) height = info.height;
        size_t size = (size_t)3 * info.width * height;
        uint8_t *out = malloc(size);
        assert_non_null(out);
        o.status =
            ldri_decode_region(d, 0, 0, info.width, height, out, (size_t)3 * info.width, &o.why);
        if (o.status == LDR_OK)
            for (size_t i = 0; i < size; i++) o.hash = helper_hash(o.hash ^ out[i]);
        free(out);
        ldri_decode_end(d);
    }
    free(copy);
    return o;
}

static void check_text(const ldri_failure *why)
{
    size_t n = strlen(why->text);
    assert_in_range(n, 8, sizeof why->text - 1);
    for (size_t i = 0; i < n; i++) assert_true(isprint((unsigned char)why->text[i]));
    assert_false(isupper((unsigned char)why->text[0]));
    assert_int_not_equal(why->text[n - 1], '.');
}

static void expect(ldri_decoder *d, const uint8_t *bytes, size_t n, ldr_cause cause,
                   const char *part_of_text)
{
    static const ldr_status status_of[] = {
        [LDR_CAUSE_EMPTY] = LDR_E_FORMAT,   [LDR_CAUSE_FORMAT] = LDR_E_FORMAT,
        [LDR_CAUSE_DAMAGED] = LDR_E_FORMAT, [LDR_CAUSE_UNSUPPORTED] = LDR_E_UNSUPPORTED,
        [LDR_CAUSE_LIMIT] = LDR_E_LIMIT,
    };
    outcome o = try_rows(d, bytes, n, 0);
    if (o.status != status_of[cause] || o.why.cause != cause)
        fail_msg("wanted cause %s: status %s, cause %s, %s", ldr_cause_name(cause),
                 ldr_status_name(o.status), ldr_cause_name(o.why.cause), o.why.text);
    check_text(&o.why);
    if (!strstr(o.why.text, part_of_text)) fail_msg("wanted '%s' in: %s", part_of_text, o.why.text);
}

static void expect_text_file(ldri_decoder *d, const char *text, const char *part_of_text)
{
    expect(d, (const uint8_t *)text, strlen(text), LDR_CAUSE_FORMAT, part_of_text);
}

/* A good file must still come out right after whatever was before it. */
static uint64_t good_hash;
static uint8_t *good_jpeg, *good_png;
static size_t n_good_jpeg, n_good_png;

static void expect_still_good(ldri_decoder *d)
{
    outcome o = try_rows(d, good_jpeg, n_good_jpeg, 0);
    assert_int_equal(o.status, LDR_OK);
    assert_true(o.hash == good_hash);
}

static int set_up(void **state)
{
    ldri_decoder *d = NULL;
    helper_jpeg j;
    helper_png p;
    if (ldri_decoder_open(&d, &limits) < 0) return -1;
    uint8_t *rgb = helper_draw(HELPER_PHOTO, W, H, 21);
    helper_jpeg_init(&j);
    helper_jpeg_sampling(&j, "420");
    good_jpeg = helper_jpeg_encode(rgb, W, H, &j, &n_good_jpeg);
    helper_png_init(&p);
    good_png = helper_png_encode(rgb, W, H, &p, &n_good_png);
    free(rgb);
    good_hash = try_rows(d, good_jpeg, n_good_jpeg, 0).hash;
    *state = d;
    return good_hash ? 0 : -1;
}

static int tear_down(void **state)
{
    ldri_decoder *d = *state;
    ldri_decoder_close(&d);
    free(good_jpeg);
    free(good_png);
    return 0;
}

static uint8_t *find_marker(uint8_t *bytes, size_t n, int marker)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == marker) return bytes + i;
    fail_msg("no marker %02x", (unsigned)marker);
    return NULL;
}

static void set_jpeg_size(uint8_t *bytes, size_t n, int sof, unsigned width, unsigned height)
{
    uint8_t *p = find_marker(bytes, n, sof);
    p[5] = (uint8_t)(height >> 8);
    p[6] = (uint8_t)height;
    p[7] = (uint8_t)(width >> 8);
    p[8] = (uint8_t)width;
}

static void put_big_endian(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void set_png_size(uint8_t *png, uint32_t width, uint32_t height)
{
    put_big_endian(png + 16, width);
    put_big_endian(png + 20, height);
    put_big_endian(png + 29, (uint32_t)crc32(crc32(0, NULL, 0), png + 12, 17));
}

/* ---- what is no JPEG or PNG ---- */

static void empty_and_tiny_files(void **state)
{
    expect(*state, (const uint8_t *)"", 0, LDR_CAUSE_EMPTY, "empty");
    expect(*state, (const uint8_t *)"\xff", 1, LDR_CAUSE_FORMAT, "begins with ff");
    expect(*state, (const uint8_t *)"x", 1, LDR_CAUSE_FORMAT, "begins with 78");
    expect(*state, good_jpeg, 2, LDR_CAUSE_DAMAGED, "ends early in its header");
    expect(*state, good_png, 8, LDR_CAUSE_DAMAGED, "ends early in its header");
    expect(*state, good_png, 7, LDR_CAUSE_FORMAT, "PNG");
    expect_still_good(*state);
}

static void other_formats_are_named(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *name;
    } known[] = {
        {"GIF89a\1\0\1\0", 10, "a GIF"},
        {"RIFF\x24\0\0\0WEBPVP8 ", 16, "a WebP"},
        {"BM\x36\0\0\0\0\0", 8, "a BMP"},
        {"II*\0\x8\0\0\0", 8, "a TIFF"},
        {"MM\0*\0\0\0\x8", 8, "a TIFF"},
        {"\0\0\0\x18"
         "ftypheic\0\0\0\0",
         16, "a HEIC"},
        {"\0\0\0\x1c"
         "ftypavif\0\0\0\0",
         16, "an AVIF"},
        {"\xff\x0a\xfa\x1f", 4, "a JPEG XL"},
        {"\0\0\0\x0cjP  \r\n\x87\n", 12, "a JPEG 2000"},
        {"\0\0\0\0\0\0\0\0", 8, "zero bytes"},
        {"\x89PNG\n\x1a\n\0", 8, "text mode"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        expect(*state, (const uint8_t *)known[i].bytes, known[i].n, LDR_CAUSE_FORMAT,
               known[i].name);
    expect_text_file(*state, "P6\n2 2\n255\n............", "a PPM");
    expect_text_file(*state, "%PDF-1.4\n", "a PDF");
    expect_text_file(*state, "<!DOCTYPE html>\n<html><body>404", "an HTML page");
    expect_text_file(*state, "\n  <html lang=en>", "an HTML page");
    expect_text_file(*state, "\xef\xbb\xbf<!-- hello --><HTML>", "an HTML page");
    expect_text_file(*state, "<?xml version=\"1.0\"?>\n<svg width='1'/>", "an SVG");
    expect_text_file(*state, "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey", "an XML file");
    expect_text_file(*state, "{\"error\": \"not found\"}", "a JSON text");
    expect_text_file(*state, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7",
                     "git lfs pull");
    expect_text_file(*state, "HTTP/1.1 200 OK\r\n\r\n", "an HTTP response");
    expect_text_file(*state, "hello", "begins with 68 65 6c 6c 6f");
    expect_still_good(*state);
}

/* ---- what is not supported, and limits ---- */

static void kinds_of_jpeg_that_are_not_decoded(void **state)
{
    static const struct {
        uint8_t sof;
        const char *name;
    } kinds[] = {{0xc3, "lossless"}, {0xc5, "hierarchical"}, {0xcb, "lossless arithmetic"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint8_t *bytes = exact_copy(good_jpeg, n_good_jpeg);
        find_marker(bytes, n_good_jpeg, 0xc0)[1] = kinds[i].sof;
        expect(*state, bytes, n_good_jpeg, LDR_CAUSE_UNSUPPORTED, kinds[i].name);
        free(bytes);
    }
    uint8_t *bytes = exact_copy(good_jpeg, n_good_jpeg);
    find_marker(bytes, n_good_jpeg, 0xc0)[4] = 12;
    expect(*state, bytes, n_good_jpeg, LDR_CAUSE_UNSUPPORTED, "12-bit");
    free(bytes);

    /* two components: leave the third out of the frame and of the scan */
    bytes = exact_copy(good_jpeg, n_good_jpeg);
    uint8_t *sof = find_marker(bytes, n_good_jpeg, 0xc0);
    sof[3] -= 3;
    sof[9] = 2;
    memmove(sof + 2 + sof[3], sof + 5 + sof[3], n_good_jpeg - (size_t)(sof - bytes) - 5 - sof[3]);
    uint8_t *sos = find_marker(bytes, n_good_jpeg - 3, 0xda);
    sos[3] -= 2;
    sos[4] = 2;
    memmove(sos + 9, sos + 11, n_good_jpeg - 3 - (size_t)(sos - bytes) - 11);
    expect(*state, bytes, n_good_jpeg - 5, LDR_CAUSE_UNSUPPORTED, "2 components");
    free(bytes);
    expect_still_good(*state);
}

static void apples_png(void **state)
{
    uint8_t *bytes = exact_copy(good_png, n_good_png);
    memcpy(bytes + 12, "CgBI", 4);
    expect(*state, bytes, n_good_png, LDR_CAUSE_UNSUPPORTED, "CgBI");
    free(bytes);
}

static void too_many_pixels(void **state)
{
    uint8_t *bytes = exact_copy(good_jpeg, n_good_jpeg);
    set_jpeg_size(bytes, n_good_jpeg, 0xc0, 65000, 65000);
    expect(*state, bytes, n_good_jpeg, LDR_CAUSE_LIMIT, "65000 x 65000");
    set_jpeg_size(bytes, n_good_jpeg, 0xc0, 10001, 10000);
    expect(*state, bytes, n_good_jpeg, LDR_CAUSE_LIMIT, "max_pixels");
    set_jpeg_size(bytes, n_good_jpeg, 0xc0, 10000, 10000); /* allowed; the data is short */
    expect(*state, bytes, n_good_jpeg, LDR_CAUSE_DAMAGED, "at row");
    set_jpeg_size(bytes, n_good_jpeg, 0xc0, 65535, 8);
    expect(*state, bytes, n_good_jpeg, LDR_CAUSE_LIMIT, "65535 x 8");
    free(bytes);

    bytes = exact_copy(good_png, n_good_png);
    set_png_size(bytes, 65000, 65000);
    expect(*state, bytes, n_good_png, LDR_CAUSE_LIMIT, "65000 x 65000");
    set_png_size(bytes, 0x7fffffff, 0x7fffffff);
    expect(*state, bytes, n_good_png, LDR_CAUSE_LIMIT, "2147483647 x 2147483647");
    set_png_size(bytes, 90000000, 1);
    expect(*state, bytes, n_good_png, LDR_CAUSE_LIMIT, "90000000 x 1");
    free(bytes);

    /* exactly at the limit is in it */
    ldri_limits small = limits;
    ldri_decoder *d;
    small.max_pixels = W * H;
    assert_int_equal(ldri_decoder_open(&d, &small), LDR_OK);
    expect_still_good(d);
    ldri_decoder_close(&d);
    small.max_pixels = W * H - 1;
    assert_int_equal(ldri_decoder_open(&d, &small), LDR_OK);
    expect(d, good_jpeg, n_good_jpeg, LDR_CAUSE_LIMIT, "max_pixels, 6749");
    expect(d, good_png, n_good_png, LDR_CAUSE_LIMIT, "max_pixels, 6749");
    ldri_decoder_close(&d);
    expect_still_good(*state);
}

static void sides_of_zero(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        uint8_t *bytes = exact_copy(good_jpeg, n_good_jpeg);
        set_jpeg_size(bytes, n_good_jpeg, 0xc0, k ? 0 : W, k ? H : 0);
        expect(*state, bytes, n_good_jpeg, LDR_CAUSE_DAMAGED, k ? "0 x 75" : "90 x 0");
        free(bytes);
        bytes = exact_copy(good_png, n_good_png);
        set_png_size(bytes, k ? 0 : W, k ? H : 0);
        expect(*state, bytes, n_good_png, LDR_CAUSE_DAMAGED, "IHDR");
        free(bytes);
    }
}

/* Three scans, the last one repeated up to `n_scans`. */
static uint8_t *many_scans(const uint8_t *rgb, int n_scans, size_t *n_bytes)
{
    helper_jpeg o;
    size_t n;
    helper_jpeg_init(&o);
    o.progressive = 2;
    uint8_t *bytes = helper_jpeg_encode(rgb, 16, 16, &o, &n), *scan = bytes;
    for (int i = 0; i < 3; i++) scan = find_marker(scan + 1, n - (size_t)(scan + 1 - bytes), 0xda);
    size_t before = (size_t)(scan - bytes), length = n - 2 - before;
    uint8_t *out = malloc(n + length * (size_t)n_scans);
    assert_non_null(out);
    memcpy(out, bytes, n - 2);
    *n_bytes = n - 2;
    for (int i = 3; i < n_scans; i++, *n_bytes += length) memcpy(out + *n_bytes, scan, length);
    memcpy(out + *n_bytes, "\xff\xd9", 2);
    *n_bytes += 2;
    free(bytes);
    return out;
}

static void too_many_scans(void **state)
{
    size_t n3, n500, n501, n600;
    uint8_t *rgb = helper_draw(HELPER_PHOTO, 16, 16, 1);
    uint8_t *b3 = many_scans(rgb, 3, &n3), *b500 = many_scans(rgb, 500, &n500);
    uint8_t *b501 = many_scans(rgb, 501, &n501), *b600 = many_scans(rgb, 600, &n600);
    outcome few = try_rows(*state, b3, n3, 0), many = try_rows(*state, b500, n500, 0);
    assert_int_equal(few.status, LDR_OK);
    assert_int_equal(many.status, LDR_OK);
    assert_true(few.hash == many.hash);
    expect(*state, b501, n501, LDR_CAUSE_LIMIT, "500 scans");
    expect(*state, b600, n600, LDR_CAUSE_LIMIT, "max_scans");
    free(b3);
    free(b500);
    free(b501);
    free(b600);
    free(rgb);
    expect_still_good(*state);
}

/* ---- damage ---- */

static void a_bad_ihdr_checksum(void **state)
{
    uint8_t *bytes = exact_copy(good_png, n_good_png);
    bytes[30] ^= 1;
    expect(*state, bytes, n_good_png, LDR_CAUSE_DAMAGED, "CRC");
    free(bytes);
}

static void damage_says_where(void **state)
{
    expect(*state, good_jpeg, n_good_jpeg * 6 / 10, LDR_CAUSE_DAMAGED,
           "jpeg data ends early at row");
    expect(*state, good_jpeg, n_good_jpeg * 6 / 10, LDR_CAUSE_DAMAGED, "of 75");
    expect(*state, good_png, n_good_png * 6 / 10, LDR_CAUSE_DAMAGED, "png data ends early at row");
    size_t n;
    helper_jpeg o;
    helper_jpeg_init(&o);
    o.progressive = 1;
    o.restart = 2;
    uint8_t *rgb = helper_draw(HELPER_PHOTO, W, H, 21);
    uint8_t *bytes = helper_jpeg_encode(rgb, W, H, &o, &n);
    expect(*state, bytes, n / 2, LDR_CAUSE_DAMAGED, "jpeg data ends early in scan");
    o.progressive = 0;
    free(bytes);
    bytes = helper_jpeg_encode(rgb, W, H, &o, &n);
    find_marker(bytes, n, 0xd2)[1] = 0xd5;
    expect(*state, bytes, n, LDR_CAUSE_DAMAGED, "restart marker");
    free(bytes);
    free(rgb);
    expect_still_good(*state);
}

/* Every cut within the headers, then about a hundred more.  A cut file is an error as a whole,
 * except where only what follows the pixels is missing; and it never gives other pixels. */
static void check_cuts(ldri_decoder *d, const uint8_t *bytes, size_t n, size_t n_header,
                       size_t n_behind, const char *what)
{
    outcome whole = try_rows(d, bytes, n, 0);
    assert_int_equal(whole.status, LDR_OK);
    for (size_t cut = 0; cut < n; cut += cut < n_header || cut + 40 > n ? 1 : 1 + n / 100) {
        outcome o = try_rows(d, bytes, cut, 0);
        if (o.status == LDR_OK) {
            if (cut + n_behind < n) fail_msg("%s: decoded though cut at %zu of %zu", what, cut, n);
            assert_true(o.hash == whole.hash);
        } else {
            check_text(&o.why);
            assert_int_not_equal(o.why.cause, LDR_CAUSE_NONE);
            if (cut > 8) assert_int_equal(o.why.cause, LDR_CAUSE_DAMAGED);
        }
    }
}

static void cut_files(void **state)
{
    uint8_t *rgb = helper_draw(HELPER_PHOTO, W, H, 22);
    for (int k = 0; k < 6; k++) {
        size_t n;
        uint8_t *bytes;
        if (k < 4) {
            helper_jpeg o;
            helper_jpeg_init(&o);
            helper_jpeg_sampling(&o, k % 2 ? "420" : "444");
            o.progressive = k / 2;
            o.restart = k == 1 ? 5 : 0;
            bytes = helper_jpeg_encode(rgb, W, H, &o, &n);
            check_cuts(*state, bytes, n, 700, 2, "jpeg");
        } else {
            helper_png o;
            helper_png_init(&o);
            o.interlaced = k == 5;
            bytes = helper_png_encode(rgb, W, H, &o, &n);
            /* CRC of the last pixels' chunk, Adler-32, end of the deflate block, IEND */
            check_cuts(*state, bytes, n, 100, 24, "png");
        }
        free(bytes);
    }
    free(rgb);
    expect_still_good(*state);
}

/* A file is judged by the rows down to the region's last one. */
static void rows_above_the_damage_are_good(void **state)
{
    outcome jpeg = try_rows(*state, good_jpeg, n_good_jpeg, H / 4);
    outcome png = try_rows(*state, good_png, n_good_png, H / 4);
    assert_int_equal(jpeg.status, LDR_OK);
    assert_int_equal(png.status, LDR_OK);
    outcome cut_jpeg = try_rows(*state, good_jpeg, n_good_jpeg * 8 / 10, H / 4);
    outcome cut_png = try_rows(*state, good_png, n_good_png * 8 / 10, H / 4);
    assert_int_equal(cut_jpeg.status, LDR_OK);
    assert_int_equal(cut_png.status, LDR_OK);
    assert_true(cut_jpeg.hash == jpeg.hash);
    assert_true(cut_png.hash == png.hash);
    assert_int_equal(try_rows(*state, good_jpeg, n_good_jpeg * 8 / 10, H).status, LDR_E_FORMAT);
    assert_int_equal(try_rows(*state, good_png, n_good_png * 8 / 10, H).status, LDR_E_FORMAT);
}

/* Flipped bits anywhere: no crash, and a used decoder does what a fresh one does. */
static void flipped_bits(void **state)
{
    uint64_t random = 31;
    uint8_t *rgb = helper_draw(HELPER_EDGES, W, H, 23);
    int refused = 0, accepted = 0;
    for (int k = 0; k < 1200; k++) {
        size_t n;
        uint8_t *bytes;
        ldri_decoder *fresh;
        if (k % 4 == 3) {
            helper_png o;
            helper_png_init(&o);
            o.interlaced = k % 8 == 7;
            o.colour_type = k % 12 == 3 ? 3 : 2;
            o.extras = 1;
            bytes = helper_png_encode(rgb, W, H, &o, &n);
        } else {
            helper_jpeg o;
            helper_jpeg_init(&o);
            helper_jpeg_sampling(&o, k % 5 ? "420" : "444");
            o.progressive = k % 4;
            o.restart = k % 3 ? 0 : 4;
            o.arithmetic = k % 16 == 0 && helper_jpeg_has_arithmetic();
            bytes = helper_jpeg_encode(rgb, W, H, &o, &n);
        }
        uint32_t range = (uint32_t)(k % 3 ? n : n < 700 ? n : 700);
        uint32_t flips = 1 + helper_below(&random, 4);
        for (uint32_t i = 0; i < flips; i++)
            bytes[helper_below(&random, range)] ^= (uint8_t)(1u << helper_below(&random, 8));
        ldri_limits small = limits;
        small.max_pixels = 1000000; /* a flipped size must not make the test slow */
        assert_int_equal(ldri_decoder_open(&fresh, &small), LDR_OK);
        outcome a = try_rows(fresh, bytes, n, 0);
        outcome b = try_rows(fresh, bytes, n, 0);
        expect_still_good(fresh);
        ldri_decoder_close(&fresh);
        if (a.status < 0) check_text(&a.why);
        if (a.status != b.status || a.hash != b.hash || strcmp(a.why.text, b.why.text) != 0)
            fail_msg("file %d: %s, then %s", k, a.why.text, b.why.text);
        *(a.status < 0 ? &refused : &accepted) += 1;
        free(bytes);
    }
    free(rgb);
    /* both happen, else the flips miss their aim */
    assert_true(refused > 200);
    assert_true(accepted > 20);
}

static void a_reason_need_not_be_asked_for(void **state)
{
    ldri_image_info info;
    uint8_t out[3 * W];
    assert_int_equal(ldri_decode_begin(*state, good_jpeg, 100, &info, NULL), LDR_E_FORMAT);
    ldri_decode_end(*state);
    ldri_decode_end(*state);
    size_t cut = n_good_jpeg / 2;
    assert_int_equal(ldri_decode_begin(*state, good_jpeg, cut, &info, NULL), LDR_OK);
    assert_int_equal(ldri_decode_region(*state, 0, H - 1, W, 1, out, sizeof out, NULL),
                     LDR_E_FORMAT);
    /* no end: begin makes up for it */
    assert_int_equal(ldri_decode_begin(*state, good_png, n_good_png, &info, NULL), LDR_OK);
    expect_still_good(*state);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { PLAIN_HEAP = 0 };
#else
enum { PLAIN_HEAP = 1 };
#endif

static void failures_leave_no_memory_behind(void **state)
{
    if (!PLAIN_HEAP) {
        print_message("under a sanitizer the heap is not the C library's\n");
        skip();
    }
    size_t before = 0;
    for (int round = 0; round < 60; round++) {
        for (size_t i = 1; i < 12; i++) {
            try_rows(*state, good_jpeg, n_good_jpeg * i / 12, 0);
            try_rows(*state, good_png, n_good_png * i / 12, 0);
        }
        if (round == 4) before = mallinfo2().uordblks;
    }
    size_t after = mallinfo2().uordblks;
    assert_true(after <= before + 4096);
}

/* The address space is limited to what is in use and a little more. */
static void limit_memory(struct rlimit *was)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) skip();
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, was), 0);
    struct rlimit now = *was;
    now.rlim_cur = pages * 4096 + (100u << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
}

/* It must not count as a bad sample: which one meets it is chance. */
static void lack_of_memory_is_not_the_files_fault(void **state)
{
    if (!PLAIN_HEAP) {
        print_message("a sanitizer's heap cannot be limited\n");
        skip();
    }
    size_t n_jpeg, n_png;
    helper_jpeg j;
    helper_png p;
    struct rlimit was;
    ldri_image_info info;
    ldri_failure why[2];
    ldr_status s[2];
    uint8_t out[3], *rgb = helper_draw(HELPER_PHOTO, W, H, 21);
    helper_jpeg_init(&j);
    j.progressive = 1;
    helper_png_init(&p);
    p.interlaced = 1;
    uint8_t *jpeg = helper_jpeg_encode(rgb, W, H, &j, &n_jpeg);
    uint8_t *png = helper_png_encode(rgb, W, H, &p, &n_png);
    set_jpeg_size(jpeg, n_jpeg, 0xc2, 10000, 10000);
    set_png_size(png, 10000, 10000);
    limit_memory(&was);
    for (int k = 0; k < 2; k++) {
        s[k] = ldri_decode_begin(*state, k ? png : jpeg, k ? n_png : n_jpeg, &info, &why[k]);
        if (s[k] == LDR_OK) s[k] = ldri_decode_region(*state, 0, 0, 1, 1, out, 3, &why[k]);
        ldri_decode_end(*state);
    }
    setrlimit(RLIMIT_AS, &was);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(s[k], LDR_E_NOMEM);
        assert_int_equal(why[k].cause, LDR_CAUSE_NONE);
        check_text(&why[k]);
        assert_non_null(strstr(why[k].text, "10000 x 10000"));
    }
    free(jpeg);
    free(png);
    free(rgb);
    expect_still_good(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_and_tiny_files),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(kinds_of_jpeg_that_are_not_decoded),
        cmocka_unit_test(apples_png),
        cmocka_unit_test(too_many_pixels),
        cmocka_unit_test(sides_of_zero),
        cmocka_unit_test(too_many_scans),
        cmocka_unit_test(a_bad_ihdr_checksum),
        cmocka_unit_test(damage_says_where),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(rows_above_the_damage_are_good),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(a_reason_need_not_be_asked_for),
        cmocka_unit_test(failures_leave_no_memory_behind),
        cmocka_unit_test(lack_of_memory_is_not_the_files_fault),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
