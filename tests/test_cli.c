/* The command line: values, presets, refusals, help that fits a screen; the table of waits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/cli.h"
#include "loader/cmd.h"

static const ldri_cli_verb run = {"run", LDRI_VERB_RUN,         {"SOURCE"},
                                  "",    "One line.\nAnother.", NULL};
static const ldri_cli_verb plan = {"plan", LDRI_VERB_PLAN, {"SOURCE"}, "", "One.\nTwo.", NULL};
static const ldri_cli_verb preview = {"preview", LDRI_VERB_PREVIEW, {"SOURCE"},
                                      "",        "One.\nTwo.",      NULL};
static const ldri_cli_verb decode = {"decode", LDRI_VERB_DECODE, {"FILE", "OUT"},
                                     "",       "One.\nTwo.",     NULL};

/* Parses words separated by single blanks. */
static ldr_status parse(ldri_cli *cli, const ldri_cli_verb *verb, const char *line, ldr_error *err)
{
    static char words[512];
    char *argv[64];
    int argc = 0;
    assert_true(strlen(line) < sizeof words);
    strcpy(words, line);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) argv[argc++] = w;
    memset(err, 0, sizeof *err);
    return ldri_cli_parse(cli, verb, argc, argv, err);
}

static ldri_cli accept(const char *line)
{
    ldri_cli cli;
    ldr_error err;
    ldr_status s = parse(&cli, &run, line, &err);
    if (s != LDR_OK) print_error("%s: %s\n", line, err.message);
    assert_int_equal(s, LDR_OK);
    return cli;
}

static void refuse(const ldri_cli_verb *verb, const char *line, const char *part)
{
    ldri_cli cli;
    ldr_error err;
    assert_int_equal(parse(&cli, verb, line, &err), LDR_E_INVALID);
    if (!strstr(err.message, part)) print_error("%s: %s\n", line, err.message);
    assert_non_null(strstr(err.message, part));
    assert_null(strchr(err.message, '\n'));
}

static void defaults_are_documented_ones(void **state)
{
    ldri_cli cli = accept("photos");
    const ldr_options *o = &cli.options;
    assert_string_equal(cli.args[0], "photos");
    assert_int_equal(o->view, LDR_VIEW_TRAIN);
    assert_int_equal(o->filter, LDR_BILINEAR);
    assert_true(o->hflip == 0.5f && o->vflip == 0.0f);
    assert_int_equal(o->width, 224);
    assert_int_equal(o->height, 224);
    assert_int_equal(o->batch, 64);
    assert_int_equal(o->epochs, 1);
    assert_int_equal(o->first_epoch, 0);
    assert_int_equal(o->seed, 0);
    assert_int_equal(o->threads, 0);
    assert_int_equal(o->depth, 4);
    assert_int_equal(o->device, LDR_DEVICE_AUTO);
    assert_int_equal(o->dtype, LDR_F32);
    assert_int_equal(o->layout, LDR_NCHW);
    assert_int_equal(o->shuffle, 1);
    assert_int_equal(o->keep_last, 1);
    assert_int_equal(o->on_bad, LDR_BAD_REPLACE);
    assert_false(cli.json);
}

static void every_kind_of_value(void **state)
{
    ldri_cli cli =
        accept("--batch 7 s --seed=18446744073709551615 --dtype bf16 --layout=nhwc --rank 3 "
               "--world 4 --scale 0.25,1e0 --ratio 1,2.5 --mean 0,0.5,1 --crop-pct .95 --hflip 0 "
               "--pinned-limit 512M --max-file 3k --max-pixels 1000 --shuffle 0 --follow-links 1 "
               "--class-order natural --on-bad mark --epoch 5 --epochs 0 --json");
    const ldr_options *o = &cli.options;
    assert_string_equal(cli.args[0], "s");
    assert_int_equal(o->batch, 7);
    assert_true(o->seed == UINT64_MAX);
    assert_int_equal(o->dtype, LDR_BF16);
    assert_int_equal(o->layout, LDR_NHWC);
    assert_int_equal(o->rank, 3);
    assert_int_equal(o->world, 4);
    assert_true(o->scale[0] == 0.25f && o->scale[1] == 1.0f);
    assert_true(o->ratio[0] == 1.0f && o->ratio[1] == 2.5f);
    assert_true(o->mean[0] == 0.0f && o->mean[1] == 0.5f && o->mean[2] == 1.0f);
    assert_true(o->crop_pct == 0.95);
    assert_true(o->hflip == 0.0f);
    assert_true(o->pinned_limit == (size_t)512 << 20);
    assert_true(o->max_file == 3072);
    assert_true(o->max_pixels == 1000);
    assert_int_equal(o->shuffle, 0);
    assert_int_equal(o->follow_links, 1);
    assert_int_equal(o->class_order, LDR_ORDER_NATURAL);
    assert_int_equal(o->on_bad, LDR_BAD_MARK);
    assert_int_equal(o->first_epoch, 5);
    assert_int_equal(o->epochs, 0);
    assert_true(cli.json);
}

static void augmentation_has_its_options(void **state)
{
    ldr_options o =
        accept("s --brightness 0.4 --contrast .3 --saturation 1e-1 --hue 0.1 --jitter-prob 0.8 "
               "--grayscale-prob 0.2 --mixup-alpha 0.8 --cutmix-alpha 1 --mix-prob 0.9 "
               "--mix-switch-prob 0.25 --mix-pair 1 --erase-prob 0.25 --erase-area 0.05,0.5 "
               "--erase-aspect 0.4 --erase-mode pixel --erase-count 1,3 --device-id 2 "
               "--device-limit 8G")
            .options;
    assert_true(o.brightness == 0.4f && o.contrast == 0.3f && o.saturation == 0.1f);
    assert_true(o.hue == 0.1f && o.jitter_prob == 0.8f && o.grayscale_prob == 0.2f);
    assert_true(o.mixup_alpha == 0.8f && o.cutmix_alpha == 1.0f && o.mix_prob == 0.9f);
    assert_true(o.mix_switch_prob == 0.25f && o.mix_pair == 1 && o.erase_prob == 0.25f);
    assert_true(o.erase_area[0] == 0.05f && o.erase_area[1] == 0.5f && o.erase_aspect == 0.4f);
    assert_int_equal(o.erase_mode, LDR_ERASE_PIXEL);
    assert_true(o.erase_count[0] == 1 && o.erase_count[1] == 3);
    assert_int_equal(o.device_id, 2);
    assert_true(o.device_limit == (size_t)8 << 30);
    o = accept("s").options;
    assert_true(o.erase_count[0] == 1 && o.erase_count[1] == 1 && o.mixup_alpha == 0.0f);
}

static void names_follow_the_enums(void **state)
{
    assert_int_equal(accept("s --view eval").options.view, LDR_VIEW_EVAL);
    assert_int_equal(accept("s --view squash").options.view, LDR_VIEW_SQUASH);
    assert_int_equal(accept("s --filter bicubic").options.filter, LDR_BICUBIC);
    assert_int_equal(accept("s --filter nearest").options.filter, LDR_NEAREST);
    assert_int_equal(accept("s --filter random").options.filter, LDR_RANDOM_FILTER);
    assert_int_equal(accept("s --erase-mode const").options.erase_mode, LDR_ERASE_CONST);
    assert_int_equal(accept("s --erase-mode rand").options.erase_mode, LDR_ERASE_RAND);
    assert_int_equal(accept("s --device cuda").options.device, LDR_DEVICE_CUDA);
    assert_int_equal(accept("s --dtype f16").options.dtype, LDR_F16);
    assert_int_equal(accept("s --dtype u8").options.dtype, LDR_U8);
    assert_int_equal(accept("s --layout nchw").options.layout, LDR_NCHW);
    assert_int_equal(accept("s --device cpu").options.device, LDR_DEVICE_CPU);
    assert_int_equal(accept("s --on-bad stop").options.on_bad, LDR_BAD_STOP);
    assert_int_equal(accept("s --class-order bytes").options.class_order, LDR_ORDER_BYTES);
}

static void explicit_options_win_over_presets(void **state)
{
    ldr_options o = accept("s --filter random --hflip 0.25 --view eval").options;
    assert_int_equal(o.view, LDR_VIEW_EVAL);
    assert_int_equal(o.filter, LDR_RANDOM_FILTER);
    assert_true(o.hflip == 0.25f);
    o = accept("s --view squash").options;
    assert_int_equal(o.filter, LDR_BICUBIC);
    assert_true(o.hflip == 0.0f);
    assert_int_equal(o.shuffle, 1);
    o = accept("s --view eval --view train").options;
    assert_int_equal(o.filter, LDR_BILINEAR);
    assert_true(o.hflip == 0.5f);
    o = accept("s --width 50 --image-size 96").options;
    assert_int_equal(o.width, 50);
    assert_int_equal(o.height, 96);
}

static void wrong_usage_is_one_line(void **state)
{
    refuse(&run, "", "wants SOURCE");
    refuse(&run, "a b", "unexpected argument 'b'");
    refuse(&decode, "a", "wants OUT");
    refuse(&preview, "a", "wants -o PATH");
    refuse(&run, "s --foo", "unknown option --foo: `ldr run --help` lists them");
    refuse(&run, "s --bacth 3", "did you mean --batch?");
    refuse(&run, "s --pinned=3", "did you mean --pinned-limit?");
    refuse(&run, "s --probe", "has no option --probe");
    refuse(&run, "s -x", "unknown option -x");
    refuse(&run, "s --batch", "--batch wants a value");
    refuse(&run, "s --json=1", "--json takes no value");
    refuse(&run, "s --batch 1x", "--batch wants a whole number");
    refuse(&run, "s --batch=", "--batch wants a whole number");
    refuse(&run, "s --batch -1", "not '-1'");
    refuse(&run, "s --batch +1", "not '+1'");
    refuse(&run, "s --batch 0x10", "whole number");
    refuse(&run, "s --batch 4294967296", "whole number");
    refuse(&run, "s --seed 18446744073709551616", "whole number");
    refuse(&run, "s --rank 2147483648", "whole number");
    refuse(&run, "s --pinned-limit 1T", "number of bytes");
    refuse(&run, "s --pinned-limit k", "number of bytes");
    refuse(&run, "s --pinned-limit 17179869184G", "number of bytes");
    refuse(&run, "s --max-pixels 4k", "whole number");
    refuse(&run, "s --shuffle 2", "0 or 1");
    refuse(&run, "s --dtype f64", "f32, f16, bf16 or u8, not 'f64'");
    refuse(&run, "s --scale 1", "two numbers");
    refuse(&run, "s --scale 1,2,3", "two numbers");
    refuse(&run, "s --scale 1,", "two numbers");
    refuse(&run, "s --mean 1,2", "three numbers");
    refuse(&run, "s --erase-count 1", "two whole numbers");
    refuse(&run, "s --erase-count 1,2,3", "two whole numbers");
    refuse(&run, "s --erase-count 1,x", "two whole numbers");
    refuse(&run, "s --erase-mode noise", "const, rand or pixel");
    refuse(&run, "s --hflip nan", "a number");
    refuse(&run, "s --hflip inf", "a number");
    refuse(&run, "s --hflip 1e99", "a number");
    refuse(&run, "s --hflip 0x1", "a number");
    refuse(&run, "s --hflip 0.5.", "a number");
}

static void words_anywhere(void **state)
{
    ldri_cli cli;
    ldr_error err;
    assert_int_equal(parse(&cli, &run, "--json -- --photos", &err), LDR_OK);
    assert_string_equal(cli.args[0], "--photos");
    assert_int_equal(parse(&cli, &run, "-", &err), LDR_OK);
    assert_string_equal(cli.args[0], "-");
    assert_int_equal(parse(&cli, &decode, "in --json out", &err), LDR_OK);
    assert_string_equal(cli.args[1], "out");
    assert_int_equal(parse(&cli, &preview, "s -o x.png", &err), LDR_OK);
    assert_string_equal(cli.output, "x.png");
    assert_int_equal(parse(&cli, &preview, "s -ox.png", &err), LDR_OK);
    assert_string_equal(cli.output, "x.png");
    assert_int_equal(parse(&cli, &preview, "--output=x.png s", &err), LDR_OK);
    assert_string_equal(cli.output, "x.png");
    assert_int_equal(parse(&cli, &plan, "s --probe", &err), LDR_OK);
    assert_true(cli.probe);
    assert_int_equal(parse(&cli, &run, "--batch 3 --help", &err), LDR_OK);
    assert_true(cli.help);
}

static void assert_fits(char *text, int max_lines)
{
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strlen(line) > 80) print_error("%zu columns: %s\n", strlen(line), line);
        assert_true(strlen(line) <= 80);
        n++;
    }
    assert_true(n <= max_lines);
}

static void help_fits_a_screen(void **state)
{
    const ldri_cli_verb *verbs[] = {&run, &plan, &preview, &decode};
    char *text;
    size_t n;
    for (size_t i = 0; i < 4; i++) {
        int lines = 0;
        FILE *f = open_memstream(&text, &n);
        ldri_cli_help_verb(f, verbs[i]);
        fclose(f);
        for (size_t k = 0; k < n; k++) lines += text[k] == '\n';
        assert_true(lines <= 24);
        assert_fits(text, 24);
        free(text);
    }
    FILE *f = open_memstream(&text, &n);
    ldri_cli_help_options(f);
    fclose(f);
    assert_non_null(strstr(text, "--ratio X,X"));
    assert_non_null(strstr(text, "[0.485,0.456,0.406]"));
    assert_non_null(strstr(text, "[1G]"));
    assert_fits(text, 100);
    free(text);
}

static void percentiles_of_waits(void **state)
{
    ldri_cmd_waits *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(ldri_cmd_waits_percentile(w, 0.5), 0);
    for (uint64_t i = 1; i <= 1000; i++) ldri_cmd_waits_add(w, i * 1000);
    assert_int_equal(w->n, 1000);
    assert_true(w->total_ns == 500500000);
    static const double shares[] = {0.001, 0.5, 0.9, 0.99, 1.0};
    for (size_t i = 0; i < 5; i++) {
        double exact = shares[i] * 1e6, got = (double)ldri_cmd_waits_percentile(w, shares[i]);
        assert_true(got >= exact && got <= exact * (1 + 1.0 / 128));
    }
    memset(w, 0, sizeof *w);
    ldri_cmd_waits_add(w, 0);
    ldri_cmd_waits_add(w, 255);
    ldri_cmd_waits_add(w, UINT64_MAX);
    assert_true(ldri_cmd_waits_percentile(w, 0.3) == 0);
    assert_true(ldri_cmd_waits_percentile(w, 0.6) == 255);
    assert_true(ldri_cmd_waits_percentile(w, 1.0) == UINT64_MAX);
    free(w);
}

static void text_is_cut_to_fit(void **state)
{
    static uint8_t pixels[3 * 100 * 20];
    static const uint8_t white[3] = {255, 255, 255};
    ldri_cmd_canvas c = {pixels, 100, 20, 300};
    assert_int_equal(ldri_cmd_draw_text(&c, 0, 0, 100, 1, white, "abc"), 18);
    assert_int_equal(ldri_cmd_draw_text(&c, 0, 0, 29, 1, white, "abcde"), 30);
    assert_int_equal(ldri_cmd_draw_text(&c, 0, 0, 28, 1, white, "abcde"), 24);
    assert_int_equal(ldri_cmd_draw_text(&c, 0, 0, 100, 1, white, "\xc3\xa9t\xc3\xa9"), 18);
    assert_int_equal(ldri_cmd_draw_text(&c, 90, 15, 100, 2, white, "at the edge"), 96);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_documented_ones),
        cmocka_unit_test(every_kind_of_value),
        cmocka_unit_test(augmentation_has_its_options),
        cmocka_unit_test(names_follow_the_enums),
        cmocka_unit_test(explicit_options_win_over_presets),
        cmocka_unit_test(wrong_usage_is_one_line),
        cmocka_unit_test(words_anywhere),
        cmocka_unit_test(help_fits_a_screen),
        cmocka_unit_test(percentiles_of_waits),
        cmocka_unit_test(text_is_cut_to_fit),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
