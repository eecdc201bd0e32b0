/* What the kernels of a GPU do, run on the CPU block by block and thread by thread, against the CPU
 * back end: every byte. */
#include "tests/helper_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/blocks.h"
#include "tests/helper_batch.h"

/* Memory as a device's would be: nothing in it is zero by chance. */
static void *memory_of(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    assert_non_null(p);
    memset(p, 0xA5, n);
    return p;
}

static ldri_kernel_job job_of(const ldri_backend_config *c, const ldri_host_arena *a)
{
    ldri_kernel_job job = {.descriptors = a->descriptors,
                           .pixels = a->pixels,
                           .labels = a->labels,
                           .mix_labels = a->mix_labels,
                           .mix_lambda = a->mix_lambda,
                           .count = c->batch,
                           .mixes = c->mixes};
    job.finish = (ldri_finish){.width = c->width,
                               .height = c->height,
                               .dtype = (int)c->dtype,
                               .layout = (int)c->layout,
                               .erase_mode = (int)c->erase_mode,
                               .seed = c->seed};
    for (int i = 0; i < 3; i++) {
        job.finish.mean[i] = c->mean[i];
        job.finish.std[i] = c->std[i];
        job.finish.scale[i] = (float)(1.0 / (255.0 * (double)c->std[i]));
        job.finish.bias[i] = (float)(-(double)c->mean[i] / (double)c->std[i]);
    }
    ldri_kernel_job_sizes(&job);
    job.finals = memory_of(c->batch * job.final_bytes);
    job.tables = memory_of(c->batch * ldri_tables_words(c->width, c->height) * 4);
    job.images = memory_of(c->batch * job.image_bytes + 64);
    job.out_labels = memory_of(c->batch * sizeof *job.out_labels);
    job.out_mix_labels = memory_of(c->batch * sizeof *job.out_mix_labels);
    job.out_mix_lambda = memory_of(c->batch * sizeof *job.out_mix_lambda);
    return job;
}

static void job_free(ldri_kernel_job *job)
{
    free(job->finals);
    free(job->tables);
    free(job->images);
    free(job->out_labels);
    free(job->out_mix_labels);
    free(job->out_mix_lambda);
}

/* Shapes that have nothing to do with those in use: the result must not depend on them. */
typedef struct shapes {
    uint32_t tile, strip, resample_threads, finish_threads, parts;
} shapes;

static void run_resample(const ldri_kernel_job *job, const shapes *k)
{
    uint32_t width = job->finish.width, height = job->finish.height;
    uint32_t *inter = memory_of(4 * (size_t)ldri_inter_words(k->tile < width ? k->tile : width));
    ldri_block_shared *s = memory_of(sizeof *s);
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t left = 0; left < width; left += k->tile)
            for (uint32_t y = 0; y < height; y += k->strip) {
                uint32_t columns = width - left < k->tile ? width - left : k->tile;
                uint32_t end = height - y < k->strip ? height : y + k->strip;
                uint32_t threads = columns > k->resample_threads ? columns : k->resample_threads;
                ldri_block_resample(job, i, left, columns, y, end, ldri_job_planes(job, i), s,
                                    inter, threads);
                if (s->tint.split < 4) ldri_global_add(&job->descriptors[i].luma_sum, s->luma);
            }
    free(s);
    free(inter);
}

static void run_separate(const ldri_kernel_job *job, const shapes *k)
{
    ldri_block_shared *s = memory_of(sizeof *s);
    ldri_block_noise *z = memory_of(sizeof *z);
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t t = 0; t < 37; t++) ldri_prepare(job, i, t, 37);
    run_resample(job, k);
    for (uint32_t i = 0; job->mixes && i < job->count; i++)
        for (uint32_t p = 0; p < k->parts; p++)
            ldri_block_colour(job, i, p, k->parts, s, k->finish_threads);
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t p = 0; p < k->parts; p++)
            ldri_block_finish(job, i, p, k->parts, ldri_normal_quantiles, s, z, k->finish_threads);
    free(z);
    free(s);
}

static void run_fused(ldri_kernel_job *job, uint32_t threads)
{
    uint32_t width = job->finish.width, height = job->finish.height;
    job->plan.fused_rows = (height + LDRI_CLUSTER - 1) / LDRI_CLUSTER;
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t t = 0; t < 37; t++) ldri_prepare(job, i, t, 37);
    ldri_block_shared *s = memory_of(LDRI_CLUSTER * sizeof *s);
    ldri_block_noise *z = memory_of(sizeof *z);
    size_t each = (size_t)3 * job->pitch * job->plan.fused_rows;
    uint8_t *planes = memory_of(LDRI_CLUSTER * each);
    uint32_t *inter = memory_of(4 * (size_t)ldri_inter_words(width));
    for (uint32_t i = 0; i < job->count; i++) {
        uint64_t luma = 0;
        for (int round = 0; round < 2; round++)
            for (uint32_t b = 0; b < LDRI_CLUSTER; b++) {
                uint32_t y0 = b * job->plan.fused_rows, y1 = y0 + job->plan.fused_rows;
                y0 = y0 < height ? y0 : height;
                y1 = y1 < height ? y1 : height;
                ldri_planes p = ldri_fused_planes(job, y0, planes + b * each);
                if (round == 0) {
                    ldri_block_resample(job, i, 0, width, y0, y1, p, &s[b], inter, threads);
                    luma += s[b].luma;
                } else {
                    ldri_block_mean(job, &s[b], luma);
                    for (uint32_t t = 0; t < threads; t++)
                        ldri_block_quantiles(job, &s[b], z, ldri_normal_quantiles, t, threads);
                    ldri_block_fused_finish(job, i, y0, y1, p, &s[b], z, threads);
                    if (b == 0) ldri_labels(job, i);
                }
            }
    }
    free(inter);
    free(planes);
    free(z);
    free(s);
}

static void check(const ldri_backend_config *config, uint32_t seed, int kinds, const shapes *k,
                  int fused)
{
    ldri_backend_config c = *config;
    c.arena_bytes = helper_arena_bytes(c.batch, c.width, c.height, kinds);
    ldri_host_arena a = {.descriptors = memory_of(c.batch * sizeof *a.descriptors),
                         .labels = memory_of(c.batch * sizeof *a.labels),
                         .mix_labels = memory_of(c.batch * sizeof *a.mix_labels),
                         .mix_lambda = memory_of(c.batch * sizeof *a.mix_lambda),
                         .pixels = memory_of(c.arena_bytes + ldri_overread(c.width))};
    size_t used = helper_fill(&c, &a, seed, kinds);
    uint8_t *expected = helper_reference(&c, &a, used);
    assert_non_null(expected);
    ldri_kernel_job job = job_of(&c, &a);
    if (fused)
        run_fused(&job, k->resample_threads > c.width ? k->resample_threads : c.width);
    else
        run_separate(&job, k);
    const char *difference = helper_difference(&c, &a, expected, job.images);
    if (difference)
        fail_msg("seed %u kinds %d %ux%u dtype %d layout %d erase %d mixes %d fused %d: %s", seed,
                 kinds, c.width, c.height, (int)c.dtype, (int)c.layout, (int)c.erase_mode, c.mixes,
                 fused, difference);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(job.images[helper_images_bytes(&c) + i], 0xA5); /* not a byte further */
    assert_memory_equal(job.out_labels, a.labels, c.batch * sizeof *a.labels);
    if (c.mixes) {
        assert_memory_equal(job.out_mix_labels, a.mix_labels, c.batch * sizeof *a.mix_labels);
        assert_memory_equal(job.out_mix_lambda, a.mix_lambda, c.batch * sizeof *a.mix_lambda);
    }
    job_free(&job);
    free(expected);
    free(a.descriptors);
    free(a.labels);
    free(a.mix_labels);
    free(a.mix_lambda);
    free(a.pixels);
}

static const struct {
    uint32_t width, height;
} sizes[] = {{40, 24}, {64, 64}, {37, 29}, {8, 8}, {1, 1}, {5, 70}, {100, 3}, {33, 9}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static const shapes some_shapes[] = {
    {256, 28, 64, 32, 3}, {16, 5, 96, 64, 1}, {32, 64, 32, 256, 4}, {256, 7, 256, 96, 2}};
#define N_SHAPES (sizeof some_shapes / sizeof *some_shapes)

static void all_types_and_layouts(void **unused)
{
    uint32_t seed = 1;
    for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++)
        for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++)
            for (int erase = LDR_ERASE_CONST; erase <= (int)LDR_ERASE_PIXEL; erase++)
                for (int mixes = 0; mixes < 2; mixes++, seed++) {
                    ldri_backend_config c = helper_config(
                        6, sizes[seed % N_SIZES].width, sizes[seed % N_SIZES].height,
                        (ldr_dtype)dtype, (ldr_layout)layout, (ldr_erase)erase, mixes);
                    int kinds = HELPER_ORDINARY | HELPER_JITTER | HELPER_ERASE;
                    check(&c, seed, kinds, &some_shapes[seed % N_SHAPES], 0);
                    if (!mixes) check(&c, seed, kinds, &some_shapes[seed % N_SHAPES], 1);
                }
}

static void every_size(void **unused)
{
    for (uint32_t i = 0; i < N_SIZES * 4; i++) {
        ldri_backend_config c =
            helper_config(8, sizes[i % N_SIZES].width, sizes[i % N_SIZES].height, LDR_F16, LDR_NCHW,
                          LDR_ERASE_PIXEL, i & 1);
        check(&c, 100 + i, HELPER_ORDINARY | HELPER_JITTER | HELPER_ERASE,
              &some_shapes[i % N_SHAPES], 0);
    }
}

static void extreme_crops(void **unused)
{
    for (uint32_t i = 0; i < 6; i++) {
        ldri_backend_config c =
            helper_config(6, sizes[i].width, sizes[i].height, LDR_U8, LDR_NHWC, LDR_ERASE_RAND, 0);
        check(&c, 200 + i, HELPER_EXTREME | HELPER_JITTER | HELPER_ERASE,
              &some_shapes[i % N_SHAPES], (int)(i & 1));
    }
}

static void the_shape_of_the_bench(void **unused)
{
    static const shapes k = {256, 28, 224, 224, 7};
    for (int fused = 0; fused < 2; fused++) {
        ldri_backend_config c = helper_config(3, 224, 224, LDR_F16, LDR_NCHW, LDR_ERASE_PIXEL, 0);
        int kinds = HELPER_EXACT | HELPER_ALL_JITTER | HELPER_ONE_BOX;
        check(&c, 300, kinds | HELPER_BILINEAR, &k, fused);
        check(&c, 301, kinds | HELPER_BICUBIC, &k, fused);
    }
}

/* Weights that the fours of ldri_axis_groups do not hold are 0. */
static void windows_fit_their_groups(void **unused)
{
    uint32_t longer = 0;
    for (uint32_t n = 1; n < 700; n += n < 80 ? 1 : 7)
        for (uint32_t m = 1; m < 300; m += m < 100 ? 1 : 11)
            for (int filter = LDR_BILINEAR; filter <= (int)LDR_NEAREST; filter++) {
                ldri_axis a = {.n = n, .m = m};
                uint32_t groups = ldri_axis_groups(&a, filter);
                if (groups > LDRI_GROUPS_MAX) continue;
                for (uint32_t x = 0; x < m; x++) {
                    uint32_t lo, hi;
                    ldri_axis_window(&a, filter, x, &lo, &hi);
                    if (hi - lo <= 4 * groups) continue;
                    ldri_weigher w = ldri_weigher_of(n, m, filter, x, lo, hi - lo);
                    longer++;
                    for (uint32_t k = 4 * groups; k < hi - lo; k++)
                        if (ldri_weight(&w, k) != 0)
                            fail_msg("%u -> %u filter %d output %u: pixel %u of %u has weight %d",
                                     n, m, filter, x, k, hi - lo, ldri_weight(&w, k));
                }
            }
    assert_true(longer > 0); /* else this has tested nothing */
}

/* --- colour --------------------------------------------------------------------------------- */

static void hue_of_all_colours(void **unused)
{
    static const uint8_t shifts[] = {0, 1, 100, 254};
    static uint32_t table[4][LDRI_HUE_ENTRIES];
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < LDRI_HUE_ENTRIES; i++) table[k][i] = ldri_hue_entry(i, shifts[k]);
    for (uint32_t v = 0; v < 1u << 24; v += 1 + v % 3) { /* more than half of them */
        int k = (int)(v % 4);
        ldri_rgb p = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16)};
        ldri_rgb e = ldri_hue(p, shifts[k]);
        float r = LDRI_BIAS + p.r, g = LDRI_BIAS + p.g, b = LDRI_BIAS + p.b;
        ldri_pixel_hue(&r, &g, &b, table[k]);
        if (r != LDRI_BIAS + e.r || g != LDRI_BIAS + e.g || b != LDRI_BIAS + e.b)
            fail_msg("colour %06x hue %u", v, shifts[k]);
    }
}

static void luma_of_all_colours(void **unused)
{
    for (uint32_t v = 0; v < 1u << 24; v++) {
        uint8_t r = (uint8_t)v, g = (uint8_t)(v >> 8), b = (uint8_t)(v >> 16);
        float l = ldri_biased_luma(LDRI_BIAS + r, LDRI_BIAS + g, LDRI_BIAS + b);
        if (l != LDRI_BIAS + ldri_luma(r, g, b)) fail_msg("colour %06x", v);
    }
}

static void blend_of_all_bytes(void **unused)
{
    for (uint32_t k = 0; k <= 200; k++) {
        float factor = (float)k / 100.0f;
        for (uint32_t d = 0; d < 256; d++)
            for (uint32_t x = 0; x < 256; x++) {
                uint8_t expected = ldri_blend((uint8_t)d, (uint8_t)x, factor);
                float base = (float)d;
                float any = ldri_biased_blend(base + LDRI_BIAS, base, LDRI_BIAS + x, factor, 0);
                float in = any;
                if (factor <= 1.0f)
                    in = ldri_biased_blend(base + LDRI_BIAS, base, LDRI_BIAS + x, factor, 1);
                if (any != LDRI_BIAS + expected || in != any)
                    fail_msg("from %u to %u factor %g", d, x, (double)factor);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_fit_their_groups),
        cmocka_unit_test(all_types_and_layouts),
        cmocka_unit_test(every_size),
        cmocka_unit_test(extreme_crops),
        cmocka_unit_test(the_shape_of_the_bench),
        cmocka_unit_test(luma_of_all_colours),
        cmocka_unit_test(blend_of_all_bytes),
        cmocka_unit_test(hue_of_all_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
