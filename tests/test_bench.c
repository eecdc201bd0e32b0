/* The parts of `ldr bench` that others lean on: libjpeg-turbo alone decodes what the loader's
 * decoder decodes; the driver counts what was done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loader/cmd_bench.h"
#include "loader/queue.h"
#include "tests/helper_images.h"

enum { WIDTH = 203, HEIGHT = 150 };

static const ldri_limits limits = {100000000, 500, (size_t)1 << 30};

static uint8_t *make_jpeg(const char *sampling, size_t *n)
{
    helper_jpeg o;
    helper_jpeg_init(&o);
    helper_jpeg_sampling(&o, sampling);
    uint8_t *rgb = helper_draw(HELPER_PHOTO, WIDTH, HEIGHT, 7);
    uint8_t *file = helper_jpeg_encode(rgb, WIDTH, HEIGHT, &o, n);
    free(rgb);
    return file;
}

static void decode_ours(const uint8_t *file, size_t n, uint32_t top, uint32_t height, uint8_t *out)
{
    ldri_decoder *d = NULL;
    ldri_image_info info;
    ldri_failure why;
    assert_int_equal(ldri_decoder_open(&d, &limits), LDR_OK);
    assert_int_equal(ldri_decode_begin(d, file, n, &info, &why), LDR_OK);
    assert_int_equal(ldri_decode_region(d, 0, top, WIDTH, height, out, 3 * WIDTH, &why), LDR_OK);
    ldri_decoder_close(&d);
}

static void bare_pixels_are_ours(void **state)
{
    static const char *const samplings[] = {"444", "420", "422"};
    ldri_bare_jpeg *bare = NULL;
    assert_int_equal(ldri_bare_jpeg_open(&bare), LDR_OK);
    for (size_t k = 0; k < 3; k++) {
        size_t n;
        uint8_t *file = make_jpeg(samplings[k], &n);
        uint8_t *ours = malloc(3 * WIDTH * HEIGHT);
        uint8_t *theirs = malloc(ldri_bare_jpeg_bytes(WIDTH, HEIGHT));
        decode_ours(file, n, 0, HEIGHT, ours);
        assert_int_equal(ldri_bare_jpeg_decode(bare, file, n, 0, 0, WIDTH, HEIGHT, theirs), LDR_OK);
        assert_memory_equal(ours, theirs, 3 * WIDTH * HEIGHT);
        decode_ours(file, n, 35, 70, ours);
        assert_int_equal(ldri_bare_jpeg_decode(bare, file, n, 0, 35, WIDTH, 70, theirs), LDR_OK);
        assert_memory_equal(ours, theirs, 3 * WIDTH * 70);
        free(theirs);
        free(ours);
        free(file);
    }
    ldri_bare_jpeg_close(&bare);
    assert_null(bare);
}

static void bare_part_stays_in_its_room(void **state)
{
    uint64_t random = 11;
    size_t n;
    ldri_bare_jpeg *bare = NULL;
    uint8_t *file = make_jpeg("420", &n);
    assert_int_equal(ldri_bare_jpeg_open(&bare), LDR_OK);
    for (int k = 0; k < 50; k++) {
        uint32_t w = 1 + helper_below(&random, WIDTH), h = 1 + helper_below(&random, HEIGHT);
        uint32_t left = helper_below(&random, WIDTH - w + 1);
        uint32_t top = helper_below(&random, HEIGHT - h + 1);
        size_t room = ldri_bare_jpeg_bytes(w, h);
        uint8_t *out = malloc(room + 64);
        memset(out + room, 0x5a, 64);
        if (ldri_bare_jpeg_decode(bare, file, n, left, top, w, h, out) != LDR_OK)
            fail_msg("box %u: %u,%u %ux%u", (unsigned)k, left, top, w, h);
        for (int i = 0; i < 64; i++) assert_int_equal(out[room + (size_t)i], 0x5a);
        free(out);
    }
    ldri_bare_jpeg_close(&bare);
    free(file);
}

static void bare_gives_up_and_goes_on(void **state)
{
    size_t n;
    ldri_bare_jpeg *bare = NULL;
    uint8_t *file = make_jpeg("444", &n);
    uint8_t *out = malloc(ldri_bare_jpeg_bytes(WIDTH, HEIGHT));
    assert_int_equal(ldri_bare_jpeg_open(&bare), LDR_OK);
    assert_int_equal(
        ldri_bare_jpeg_decode(bare, (const uint8_t *)"no picture", 10, 0, 0, 1, 1, out),
        LDR_E_FORMAT);
    assert_int_equal(ldri_bare_jpeg_decode(bare, file, n, 0, 0, WIDTH, HEIGHT, out), LDR_OK);
    ldri_bare_jpeg_close(&bare);
    free(out);
    free(file);
}

static void libraries_are_told(void **state)
{
    ldri_libraries l;
    ldri_decode_libraries(&l);
    assert_true(l.png_built[0] && l.png_runs[0] && l.zlib_built[0] && l.zlib_runs[0]);
    if (!l.jpeg_is_turbo) skip();
    assert_true(l.jpeg_built[0] >= '1' && l.jpeg_built[0] <= '9');
    assert_true(l.jpeg_runs[0] == 0 || (l.jpeg_runs[0] >= '1' && l.jpeg_runs[0] <= '9'));
}

static _Atomic uint64_t seen; /* sum of the items' numbers */

static void add_step(ldri_bench_worker *w, uint64_t k)
{
    atomic_fetch_add(&seen, k);
    w->count.items++;
    w->count.pixels += 10;
    w->count.bytes += 100;
    for (uint64_t start = ldri_now_ns(); ldri_now_ns() - start < 20000;) {
    }
}

static void driver_counts_each_item_once(void **state)
{
    ldri_bench_worker workers[3];
    ldri_bench b = {.n_workers = 3, .workers = workers};
    ldri_bench_rate rate;
    ldr_error err;
    memset(workers, 0, sizeof workers);
    for (uint32_t i = 0; i < 3; i++) workers[i] = (ldri_bench_worker){.bench = &b, .id = i};
    for (int round = 0; round < 3; round++) {
        atomic_store(&seen, 0);
        assert_int_equal(ldri_bench_drive(&b, add_step, 5, 0.02, &rate, &err), LDR_OK);
        uint64_t n = 0, expected = 0;
        double longest = 0;
        for (int i = 0; i < 3; i++) {
            assert_true(workers[i].count.items >= 1);
            n += workers[i].count.items;
            if (workers[i].seconds > longest) longest = workers[i].seconds;
        }
        for (uint64_t k = 0; k < n; k++) expected += 5 + k;
        assert_true(atomic_load(&seen) == expected);
        assert_true(rate.images > 0 && rate.images * longest >= 0.999 * (double)n);
        assert_true(rate.pixels > 9.99 * rate.images && rate.pixels < 10.01 * rate.images);
        assert_true(rate.bytes > 99.9 * rate.images && rate.bytes < 100.1 * rate.images);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bare_pixels_are_ours),
        cmocka_unit_test(bare_part_stays_in_its_room),
        cmocka_unit_test(bare_gives_up_and_goes_on),
        cmocka_unit_test(libraries_are_told),
        cmocka_unit_test(driver_counts_each_item_once),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
