/* backend_cpu.c - the back end without a GPU.
 *
 * Host arenas and outputs are ordinary memory, aligned, and touched only by who writes them, so
 * that pages come to be on the writer's node.  Workers do all the work, each with its own scratch;
 * submit, acquire and release have nothing to order: the core's queues do.
 *
 * Where images of a batch are mixed, augment_sample leaves each as bytes, flipped and coloured, in
 * the output's `finals`, and finish_sample goes on from there: by then the partner's are complete.
 */
#include "gpu/backend_cpu.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/erase_cpu.h"
#include "gpu/simd.h"

#define ALIGNMENT 64u

struct ldri_backend {
    ldri_backend_config config;
    const ldri_resample_kernels *resample;
    const ldri_colour_kernels *colour;
    ldri_normaliser normaliser;
    ldri_normaliser flipper; /* bytes to bytes: only mirrors */
    ldri_eraser eraser;
    size_t labels_at, mix_labels_at, mix_lambda_at, pixels_at; /* in a host arena */
    size_t arena_bytes;                                        /* of a whole host arena */
    size_t image_bytes, output_bytes;
    size_t final_bytes; /* of a picture as bytes; its rows have no gaps */
    size_t finals_bytes;
    uint8_t **hosts, **outputs;
    uint8_t **finals; /* one for each output, if images are mixed */
};

struct ldri_scratch {
    ldri_backend *be;
    ldri_resampler *resampler;
    uint8_t *final; /* the picture between resize and normalise, RGB8, without flips */
};

/* *out = a * b + c, rounded up to ALIGNMENT; 0 if that is too large. */
static int size_of(uint64_t a, uint64_t b, uint64_t c, size_t *out)
{
    uint64_t v;
    if (__builtin_mul_overflow(a, b, &v) || __builtin_add_overflow(v, c, &v) ||
        __builtin_add_overflow(v, ALIGNMENT - 1, &v))
        return 0;
    v -= v % ALIGNMENT;
    if (v > SIZE_MAX / 2) return 0;
    *out = (size_t)v;
    return 1;
}

static uint8_t **blocks_make(uint32_t n, size_t bytes)
{
    uint8_t **blocks = calloc(n, sizeof *blocks);
    if (!blocks) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        blocks[i] = aligned_alloc(ALIGNMENT, bytes);
        if (blocks[i]) continue;
        while (i > 0) free(blocks[--i]);
        free(blocks);
        return NULL;
    }
    return blocks;
}

static void blocks_free(uint8_t **blocks, uint32_t n)
{
    if (!blocks) return;
    for (uint32_t i = 0; i < n; i++) free(blocks[i]);
    free(blocks);
}

static void cpu_close(ldri_backend *be)
{
    if (!be) return;
    blocks_free(be->hosts, be->config.n_hosts);
    blocks_free(be->outputs, be->config.n_outputs);
    blocks_free(be->finals, be->config.n_outputs);
    free(be);
}

/* Places and sizes of everything; 0 if they do not fit an address space. */
static int lay_out(ldri_backend *be)
{
    const ldri_backend_config *c = &be->config;
    uint64_t row, mixed = c->mixes ? c->batch : 0;
    return size_of(c->batch, sizeof(ldri_descriptor), 0, &be->labels_at) &&
           size_of(c->batch, sizeof(int64_t), be->labels_at, &be->mix_labels_at) &&
           size_of(mixed, sizeof(int64_t), be->mix_labels_at, &be->mix_lambda_at) &&
           size_of(mixed, sizeof(float), be->mix_lambda_at, &be->pixels_at) &&
           size_of(c->arena_bytes, 1, be->pixels_at, &be->arena_bytes) &&
           c->width <= UINT32_MAX / 4 && /* 3 * width + 15 is a pitch, 32 bits wide */
           !__builtin_mul_overflow((uint64_t)c->width * 3, ldri_dtype_bytes(c->dtype), &row) &&
           size_of(row, c->height, 0, &be->image_bytes) &&
           size_of(row * c->height, c->batch, 0, &be->output_bytes) &&
           size_of(3 * (uint64_t)c->width * c->height, mixed, 0, &be->finals_bytes) &&
           (be->image_bytes = (size_t)(row * c->height),
            be->final_bytes = (size_t)3 * c->width * c->height, 1);
}

static void init_steps(ldri_backend *be)
{
    const ldri_backend_config *c = &be->config;
    ldri_simd level = ldri_simd_wanted();
    be->resample = ldri_simd_resample(level);
    be->colour = ldri_simd_colour(level);
    ldri_normaliser_init(&be->normaliser, ldri_simd_normalise(level), c->width, c->height, c->dtype,
                         c->layout, c->mean, c->std);
    ldri_normaliser_init(&be->flipper, ldri_simd_normalise(level), c->width, c->height, LDR_U8,
                         LDR_NHWC, c->mean, c->std);
    be->eraser = (ldri_eraser){.kernels = ldri_simd_erase(level),
                               .width = c->width,
                               .height = c->height,
                               .dtype = c->dtype,
                               .layout = c->layout,
                               .mode = c->erase_mode,
                               .seed = c->seed};
    memcpy(be->eraser.mean, c->mean, sizeof c->mean);
    memcpy(be->eraser.std, c->std, sizeof c->std);
}

static ldr_status cpu_open(ldri_backend **out, const ldri_backend_config *config, ldr_error *err)
{
    assert(config->batch > 0 && config->width > 0 && config->height > 0);
    assert(config->n_hosts > 0 && config->n_outputs > 0 && config->arena_bytes % 64 == 0);
    ldr_status s = LDR_E_NOMEM;
    ldri_backend *be = calloc(1, sizeof *be);
    if (!be) {
        ldri_error_set(err, s, 0, LDR_NO_SAMPLE, "out of memory");
        return s;
    }
    be->config = *config;
    if (!lay_out(be)) {
        s = ldri_error_set(err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
                           "a batch of %u images of %ux%u is larger than memory can be: lower "
                           "batch, width or height",
                           config->batch, config->width, config->height);
        goto close;
    }
    init_steps(be);
    be->hosts = blocks_make(config->n_hosts, be->arena_bytes);
    if (!be->hosts) {
        ldri_error_set(err, s, 0, LDR_NO_SAMPLE,
                       "no memory for %u host arenas of %zu bytes: lower batch, depth or "
                       "pinned_limit",
                       config->n_hosts, be->arena_bytes);
        goto close;
    }
    be->outputs = blocks_make(config->n_outputs, be->output_bytes);
    if (!be->outputs) {
        ldri_error_set(err, s, 0, LDR_NO_SAMPLE,
                       "no memory for %u outputs of %zu bytes: lower batch or depth",
                       config->n_outputs, be->output_bytes);
        goto close;
    }
    be->finals = config->mixes ? blocks_make(config->n_outputs, be->finals_bytes) : NULL;
    if (config->mixes && !be->finals) {
        ldri_error_set(err, s, 0, LDR_NO_SAMPLE,
                       "no memory for %u x %zu bytes to mix images in: lower batch or depth",
                       config->n_outputs, be->finals_bytes);
        goto close;
    }
    *out = be;
    return LDR_OK;
close:
    cpu_close(be);
    return s;
}

static void cpu_host_arena(ldri_backend *be, uint32_t host, ldri_host_arena *out)
{
    assert(host < be->config.n_hosts);
    uint8_t *p = be->hosts[host];
    out->descriptors = (ldri_descriptor *)p;
    out->labels = (int64_t *)(p + be->labels_at);
    out->mix_labels = be->config.mixes ? (int64_t *)(p + be->mix_labels_at) : NULL;
    out->mix_lambda = be->config.mixes ? (float *)(p + be->mix_lambda_at) : NULL;
    out->pixels = p + be->pixels_at;
}

static void cpu_output(ldri_backend *be, uint32_t output, ldri_output *out)
{
    assert(output < be->config.n_outputs);
    *out = (ldri_output){.images = be->outputs[output]}; /* the core's labels serve */
}

/* pinned_bytes: the host arenas, which are ordinary memory here. */
static void cpu_memory(const ldri_backend *be, uint64_t *pinned_bytes, uint64_t *device_bytes,
                       uint64_t *host_bytes)
{
    *pinned_bytes = (uint64_t)be->arena_bytes * be->config.n_hosts;
    *device_bytes = 0;
    *host_bytes = (uint64_t)(be->output_bytes + be->finals_bytes) * be->config.n_outputs;
}

static void cpu_scratch_close(ldri_scratch *scratch)
{
    if (!scratch) return;
    ldri_resampler_close(scratch->resampler);
    free(scratch->final);
    free(scratch);
}

static ldri_scratch *cpu_scratch_open(ldri_backend *be)
{
    const ldri_backend_config *c = &be->config;
    size_t bytes;
    if (!size_of(ldri_pitch(c->width), c->height, 0, &bytes)) return NULL;
    ldri_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->be = be;
    scratch->resampler = ldri_resampler_open(be->resample, c->width, c->height);
    scratch->final = aligned_alloc(ALIGNMENT, bytes);
    if (!scratch->resampler || !scratch->final) {
        cpu_scratch_close(scratch);
        return NULL;
    }
    return scratch;
}

static ldr_status cpu_resample_sample(ldri_backend *be, ldri_scratch *scratch,
                                      const ldri_descriptor *d, const uint8_t *crop, uint8_t *out)
{
    assert(scratch->be == be && d->kind == LDRI_RGB_CROP);
    return ldri_resampler_run(scratch->resampler, d, crop, out, ldri_pitch(be->config.width));
}

static uint8_t *image_of(const ldri_backend *be, uint32_t output, uint32_t i)
{
    return be->outputs[output] + (size_t)i * be->image_bytes;
}

static uint8_t *final_of(const ldri_backend *be, uint32_t output, uint32_t i)
{
    return be->finals[output] + (size_t)i * be->final_bytes;
}

/* Bytes -> image: all that comes after mixing. */
static void finish(const ldri_backend *be, const ldri_descriptor *d, const uint8_t *rgb,
                   size_t pitch, int hflip, int vflip, uint8_t *image)
{
    ldri_normaliser_store(&be->normaliser, rgb, pitch, hflip, vflip, image);
    ldri_eraser_apply(&be->eraser, d, image);
}

static ldr_status cpu_augment_sample(ldri_backend *be, ldri_scratch *scratch, uint32_t host,
                                     uint32_t i, uint32_t output)
{
    const ldri_backend_config *c = &be->config;
    assert(scratch->be == be && i < c->batch && output < c->n_outputs);
    ldri_host_arena arena;
    cpu_host_arena(be, host, &arena);
    const ldri_descriptor *d = &arena.descriptors[i];
    const uint8_t *rgb = arena.pixels + d->offset;
    size_t pitch = d->pitch, final_pitch = ldri_pitch(c->width);
    if (d->kind == LDRI_RGB_CROP) {
        ldr_status s = cpu_resample_sample(be, scratch, d, rgb, scratch->final);
        if (s < 0) return s;
    } else if (ldri_colour_wanted(d)) {
        for (uint32_t y = 0; y < c->height; y++)
            memcpy(scratch->final + y * final_pitch, rgb + y * pitch, 3 * (size_t)c->width);
    }
    if (d->kind == LDRI_RGB_CROP || ldri_colour_wanted(d)) {
        ldri_colour_apply(be->colour, d, scratch->final, final_pitch, c->width, c->height);
        rgb = scratch->final;
        pitch = final_pitch;
    }
    if (c->mixes) {
        ldri_normaliser_store(&be->flipper, rgb, pitch, d->hflip, d->vflip,
                              final_of(be, output, i));
    } else {
        finish(be, d, rgb, pitch, d->hflip, d->vflip, image_of(be, output, i));
    }
    return LDR_OK;
}

static ldr_status cpu_finish_sample(ldri_backend *be, ldri_scratch *scratch, uint32_t host,
                                    uint32_t i, uint32_t output)
{
    const ldri_backend_config *c = &be->config;
    assert(scratch->be == be && c->mixes && i < c->batch && output < c->n_outputs);
    ldri_host_arena arena;
    cpu_host_arena(be, host, &arena);
    const ldri_descriptor *d = &arena.descriptors[i];
    assert(d->mix == LDRI_MIX_NONE || d->partner < c->batch);
    const uint8_t *rgb = final_of(be, output, i);
    size_t pitch = 3 * (size_t)c->width;
    if (d->mix == LDRI_MIXUP) {
        be->colour->mixup(rgb, final_of(be, output, d->partner), d->lambda, d->rest, scratch->final,
                          be->final_bytes);
        rgb = scratch->final;
    } else if (d->mix == LDRI_CUTMIX) {
        const uint8_t *other = final_of(be, output, d->partner);
        memcpy(scratch->final, rgb, be->final_bytes);
        for (uint32_t y = d->mix_top; y < d->mix_bottom; y++) {
            size_t at = y * pitch + 3 * (size_t)d->mix_left;
            memcpy(scratch->final + at, other + at, 3 * (size_t)(d->mix_right - d->mix_left));
        }
        rgb = scratch->final;
    }
    finish(be, d, rgb, pitch, 0, 0, image_of(be, output, i));
    return LDR_OK;
}

static ldr_status cpu_submit(ldri_backend *be, uint32_t host, uint32_t output, uint32_t count,
                             size_t used_bytes, ldr_error *err)
{
    assert(host < be->config.n_hosts && output < be->config.n_outputs);
    assert(count <= be->config.batch && used_bytes <= be->config.arena_bytes);
    return LDR_OK; /* the workers have done it all */
}

static ldr_status cpu_after(ldri_backend *be, uint32_t output, ldri_after_fn call, void *arg,
                            ldr_error *err)
{
    return call(arg, NULL);
}

static int cpu_host_reusable(ldri_backend *be, uint32_t host, int wait)
{
    return 1;
}

static ldr_status cpu_acquire(ldri_backend *be, uint32_t output, ldr_stream consumer,
                              ldr_error *err)
{
    return LDR_OK;
}

static ldr_status cpu_release(ldri_backend *be, uint32_t output, ldr_stream last_use,
                              ldr_error *err)
{
    return LDR_OK;
}

const ldri_backend_ops ldri_backend_cpu = {
    .name = "cpu",
    .device = LDR_DEVICE_CPU,
    .augments_in_workers = 1,
    .open = cpu_open,
    .close = cpu_close,
    .host_arena = cpu_host_arena,
    .output = cpu_output,
    .memory = cpu_memory,
    .scratch_open = cpu_scratch_open,
    .scratch_close = cpu_scratch_close,
    .resample_sample = cpu_resample_sample,
    .augment_sample = cpu_augment_sample,
    .finish_sample = cpu_finish_sample,
    .submit = cpu_submit,
    .after = cpu_after,
    .host_reusable = cpu_host_reusable,
    .acquire = cpu_acquire,
    .release = cpu_release,
};
