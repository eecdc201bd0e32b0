/* Options: defaults, other versions' sizes, presets, and the range of each field. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/options.h"

static ldr_options good(void)
{
    ldr_options o;
    ldr_options_init(&o);
    o.source = "photos";
    return o;
}

static void defaults_are_those_of_the_header(void **state)
{
    ldr_options o;
    memset(&o, 0xa5, sizeof o);
    ldr_options_init(&o);
    assert_int_equal(o.size, sizeof o);
    assert_null(o.source);
    assert_int_equal(o.class_order, LDR_ORDER_BYTES);
    assert_int_equal(o.follow_links, 0);
    assert_int_equal(o.batch, 64);
    assert_int_equal(o.width, 224);
    assert_int_equal(o.height, 224);
    assert_int_equal(o.dtype, LDR_F32);
    assert_int_equal(o.layout, LDR_NCHW);
    assert_int_equal(o.seed, 0);
    assert_int_equal(o.first_epoch, 0);
    assert_int_equal(o.epochs, 1);
    assert_int_equal(o.shuffle, 1);
    assert_int_equal(o.keep_last, 1);
    assert_int_equal(o.rank, 0);
    assert_int_equal(o.world, 1);
    assert_int_equal(o.view, LDR_VIEW_EVAL);
    assert_int_equal(o.filter, LDR_BICUBIC);
    assert_true(o.scale[0] == 0.08f && o.scale[1] == 1.0f);
    assert_true(o.ratio[0] == 0.75f && o.ratio[1] == 4.0f / 3.0f);
    assert_true(o.crop_pct == 0.875);
    assert_true(o.hflip == 0.0f && o.vflip == 0.0f);
    assert_true(o.mean[0] == 0.485f && o.mean[1] == 0.456f && o.mean[2] == 0.406f);
    assert_true(o.std[0] == 0.229f && o.std[1] == 0.224f && o.std[2] == 0.225f);
    assert_int_equal(o.device, LDR_DEVICE_AUTO);
    assert_int_equal(o.threads, 0);
    assert_int_equal(o.depth, 4);
    assert_int_equal(o.pinned_limit, 0);
    assert_int_equal(o.decode_limit, 1 << 30);
    assert_int_equal(o.max_pixels, 100000000);
    assert_int_equal(o.max_scans, 500);
    assert_int_equal(o.max_file, 1 << 30);
    assert_int_equal(o.on_bad, LDR_BAD_REPLACE);
    assert_true(o.brightness == 0.0f && o.contrast == 0.0f && o.saturation == 0.0f);
    assert_true(o.hue == 0.0f && o.jitter_prob == 1.0f && o.grayscale_prob == 0.0f);
    assert_true(o.mixup_alpha == 0.0f && o.cutmix_alpha == 0.0f);
    assert_true(o.mix_prob == 1.0f && o.mix_switch_prob == 0.5f && o.mix_pair == 0);
    assert_true(o.erase_prob == 0.0f && o.erase_aspect == 0.3f);
    assert_true(o.erase_area[0] == 0.02f && o.erase_area[1] == 1.0f / 3.0f);
    assert_int_equal(o.erase_mode, LDR_ERASE_CONST);
    assert_true(o.erase_count[0] == 1 && o.erase_count[1] == 1);
    assert_true(!o.after && !o.after_user && o.device_id == 0 && o.device_limit == 0);
}

static void presets_set_only_what_they_name(void **state)
{
    ldr_options o = good(), before;
    o.scale[0] = 0.5f;
    o.crop_pct = 0.9;
    before = o;
    ldr_options_train(&o, 160);
    assert_int_equal(o.width, 160);
    assert_int_equal(o.height, 160);
    assert_int_equal(o.view, LDR_VIEW_TRAIN);
    assert_int_equal(o.filter, LDR_BILINEAR);
    assert_true(o.hflip == 0.5f);
    before.width = before.height = 160;
    before.view = LDR_VIEW_TRAIN;
    before.filter = LDR_BILINEAR;
    before.hflip = 0.5f;
    assert_memory_equal(&o, &before, sizeof o);

    o.vflip = 0.25f;
    before.vflip = 0.0f;
    ldr_options_eval(&o, 96);
    before.width = before.height = 96;
    before.view = LDR_VIEW_EVAL;
    before.filter = LDR_BICUBIC;
    before.hflip = 0.0f;
    before.shuffle = 0;
    before.keep_last = 1;
    assert_memory_equal(&o, &before, sizeof o);
    ldr_options_train(NULL, 1);
    ldr_options_eval(NULL, 1);
}

/* An older caller's struct ends before our last fields; what lies behind it is not ours. */
static void smaller_structs_are_completed(void **state)
{
    unsigned char memory[sizeof(ldr_options) + 16];
    ldr_options *o = (ldr_options *)(void *)memory;
    const size_t ends[] = {offsetof(ldr_options, class_order), offsetof(ldr_options, width),
                           offsetof(ldr_options, view), offsetof(ldr_options, hflip),
                           offsetof(ldr_options, max_pixels)};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        memset(memory, 0x5a, sizeof memory);
        ldr_options_init_sized(o, ends[i]);
        o->source = "photos";
        ldr_options_train(o, 100);
        ldr_options_eval(o, 100);
        ldr_options_train(o, 100);
        for (size_t k = ends[i]; k < sizeof memory; k++) assert_int_equal(memory[k], 0x5a);
        assert_int_equal(o->size, ends[i]);
        ldr_options out;
        ldr_error err;
        assert_int_equal(ldri_options_resolve(o, &out, &err), LDR_OK);
        assert_int_equal(out.size, sizeof out);
        assert_string_equal(out.source, "photos");
        assert_int_equal(out.max_pixels, 100000000);
        assert_int_equal(out.on_bad, LDR_BAD_REPLACE);
        assert_int_equal(out.width, ends[i] > offsetof(ldr_options, width) ? 100 : 224);
        assert_true(out.hflip == (ends[i] > offsetof(ldr_options, hflip) ? 0.5f : 0.0f));
    }
    memset(memory, 0x5a, sizeof memory);
    ldr_options_init_sized(o, sizeof(size_t) - 1); /* not even the size fits: nothing is written */
    assert_int_equal(memory[0], 0x5a);
    ldr_options_init_sized(NULL, sizeof *o);
}

static void larger_structs_must_be_zero_behind(void **state)
{
    struct {
        ldr_options o;
        uint64_t newer[4];
    } wide;
    memset(&wide, 0xff, sizeof wide);
    ldr_options_init_sized(&wide.o, sizeof wide);
    assert_int_equal(wide.o.size, sizeof wide);
    for (int i = 0; i < 4; i++) assert_int_equal(wide.newer[i], 0);
    wide.o.source = "photos";
    ldr_options out;
    ldr_error err;
    assert_int_equal(ldri_options_resolve(&wide.o, &out, &err), LDR_OK);
    assert_int_equal(out.size, sizeof out);
    wide.newer[3] = (uint64_t)1 << 56;
    assert_int_equal(ldri_options_resolve(&wide.o, &out, &err), LDR_E_INVALID);
    assert_non_null(strstr(err.message, "does not know"));
}

static void refused(const ldr_options *o, const char *word)
{
    ldr_options out;
    memset(&out, 0x77, sizeof out);
    ldr_options before = out;
    ldr_error err = {0};
    if (ldri_options_resolve(o, &out, &err) != LDR_E_INVALID) fail_msg("%s was accepted", word);
    assert_int_equal(err.status, LDR_E_INVALID);
    if (strncmp(err.message, word, strlen(word)) != 0 || !strstr(err.message, ": ")) {
        fail_msg("message about %s: %s", word, err.message);
    }
    assert_memory_equal(&out, &before, sizeof out);
    assert_int_equal(ldri_options_resolve(o, &out, NULL), LDR_E_INVALID);
}

static void accepted(const ldr_options *o)
{
    ldr_options out;
    ldr_error err = {0};
    if (ldri_options_resolve(o, &out, &err) != LDR_OK) fail_msg("refused: %s", err.message);
    assert_memory_equal(&out, o, sizeof out);
}

#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        ldr_options changed = good();                                                              \
        changed.field = (value);                                                                   \
        refused(&changed, #field);                                                                 \
    } while (0)
#define ACCEPTED(field, value)                                                                     \
    do {                                                                                           \
        ldr_options changed = good();                                                              \
        changed.field = (value);                                                                   \
        accepted(&changed);                                                                        \
    } while (0)

static void whole_numbers_have_ranges(void **state)
{
    REFUSED(batch, 0);
    ACCEPTED(batch, 1);
    ACCEPTED(batch, 65536);
    REFUSED(batch, 65537);
    REFUSED(width, 0);
    ACCEPTED(width, 16384);
    REFUSED(width, 16385);
    REFUSED(height, 0);
    ACCEPTED(height, 1);
    REFUSED(height, UINT32_MAX);
    REFUSED(depth, 0);
    ACCEPTED(depth, 1);
    ACCEPTED(depth, 64);
    REFUSED(depth, 65);
    ACCEPTED(threads, 1024);
    REFUSED(threads, 1025);
    REFUSED(follow_links, 2);
    REFUSED(shuffle, 2);
    REFUSED(keep_last, 7);
    ACCEPTED(epochs, 0);
    ACCEPTED(epochs, (uint64_t)1 << 32);
    REFUSED(epochs, ((uint64_t)1 << 32) + 1);
    ACCEPTED(first_epoch, UINT32_MAX);
    REFUSED(first_epoch, (uint64_t)1 << 32);
    ACCEPTED(seed, UINT64_MAX);
    REFUSED(max_pixels, 0);
    REFUSED(decode_limit, 0);
    REFUSED(max_scans, 0);
    REFUSED(max_file, 0);
    ACCEPTED(pinned_limit, SIZE_MAX);
    REFUSED(world, 0);
    REFUSED(world, -1);
    REFUSED(rank, 1);
    REFUSED(rank, -1);
    ldr_options o = good();
    o.world = 8;
    o.rank = 7;
    accepted(&o);
    o.rank = 8;
    refused(&o, "rank is 8: give 0 to 7");
    o = good();
    o.batch = 0;
    refused(&o, "batch is 0: give 1 to 65536");
    o = good();
    o.first_epoch = UINT32_MAX;
    o.epochs = 2;
    refused(&o, "epochs");
}

static void choices_have_names(void **state)
{
    REFUSED(class_order, (ldr_order)2);
    REFUSED(dtype, (ldr_dtype)4);
    REFUSED(layout, (ldr_layout)-1);
    REFUSED(view, (ldr_view)3);
    REFUSED(filter, (ldr_filter)4);
    REFUSED(device, (ldr_device)3);
    REFUSED(erase_mode, (ldr_erase)3);
    ACCEPTED(filter, LDR_NEAREST);
    ACCEPTED(device, LDR_DEVICE_CUDA);
    ACCEPTED(erase_mode, LDR_ERASE_PIXEL);
    REFUSED(on_bad, (ldr_on_bad)3);
    ACCEPTED(class_order, LDR_ORDER_NATURAL);
    ACCEPTED(dtype, LDR_U8);
    ACCEPTED(layout, LDR_NHWC);
    ACCEPTED(view, LDR_VIEW_SQUASH);
    ACCEPTED(filter, LDR_RANDOM_FILTER);
    ACCEPTED(device, LDR_DEVICE_CPU);
    ACCEPTED(on_bad, LDR_BAD_MARK);
}

static void real_numbers_have_ranges(void **state)
{
    const float bad_pairs[][2] = {{0.0f, 1.0f}, {-1.0f, 1.0f},    {0.5f, 0.4f}, {NAN, 1.0f},
                                  {0.5f, NAN},  {0.5f, INFINITY}, {NAN, NAN},   {INFINITY, 1e30f}};
    for (size_t i = 0; i < sizeof bad_pairs / sizeof *bad_pairs; i++) {
        ldr_options o = good();
        memcpy(o.scale, bad_pairs[i], sizeof o.scale);
        refused(&o, "scale");
        o = good();
        memcpy(o.ratio, bad_pairs[i], sizeof o.ratio);
        refused(&o, "ratio");
        o = good();
        memcpy(o.erase_area, bad_pairs[i], sizeof o.erase_area);
        refused(&o, "erase_area");
    }
    ldr_options o = good();
    o.scale[0] = o.scale[1] = 1.0f;
    o.ratio[0] = o.ratio[1] = 2.0f;
    accepted(&o);
    REFUSED(crop_pct, 0.0);
    REFUSED(crop_pct, -0.5);
    REFUSED(crop_pct, 1.0001);
    REFUSED(crop_pct, (double)NAN);
    ACCEPTED(crop_pct, 1.0);
    REFUSED(hflip, -0.1f);
    REFUSED(hflip, 1.5f);
    REFUSED(hflip, NAN);
    ACCEPTED(hflip, 1.0f);
    REFUSED(vflip, NAN);
    REFUSED(vflip, 2.0f);
    REFUSED(mean[0], NAN);
    REFUSED(mean[2], INFINITY);
    ACCEPTED(mean[1], -3.0f);
    REFUSED(std[0], 0.0f);
    REFUSED(std[1], -1.0f);
    REFUSED(std[2], NAN);
    REFUSED(std[0], INFINITY);
}

static void augmentation_has_ranges(void **state)
{
    REFUSED(brightness, -0.1f);
    REFUSED(brightness, 100.1f);
    REFUSED(contrast, NAN);
    REFUSED(saturation, INFINITY);
    ACCEPTED(contrast, 0.4f);
    ACCEPTED(saturation, 100.0f);
    REFUSED(hue, 0.51f);
    REFUSED(hue, -0.1f);
    ACCEPTED(hue, 0.5f);
    REFUSED(jitter_prob, 1.1f);
    REFUSED(grayscale_prob, NAN);
    REFUSED(mixup_alpha, -1.0f);
    REFUSED(cutmix_alpha, INFINITY);
    ACCEPTED(mixup_alpha, 0.8f);
    REFUSED(mix_prob, 2.0f);
    REFUSED(mix_switch_prob, -0.5f);
    REFUSED(mix_pair, 2);
    ACCEPTED(mix_pair, 1);
    REFUSED(erase_prob, 1.5f);
    REFUSED(erase_area[1], 1.5f);
    REFUSED(erase_aspect, 0.0f);
    REFUSED(erase_aspect, 1.1f);
    REFUSED(erase_aspect, NAN);
    ACCEPTED(erase_aspect, 1.0f);
    REFUSED(erase_count[0], 0);
    REFUSED(erase_count[1], 0); /* below the other */
    REFUSED(erase_count[1], 9);
    ACCEPTED(erase_count[1], 8);
    REFUSED(device_id, -1);
    ACCEPTED(device_id, 3);
}

static void noise_has_room_for_so_many_values(void **state)
{
    ldr_options o = good();
    o.width = 1024;
    o.height = 1365;
    o.erase_mode = LDR_ERASE_PIXEL;
    o.erase_prob = 0.5f;
    accepted(&o);
    o.height = 1366;
    refused(&o, "erase_mode");
    o.erase_mode = LDR_ERASE_RAND;
    accepted(&o);
    o.erase_mode = LDR_ERASE_PIXEL;
    o.erase_prob = 0.0f;
    accepted(&o);
}

static void nothing_given_is_refused(void **state)
{
    ldr_options out, o = good();
    ldr_error err;
    assert_int_equal(ldri_options_resolve(NULL, &out, &err), LDR_E_INVALID);
    REFUSED(source, NULL);
    REFUSED(source, "");
    const size_t sizes[] = {0, 7, 65537, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        o = good();
        o.size = sizes[i];
        refused(&o, "size");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_header),
        cmocka_unit_test(presets_set_only_what_they_name),
        cmocka_unit_test(smaller_structs_are_completed),
        cmocka_unit_test(larger_structs_must_be_zero_behind),
        cmocka_unit_test(whole_numbers_have_ranges),
        cmocka_unit_test(choices_have_names),
        cmocka_unit_test(real_numbers_have_ranges),
        cmocka_unit_test(augmentation_has_ranges),
        cmocka_unit_test(noise_has_room_for_so_many_values),
        cmocka_unit_test(nothing_given_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
