/* blocks.h - what a block of threads does in each kernel.  C and CUDA.
 *
 * Written in phases, LDRI_THREADS, between barriers: on a GPU each thread runs a phase once, on a
 * CPU a loop runs it for one thread after the other.  So a test can run whole kernels without a
 * GPU. Nothing of a thread lives from phase to phase but what is the same for all of them. */
#ifndef LDR_BLOCKS_H
#define LDR_BLOCKS_H

#include "gpu/kernels.h"
#include "gpu/odd.h"
#include "gpu/strip.h"
#include "gpu/tint.h"

#ifdef __CUDA_ARCH__
#define LDRI_THREADS(t, n_threads)                                                                 \
    for (uint32_t t = threadIdx.x, ldri_once = 1; ldri_once; ldri_once = 0)
#define LDRI_BARRIER() __syncthreads()
#else
#define LDRI_THREADS(t, n_threads) for (uint32_t t = 0; t < (n_threads); t++)
#define LDRI_BARRIER()             ((void)0)
#endif

typedef struct ldri_block_shared { /* shared memory of a block, beside `inter` and planes */
    ldri_descriptor d;
    ldri_tint tint;
    uint32_t luma; /* sum of this block */
    uint8_t partner_hflip, partner_vflip;
} ldri_block_shared;

/* Of the blocks that erase, too. */
typedef struct ldri_block_noise {
    float quantiles[LDRI_NORMAL_STEPS + 1];
} ldri_block_noise;

/* Adds up over a block's threads.  All threads of a warp come here together. */
static LDRI_HD inline void ldri_block_add(uint32_t *shared, uint32_t v)
{
#ifdef __CUDA_ARCH__
    v = __reduce_add_sync(0xffffffffu, v);
    if ((threadIdx.x & 31u) == 0) atomicAdd(shared, v);
#else
    *shared += v;
#endif
}

static LDRI_HD inline void ldri_global_add(uint64_t *to, uint32_t v)
{
#ifdef __CUDA_ARCH__
    atomicAdd((unsigned long long *)to, (unsigned long long)v);
#else
    *to += v;
#endif
}

static LDRI_HD inline ldri_tables ldri_job_tables(const ldri_kernel_job *job, uint32_t sample)
{
    const ldri_finish *f = &job->finish;
    size_t words = ldri_tables_words(f->width, f->height);
    return ldri_tables_at(job->tables + sample * words, f->width, f->height);
}

static LDRI_HD inline ldri_planes ldri_job_planes(const ldri_kernel_job *job, uint32_t sample)
{
    ldri_planes p;
    p.base = job->finals + sample * job->final_bytes;
    p.pitch = job->pitch;
    p.row_first = 0;
    p.plane = job->plane_bytes;
    return p;
}

/* --- prepare -------------------------------------------------------------------------------- */

/* Thread `at` of `n` that prepare sample `sample` together. */
static LDRI_HD inline void ldri_prepare(const ldri_kernel_job *job, uint32_t sample, uint32_t at,
                                        uint32_t n)
{
    const ldri_descriptor *d = &job->descriptors[sample];
    uint32_t width = job->finish.width, height = job->finish.height;
    ldri_tables t = ldri_job_tables(job, sample);
    ldri_path path = ldri_path_of(d, width);
    uint32_t x_form = 0, y_form = 0;
    if (path == LDRI_PATH_STRIP) {
        x_form = ldri_axis_form(&d->x, d->filter);
        y_form = ldri_axis_form(&d->y, d->filter);
        for (uint32_t i = at; i < width + height; i += n) {
            uint32_t lo, hi, row = i - width;
            if (i < width) {
                ldri_axis_entry(&d->x, d->filter, i, x_form, &lo, &hi, &t.x_weights[i],
                                3 * (size_t)width, width);
                t.x_lo[i] = lo;
            } else {
                uint32_t *entry = t.y + (size_t)row * LDRI_ROW_WORDS;
                ldri_axis_entry(&d->y, d->filter, row, y_form, &lo, &hi, entry + 1, 4, 1);
                entry[0] = lo;
                entry[4] = hi;
            }
        }
    }
    if (at == 0) {
        t.head[0] = path;
        t.head[1] = x_form;
        t.head[2] = y_form;
    }
    if (path != LDRI_PATH_ODD) return;
    ldri_planes planes = ldri_job_planes(job, sample);
    for (size_t i = at; i < (size_t)width * height; i += n) {
        uint32_t x = (uint32_t)(i % width), y = (uint32_t)(i / width);
        uint8_t rgb[3];
        ldri_odd_pixel(d, job->pixels + d->offset, x, y, rgb);
        for (uint32_t c = 0; c < 3; c++)
            planes.base[c * planes.plane + (size_t)y * planes.pitch + x] = rgb[c];
    }
}

/* --- what blocks begin with ----------------------------------------------------------------- */

static LDRI_HD inline void ldri_copy_words(void *to, const void *from, size_t bytes, uint32_t t,
                                           uint32_t n_threads)
{
    for (size_t i = t; i < bytes / 4; i += n_threads)
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
}

/* Descriptor and tint but for its mean; a barrier is still to come.  luma: of another kernel. */
static LDRI_HD inline void ldri_block_begin(const ldri_kernel_job *job, uint32_t sample,
                                            ldri_block_shared *s, uint32_t n_threads)
{
    LDRI_THREADS(t, n_threads)
    {
        ldri_copy_words(&s->d, &job->descriptors[sample], sizeof s->d, t, n_threads);
    }
    LDRI_BARRIER();
    LDRI_THREADS(t, n_threads)
    {
        if (t == 0) {
            s->luma = 0;
            s->tint.jitter = s->d.jitter;
            for (int k = 0; k < 4; k++) s->tint.order[k] = s->d.order[k];
            for (int k = 0; k < 3; k++) s->tint.factor[k] = s->d.factor[k];
            s->tint.split = ldri_tint_split(&s->d);
        }
        if (s->d.jitter >> LDRI_HUE & 1) {
            for (uint32_t i = t; i < LDRI_HUE_ENTRIES; i += n_threads)
                s->tint.hue[i] = ldri_hue_entry(i, s->d.hue);
        }
    }
}

/* --- resample ------------------------------------------------------------------------------- */

/* Part of a final picture on its way into planes. */
typedef struct ldri_part {
    const ldri_kernel_job *job;
    uint32_t sample;
    uint32_t path;
    uint32_t left, columns;
    ldri_strip strip;
    ldri_planes to;
} ldri_part;

/* Four pixels, as bytes, of samples that do not go through strips. */
static LDRI_HD inline void ldri_part_ready(const ldri_part *p, const ldri_descriptor *d,
                                           uint32_t row, uint32_t quad, uint32_t planar[3])
{
    uint32_t x = p->left + 4 * quad;
    if (p->path == LDRI_PATH_FINAL) {
        const uint8_t *at = p->job->pixels + d->offset + (size_t)row * d->pitch + 3 * (size_t)x;
        const uint32_t *w = (const uint32_t *)(const void *)at;
        ldri_unravel(w[0], w[1], w[2], planar);
    } else if (p->path == LDRI_PATH_ODD) {
        ldri_planes from = ldri_job_planes(p->job, p->sample);
        for (uint32_t c = 0; c < 3; c++) {
            const uint8_t *at = from.base + c * from.plane + (size_t)row * from.pitch + x;
            planar[c] = *(const uint32_t *)(const void *)at;
        }
    } else {
        planar[0] = planar[1] = planar[2] = 0;
    }
}

/* Rows row .. row + n - 1, columns of the part: bytes, colour up to contrast, planes.  Returns this
 * thread's sum of luma. */
static LDRI_HD inline uint32_t ldri_part_rows(const ldri_part *p, const ldri_block_shared *s,
                                              uint32_t row, uint32_t n, uint32_t t,
                                              uint32_t n_threads)
{
    uint32_t quads = (p->columns + 3u) / 4u;
    uint32_t y = t / quads, quad = t % quads;
    uint32_t down = n_threads / quads, along = n_threads % quads;
    uint32_t split = s->tint.split, sum = 0;
    int wants_luma = split < 4;
    int tints = s->tint.jitter != 0 && !(wants_luma && split == 0);
    while (y < n) {
        uint32_t planar[3];
        if (p->path == LDRI_PATH_STRIP)
            ldri_down(&p->strip, row + y, quad, planar);
        else
            ldri_part_ready(p, &s->d, row + y, quad, planar);
        if (tints || wants_luma) {
            ldri_quad q;
            ldri_quad_open(&q, planar);
            ldri_quad_tint(&q, &s->tint, 0, split);
            if (wants_luma) sum += ldri_quad_luma(&q, p->columns - 4 * quad);
            if (tints) ldri_quad_close(&q, planar);
        }
        uint8_t *to = p->to.base + (size_t)(row + y - p->to.row_first) * p->to.pitch;
        to += p->left + 4 * quad;
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) *(uint32_t *)(void *)(to + c * p->to.plane) = planar[c];
        y += down;
        quad += along;
        if (quad >= quads) {
            quad -= quads;
            y++;
        }
    }
    return sum;
}

/* Rows [y0, y1) and columns [left, left + columns) of a sample into planes, which may be the
 * picture's finals or shared memory.  Ends with a barrier; s->luma then has the part's sum. */
static LDRI_HD inline void ldri_block_resample(const ldri_kernel_job *job, uint32_t sample,
                                               uint32_t left, uint32_t columns, uint32_t y0,
                                               uint32_t y1, ldri_planes to, ldri_block_shared *s,
                                               uint32_t *inter, uint32_t n_threads)
{
    ldri_block_begin(job, sample, s, n_threads);
    LDRI_BARRIER();
    ldri_part p;
    ldri_strip *strip = &p.strip;
    p.job = job;
    p.sample = sample;
    p.left = left;
    p.columns = columns;
    p.to = to;
    strip->tables = ldri_job_tables(job, sample);
    p.path = ldri_load(strip->tables.head);
    if (p.path != LDRI_PATH_STRIP) {
        LDRI_THREADS(t, n_threads)
        {
            uint32_t sum = ldri_part_rows(&p, s, y0, y1 - y0, t, n_threads);
            ldri_block_add(&s->luma, sum);
        }
        LDRI_BARRIER();
        return;
    }
    strip->crop = job->pixels + s->d.offset;
    strip->pitch = s->d.pitch;
    strip->x_form = ldri_load(strip->tables.head + 1);
    strip->y_form = ldri_load(strip->tables.head + 2);
    strip->width = job->finish.width;
    strip->left = left;
    strip->columns = columns;
    strip->span = (columns + 3u) & ~3u;
    strip->inter = inter;
    uint32_t abreast = n_threads / columns; /* threads that share a column's rows */
    for (uint32_t row = y0; row < y1;) {
        uint32_t n = ldri_strip_begin(strip, row, y1);
        LDRI_THREADS(t, n_threads)
        {
            if (t < abreast * columns) ldri_across(strip, t % columns, t / columns, abreast);
        }
        LDRI_BARRIER();
        LDRI_THREADS(t, n_threads)
        {
            uint32_t sum = ldri_part_rows(&p, s, row, n, t, n_threads);
            ldri_block_add(&s->luma, sum);
        }
        LDRI_BARRIER();
        row += n;
    }
}

/* --- colour, finish ------------------------------------------------------------------------- */

/* What is left of colour after the resample. */
static LDRI_HD inline void ldri_chunk_tint(const ldri_block_shared *s, ldri_chunk *chunk)
{
    if (s->tint.split >= 4 && !s->d.greyscale) return;
    LDRI_ROLLED
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t planar[3];
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) planar[c] = h ? chunk->word[c][1] : chunk->word[c][0];
        ldri_quad q;
        ldri_quad_open(&q, planar);
        ldri_quad_tint(&q, &s->tint, s->tint.split, 4);
        if (s->d.greyscale) ldri_quad_greyscale(&q);
        ldri_quad_close(&q, planar);
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) {
            if (h)
                chunk->word[c][1] = planar[c];
            else
                chunk->word[c][0] = planar[c];
        }
    }
}

/* The mean for contrast: a sum over the whole picture. */
static LDRI_HD inline void ldri_block_mean(const ldri_kernel_job *job, ldri_block_shared *s,
                                           uint64_t luma_sum)
{
    uint64_t n = (uint64_t)job->finish.width * job->finish.height;
    s->tint.mean = (float)ldri_contrast_mean(luma_sum, n);
}

static LDRI_HD inline void ldri_block_quantiles(const ldri_kernel_job *job,
                                                const ldri_block_shared *s, ldri_block_noise *z,
                                                const float *quantiles, uint32_t t,
                                                uint32_t n_threads)
{
    if (s->d.n_erase == 0 || job->finish.erase_mode != LDR_ERASE_PIXEL) return;
    ldri_copy_words(z->quantiles, quantiles, sizeof z->quantiles, t, n_threads);
}

static LDRI_HD inline void ldri_labels(const ldri_kernel_job *job, uint32_t sample)
{
    job->out_labels[sample] = job->labels[sample];
    if (!job->mixes) return;
    job->out_mix_labels[sample] = job->mix_labels[sample];
    job->out_mix_lambda[sample] = job->mix_lambda[sample];
}

/* Only where pictures are mixed: part `part` of `n_parts` of a sample's finals, in place. */
static LDRI_HD inline void ldri_block_colour(const ldri_kernel_job *job, uint32_t sample,
                                             uint32_t part, uint32_t n_parts, ldri_block_shared *s,
                                             uint32_t n_threads)
{
    ldri_block_begin(job, sample, s, n_threads);
    LDRI_THREADS(t, n_threads)
    {
        if (t == 0) ldri_block_mean(job, s, s->d.luma_sum);
    }
    LDRI_BARRIER();
    if (s->tint.split >= 4 && !s->d.greyscale) return;
    ldri_planes p = ldri_job_planes(job, sample);
    uint32_t along = (job->finish.width + 7u) / 8u, n = along * job->finish.height;
    uint32_t each = (n + n_parts - 1) / n_parts, from = part * each;
    uint32_t to = from + each < n ? from + each : n;
    LDRI_THREADS(t, n_threads)
    {
        for (uint32_t i = from + t; i < to; i += n_threads) {
            uint32_t row = i / along, x = i % along * 8u;
            ldri_chunk chunk;
            ldri_planes_chunk(&p, job->finish.width, row, x, 0, &chunk);
            ldri_chunk_tint(s, &chunk);
            uint8_t *at = p.base + (size_t)row * p.pitch + x;
            LDRI_UNROLL
            for (uint32_t c = 0; c < 3; c++) {
                ldri_two v = {chunk.word[c][0], chunk.word[c][1]};
                *(ldri_two *)(void *)(at + c * p.plane) = v;
            }
        }
    }
}

/* Rows [row, row_end) of the planes to the image, colour included unless it has been done. */
static LDRI_HD inline void ldri_finish_rows(const ldri_kernel_job *job, uint32_t sample,
                                            const ldri_planes *p, uint32_t from, uint32_t to,
                                            const ldri_block_shared *s, const ldri_block_noise *z,
                                            uint32_t t, uint32_t n_threads)
{
    const ldri_finish *f = &job->finish;
    const ldri_descriptor *d = &s->d;
    uint32_t along = (f->width + 7u) / 8u;
    uint8_t *image = job->images + sample * job->image_bytes;
    for (uint32_t i = from + t; i < to; i += n_threads) {
        uint32_t y = i / along, x = i % along * 8u;
        ldri_chunk chunk;
        ldri_planes_chunk(p, f->width, d->vflip ? f->height - 1 - y : y, x, d->hflip, &chunk);
        if (!job->mixes) {
            ldri_chunk_tint(s, &chunk);
        } else if (d->mix != LDRI_MIX_NONE) {
            ldri_planes partner = ldri_job_planes(job, d->partner);
            ldri_chunk other;
            ldri_planes_chunk(&partner, f->width, s->partner_vflip ? f->height - 1 - y : y, x,
                              s->partner_hflip, &other);
            ldri_chunk_mix(d, y, x, &chunk, &other);
        }
        ldri_finish_chunk(f, d, y, x, &chunk, z->quantiles, image);
    }
}

static LDRI_HD inline void ldri_block_finish(const ldri_kernel_job *job, uint32_t sample,
                                             uint32_t part, uint32_t n_parts,
                                             const float *quantiles, ldri_block_shared *s,
                                             ldri_block_noise *z, uint32_t n_threads)
{
    ldri_block_begin(job, sample, s, n_threads);
    LDRI_THREADS(t, n_threads)
    {
        ldri_block_quantiles(job, s, z, quantiles, t, n_threads);
        if (t == 0) {
            ldri_block_mean(job, s, s->d.luma_sum);
            if (job->mixes && s->d.mix != LDRI_MIX_NONE) {
                s->partner_hflip = job->descriptors[s->d.partner].hflip;
                s->partner_vflip = job->descriptors[s->d.partner].vflip;
            }
            if (part == 0) ldri_labels(job, sample);
        }
    }
    LDRI_BARRIER();
    ldri_planes p = ldri_job_planes(job, sample);
    uint32_t n = (job->finish.width + 7u) / 8u * job->finish.height;
    uint32_t each = (n + n_parts - 1) / n_parts, from = part * each;
    uint32_t to = from + each < n ? from + each : n;
    LDRI_THREADS(t, n_threads)
    {
        ldri_finish_rows(job, sample, &p, from, to, s, z, t, n_threads);
    }
}

/* --- fused ---------------------------------------------------------------------------------- */

/* Planes of a block's rows in shared memory. */
static LDRI_HD inline ldri_planes ldri_fused_planes(const ldri_kernel_job *job, uint32_t y0,
                                                    uint8_t *memory)
{
    ldri_planes p;
    p.base = memory;
    p.pitch = job->pitch;
    p.row_first = y0;
    p.plane = (size_t)job->pitch * job->plan.fused_rows;
    return p;
}

/* The second half of the fused kernel: rows [y0, y1) of the planes, once s->tint.mean is there. */
static LDRI_HD inline void ldri_block_fused_finish(const ldri_kernel_job *job, uint32_t sample,
                                                   uint32_t y0, uint32_t y1, ldri_planes p,
                                                   const ldri_block_shared *s,
                                                   const ldri_block_noise *z, uint32_t n_threads)
{
    uint32_t along = (job->finish.width + 7u) / 8u, height = job->finish.height;
    uint32_t from = s->d.vflip ? height - y1 : y0, to = s->d.vflip ? height - y0 : y1;
    LDRI_THREADS(t, n_threads)
    {
        ldri_finish_rows(job, sample, &p, from * along, to * along, s, z, t, n_threads);
    }
}

#endif
