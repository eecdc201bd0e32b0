/* backend_cpu.c - the back end without a GPU.
 *
 * Host arenas and outputs are ordinary memory, aligned, and touched only by who writes them, so
 * that pages come to be on the writer's node.  Workers do all the work, each with its own scratch;
 * submit, acquire and release have nothing to order: the core's queues do. */
#include "gpu/backend_cpu.h"

#include <assert.h>
#include <stdlib.h>

#include "gpu/simd.h"

#define ALIGNMENT 64u

struct ldri_backend {
    ldri_backend_config config;
    const ldri_resample_kernels *resample;
    ldri_normaliser normaliser;
    size_t labels_at, pixels_at; /* in a host arena */
    size_t arena_bytes;          /* of a whole host arena */
    size_t image_bytes, output_bytes;
    uint8_t **hosts, **outputs;
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
    free(be);
}

/* Places and sizes of everything; 0 if they do not fit an address space. */
static int lay_out(ldri_backend *be)
{
    const ldri_backend_config *c = &be->config;
    uint64_t row;
    return size_of(c->batch, sizeof(ldri_descriptor), 0, &be->labels_at) &&
           size_of(c->batch, sizeof(int64_t), be->labels_at, &be->pixels_at) &&
           size_of(c->arena_bytes, 1, be->pixels_at, &be->arena_bytes) &&
           c->width <= UINT32_MAX / 4 && /* 3 * width + 15 is a pitch, 32 bits wide */
           !__builtin_mul_overflow((uint64_t)c->width * 3, ldri_dtype_bytes(c->dtype), &row) &&
           size_of(row, c->height, 0, &be->image_bytes) &&
           size_of(row * c->height, c->batch, 0, &be->output_bytes) &&
           (be->image_bytes = (size_t)(row * c->height), 1);
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
    ldri_simd level = ldri_simd_wanted();
    be->resample = ldri_simd_resample(level);
    ldri_normaliser_init(&be->normaliser, ldri_simd_normalise(level), config->width, config->height,
                         config->dtype, config->layout, config->mean, config->std);
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
    out->pixels = p + be->pixels_at;
}

static void cpu_output(ldri_backend *be, uint32_t output, ldri_output *out)
{
    assert(output < be->config.n_outputs);
    out->images = be->outputs[output];
    out->labels = NULL;
}

/* pinned_bytes: the host arenas, which are ordinary memory here. */
static void cpu_memory(const ldri_backend *be, uint64_t *pinned_bytes, uint64_t *device_bytes,
                       uint64_t *host_bytes)
{
    *pinned_bytes = (uint64_t)be->arena_bytes * be->config.n_hosts;
    *device_bytes = 0;
    *host_bytes = (uint64_t)be->output_bytes * be->config.n_outputs;
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

static ldr_status cpu_augment_sample(ldri_backend *be, ldri_scratch *scratch, uint32_t host,
                                     uint32_t i, uint32_t output)
{
    assert(scratch->be == be && i < be->config.batch && output < be->config.n_outputs);
    ldri_host_arena arena;
    cpu_host_arena(be, host, &arena);
    const ldri_descriptor *d = &arena.descriptors[i];
    const uint8_t *rgb = arena.pixels + d->offset;
    size_t pitch = d->pitch;
    if (d->kind == LDRI_RGB_CROP) {
        ldr_status s = cpu_resample_sample(be, scratch, d, rgb, scratch->final);
        if (s < 0) return s;
        rgb = scratch->final;
        pitch = ldri_pitch(be->config.width);
    }
    /* Steps on the whole picture go here, in place in scratch->final (a picture that came final is
     * copied there first). */
    ldri_normaliser_store(&be->normaliser, rgb, pitch, d->hflip, d->vflip,
                          be->outputs[output] + (size_t)i * be->image_bytes);
    return LDR_OK;
}

static ldr_status cpu_submit(ldri_backend *be, uint32_t host, uint32_t output, uint32_t count,
                             size_t used_bytes, ldr_error *err)
{
    assert(host < be->config.n_hosts && output < be->config.n_outputs);
    assert(count <= be->config.batch && used_bytes <= be->config.arena_bytes);
    return LDR_OK; /* the workers have done it all */
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
    .submit = cpu_submit,
    .host_reusable = cpu_host_reusable,
    .acquire = cpu_acquire,
    .release = cpu_release,
};
