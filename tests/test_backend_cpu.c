/* The CPU back end through its table of functions, as the core uses it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <cmocka.h>

#include "gpu/normalise.h"
#include "loader/backend.h"
#include "tests/crops.h"

#define WIDTH  40u
#define HEIGHT 30u
#define BATCH  5u

static ldri_backend_config config_of(ldr_dtype dtype, ldr_layout layout)
{
    ldri_backend_config c = {.batch = BATCH,
                             .width = WIDTH,
                             .height = HEIGHT,
                             .dtype = dtype,
                             .layout = layout,
                             .mean = {0.485f, 0.456f, 0.406f},
                             .std = {0.229f, 0.224f, 0.225f},
                             .n_hosts = 2,
                             .n_outputs = 3,
                             .arena_bytes = 1 << 20};
    return c;
}

static void find_gives_the_cpu(void **unused)
{
    ldr_error err;
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, &err);
    assert_non_null(cpu);
    assert_string_equal(cpu->name, "cpu");
    assert_int_equal(cpu->device, LDR_DEVICE_CPU);
    assert_true(cpu->augments_in_workers);
    assert_non_null(ldri_backend_find(LDR_DEVICE_AUTO, &err));
    assert_null(ldri_backend_find((ldr_device)77, &err));
    assert_int_equal(err.status, LDR_E_INVALID);
    assert_non_null(strstr(err.message, "77"));
    assert_null(ldri_backend_find((ldr_device)77, NULL));
}

static void memory_is_laid_out_and_counted(void **unused)
{
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, NULL);
    ldri_backend_config c = config_of(LDR_F32, LDR_NCHW);
    ldri_backend *be;
    assert_int_equal(cpu->open(&be, &c, NULL), LDR_OK);
    uint8_t *last = NULL;
    for (uint32_t i = 0; i < c.n_hosts; i++) {
        ldri_host_arena a;
        cpu->host_arena(be, i, &a);
        uint8_t *start = (uint8_t *)a.descriptors;
        assert_true(start != last);
        last = start;
        assert_int_equal((uintptr_t)a.descriptors % 64, 0);
        assert_int_equal((uintptr_t)a.labels % 64, 0);
        assert_int_equal((uintptr_t)a.pixels % 64, 0);
        assert_true((uint8_t *)a.labels >= start + BATCH * sizeof(ldri_descriptor));
        assert_true(a.pixels >= (uint8_t *)a.labels + BATCH * sizeof(int64_t));
        memset(start, 1, (size_t)(a.pixels - start) + c.arena_bytes); /* all of it is ours */
    }
    for (uint32_t i = 0; i < c.n_outputs; i++) {
        ldri_output o;
        cpu->output(be, i, &o);
        assert_int_equal((uintptr_t)o.images % 64, 0);
        assert_null(o.labels);
        memset(o.images, 1, (size_t)BATCH * 3 * WIDTH * HEIGHT * 4);
    }
    uint64_t pinned, device, host;
    cpu->memory(be, &pinned, &device, &host);
    assert_true(pinned >= c.n_hosts * (uint64_t)c.arena_bytes);
    assert_int_equal(device, 0);
    assert_true(host >= c.n_outputs * (uint64_t)BATCH * 3 * WIDTH * HEIGHT * 4);
    cpu->close(be);
}

static void sizes_that_cannot_be_are_refused(void **unused)
{
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, NULL);
    ldr_error err;
    ldri_backend *be = NULL;
    ldri_backend_config c = config_of(LDR_F32, LDR_NCHW);
    c.batch = 1u << 31;
    c.width = c.height = 1u << 20;
    assert_int_equal(cpu->open(&be, &c, &err), LDR_E_LIMIT);
    assert_int_equal(err.status, LDR_E_LIMIT);
    assert_non_null(strstr(err.message, "lower"));
    c = config_of(LDR_F32, LDR_NCHW);
    c.width = c.height = UINT32_MAX;
    assert_int_equal(cpu->open(&be, &c, &err), LDR_E_LIMIT);
    assert_null(be);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    c = config_of(LDR_F32, LDR_NCHW);
    c.arena_bytes = (size_t)1 << 61; /* more than there is; sanitizers abort on it */
    assert_int_equal(cpu->open(&be, &c, &err), LDR_E_NOMEM);
    assert_non_null(strstr(err.message, "host arenas"));
    assert_null(be);
#endif
}

/* Sample i of the arena: a crop drawn into it at *used. */
static void add_sample(const ldri_host_arena *a, uint32_t i, size_t *used, uint32_t n_x,
                       uint32_t n_y, int hflip, int vflip)
{
    ldri_descriptor d = {.filter = i % 2 ? LDR_BICUBIC : LDR_BILINEAR};
    d.hflip = (uint8_t)hflip;
    d.vflip = (uint8_t)vflip;
    d.x = whole_axis(n_x, WIDTH);
    d.y = whole_axis(n_y, HEIGHT);
    uint8_t *crop = draw_crop(&d, 0, i, 0, 0);
    d.offset = *used;
    memcpy(a->pixels + *used, crop, crop_bytes(&d));
    *used += ((size_t)d.pitch * n_y + 63) / 64 * 64;
    free(crop);
    a->descriptors[i] = d;
}

static void check_batch(ldr_dtype dtype, ldr_layout layout)
{
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, NULL);
    ldri_backend_config c = config_of(dtype, layout);
    ldri_backend *be;
    ldr_error err;
    assert_int_equal(cpu->open(&be, &c, &err), LDR_OK);
    ldri_scratch *scratch = cpu->scratch_open(be);
    assert_non_null(scratch);
    ldri_host_arena a;
    ldri_output o;
    cpu->host_arena(be, 1, &a);
    cpu->output(be, 2, &o);

    size_t used = 0, element = ldri_dtype_bytes(dtype);
    size_t image = 3 * (size_t)WIDTH * HEIGHT * element;
    memset(o.images, 0x5A, image * BATCH);
    for (uint32_t i = 0; i < BATCH; i++)
        add_sample(&a, i, &used, 60 + i, 50 + 7 * i, i & 1, i >> 1 & 1);

    /* The last one comes final: what resample_sample makes stands in the arena. */
    size_t pitch = ldri_pitch(WIDTH);
    uint8_t *final = malloc(pitch * HEIGHT);
    assert_non_null(final);
    ldri_descriptor *last = &a.descriptors[BATCH - 1];
    assert_int_equal(cpu->resample_sample(be, scratch, last, a.pixels + last->offset, final),
                     LDR_OK);
    last->kind = LDRI_RGB_FINAL;
    last->offset = used;
    last->pitch = (uint32_t)pitch;
    memcpy(a.pixels + used, final, pitch * HEIGHT);

    for (uint32_t k = 0; k < BATCH; k++) { /* any order */
        uint32_t i = k * 3 % BATCH;
        assert_int_equal(cpu->augment_sample(be, scratch, 1, i, 2), LDR_OK);
    }
    assert_int_equal(cpu->submit(be, 1, 2, BATCH, used, &err), LDR_OK);
    assert_int_equal(cpu->host_reusable(be, 1, 0), 1);
    assert_int_equal(cpu->acquire(be, 2, NULL, &err), LDR_OK);

    uint8_t *expected = malloc(image);
    assert_non_null(expected);
    ldri_normaliser z;
    ldri_normaliser_init(&z, &ldri_normalise_plain, WIDTH, HEIGHT, dtype, layout, c.mean, c.std);
    for (uint32_t i = 0; i < BATCH; i++) {
        const ldri_descriptor *d = &a.descriptors[i];
        if (d->kind == LDRI_RGB_CROP)
            assert_int_equal(cpu->resample_sample(be, scratch, d, a.pixels + d->offset, final),
                             LDR_OK);
        else
            memcpy(final, a.pixels + d->offset, pitch * HEIGHT);
        ldri_normaliser_store(&z, final, pitch, d->hflip, d->vflip, expected);
        assert_memory_equal((uint8_t *)o.images + i * image, expected, image);
    }
    assert_int_equal(cpu->release(be, 2, NULL, &err), LDR_OK);
    free(expected);
    free(final);
    cpu->scratch_close(scratch);
    cpu->close(be);
}

static void samples_go_through_the_chain(void **unused)
{
    for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++)
        for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++)
            check_batch((ldr_dtype)dtype, (ldr_layout)layout);
}

/* A flat crop's value is known without any of our code. */
static void a_flat_picture_has_the_known_value(void **unused)
{
    const ldri_backend_ops *cpu = ldri_backend_find(LDR_DEVICE_CPU, NULL);
    ldri_backend_config c = config_of(LDR_F32, LDR_NCHW);
    ldri_backend *be;
    assert_int_equal(cpu->open(&be, &c, NULL), LDR_OK);
    ldri_scratch *scratch = cpu->scratch_open(be);
    assert_non_null(scratch);
    ldri_host_arena a;
    ldri_output o;
    cpu->host_arena(be, 0, &a);
    cpu->output(be, 0, &o);
    ldri_descriptor d = {.filter = LDR_BICUBIC, .pitch = ldri_pitch(100)};
    d.x = whole_axis(100, WIDTH);
    d.y = whole_axis(80, HEIGHT);
    memset(a.pixels, 77, (size_t)d.pitch * 80);
    a.descriptors[0] = d;
    assert_int_equal(cpu->augment_sample(be, scratch, 0, 0, 0), LDR_OK);
    const float *v = o.images;
    for (uint32_t i = 0; i < 3 * WIDTH * HEIGHT; i++) {
        uint32_t channel = i / (WIDTH * HEIGHT);
        double exact = (77.0 / 255.0 - c.mean[channel]) / c.std[channel];
        assert_true(fabs(v[i] - exact) < 1e-6);
    }
    /* A descriptor of nothing is a black picture, whatever is in the arena. */
    a.descriptors[0].x.count = 0;
    assert_int_equal(cpu->augment_sample(be, scratch, 0, 0, 0), LDR_OK);
    assert_true(fabs(v[0] + 0.485 / 0.229) < 1e-6);
    assert_true(fabs(v[3 * WIDTH * HEIGHT - 1] + 0.406 / 0.225) < 1e-6);
    cpu->scratch_close(scratch);
    cpu->close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_gives_the_cpu),
        cmocka_unit_test(memory_is_laid_out_and_counted),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(samples_go_through_the_chain),
        cmocka_unit_test(a_flat_picture_has_the_known_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
