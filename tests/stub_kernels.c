/* stub_kernels.c - the launchers of kernels.h for stub_cudart.c: the same kernels, block after
 * block on the CPU, when the stub says that their turn has come.  What they have read is poisoned
 * afterwards, so that a later batch cannot live on it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/blocks.h"
#include "gpu/cuda_call.h"
#include "loader/backend.h" /* ldri_normal_quantiles */
#include "tests/stub_cudart.h"

#define THREADS 64u

static void *memory_of(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    assert(p);
    memset(p, STUB_POISON, n);
    return p;
}

static void run_prepare(void *arg)
{
    const ldri_kernel_job *job = arg;
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t t = 0; t < THREADS; t++) ldri_prepare(job, i, t, THREADS);
}

static void run_resample(void *arg)
{
    const ldri_kernel_job *job = arg;
    const ldri_kernel_plan *p = &job->plan;
    ldri_block_shared *s = memory_of(sizeof *s);
    uint32_t *inter = memory_of(4 * (size_t)ldri_inter_words(p->tile_columns));
    uint32_t width = job->finish.width, height = job->finish.height;
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t x = 0; x < width; x += p->tile_columns)
            for (uint32_t y = 0; y < height; y += p->strip_rows) {
                uint32_t columns = width - x < p->tile_columns ? width - x : p->tile_columns;
                uint32_t end = height - y < p->strip_rows ? height : y + p->strip_rows;
                ldri_block_resample(job, i, x, columns, y, end, ldri_job_planes(job, i), s, inter,
                                    columns > THREADS ? columns : THREADS);
                if (s->tint.split < 4) ldri_global_add(&job->descriptors[i].luma_sum, s->luma);
            }
    free(inter);
    free(s);
}

static void run_colour(void *arg)
{
    const ldri_kernel_job *job = arg;
    ldri_block_shared *s = memory_of(sizeof *s);
    for (uint32_t i = 0; i < job->count; i++) ldri_block_colour(job, i, 0, 1, s, THREADS);
    free(s);
}

/* The batch is through: nobody may read what it was made from. */
static void poison(const ldri_kernel_job *job)
{
    size_t words = ldri_tables_words(job->finish.width, job->finish.height);
    memset(job->finals, STUB_POISON, job->count * job->final_bytes);
    memset(job->tables, STUB_POISON, job->count * words * sizeof *job->tables);
    for (uint32_t i = 0; i < job->count; i++) {
        const ldri_descriptor *d = &job->descriptors[i];
        uint32_t rows = d->kind == LDRI_RGB_FINAL ? job->finish.height : d->y.n_stored;
        memset((uint8_t *)(uintptr_t)job->pixels + d->offset, STUB_POISON, (size_t)d->pitch * rows);
    }
    memset(job->descriptors, 0, job->count * sizeof *job->descriptors); /* black pictures */
    memset((int64_t *)(uintptr_t)job->labels, STUB_POISON, job->count * sizeof *job->labels);
}

static void run_finish(void *arg)
{
    const ldri_kernel_job *job = arg;
    ldri_block_shared *s = memory_of(sizeof *s);
    ldri_block_noise *z = memory_of(sizeof *z);
    for (uint32_t i = 0; i < job->count; i++)
        ldri_block_finish(job, i, 0, 1, ldri_normal_quantiles, s, z, THREADS);
    free(z);
    free(s);
    poison(job);
}

static void run_fused(void *arg)
{
    const ldri_kernel_job *job = arg;
    uint32_t height = job->finish.height, width = job->finish.width;
    uint32_t threads = width > THREADS ? width : THREADS;
    ldri_block_shared *s = memory_of(sizeof *s);
    ldri_block_noise *z = memory_of(sizeof *z);
    uint8_t *planes = memory_of(job->final_bytes);
    uint32_t *inter = memory_of(4 * (size_t)ldri_inter_words(width));
    for (uint32_t i = 0; i < job->count; i++) { /* a cluster of one block */
        ldri_planes p = ldri_fused_planes(job, 0, planes);
        ldri_block_resample(job, i, 0, width, 0, height, p, s, inter, threads);
        ldri_block_mean(job, s, s->luma);
        for (uint32_t t = 0; t < threads; t++)
            ldri_block_quantiles(job, s, z, ldri_normal_quantiles, t, threads);
        ldri_block_fused_finish(job, i, 0, height, p, s, z, threads);
        ldri_labels(job, i);
    }
    free(inter);
    free(planes);
    free(z);
    free(s);
    poison(job);
}

/* --- launchers ------------------------------------------------------------------------------- */

int ldri_kernels_plan(ldri_cuda *calls, ldri_kernel_job *job, int device_id, int may)
{
    ldri_kernel_plan *p = &job->plan;
    (void)device_id;
    *p = (ldri_kernel_plan){0};
    p->tile_columns = job->finish.width > 256 ? 256 : job->finish.width;
    p->strip_rows = 28;
    p->fused_rows = job->finish.height;
    p->fused = may && stub_may_fuse() && !job->mixes && job->finish.width <= 256;
    return LDRI_CUDA(calls, LDRI_CUDA_FUNCTION, cudaSuccess);
}

static int launch(ldri_cuda *calls, void (*run)(void *arg), const ldri_kernel_job *job,
                  ldr_stream stream)
{
    return LDRI_CUDA(calls, LDRI_CUDA_LAUNCH, stub_enqueue(stream, run, job, sizeof *job));
}

int ldri_launch_prepare(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    return launch(calls, run_prepare, job, stream);
}

int ldri_launch_resample(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    return launch(calls, run_resample, job, stream);
}

int ldri_launch_colour(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    return launch(calls, run_colour, job, stream);
}

int ldri_launch_finish(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    return launch(calls, run_finish, job, stream);
}

int ldri_launch_fused(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    return launch(calls, run_fused, job, stream);
}
