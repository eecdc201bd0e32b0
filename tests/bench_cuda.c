/* What the kernels and copies of a batch take on a GPU, beside what the device can do in the same
 * run.  256 synthetic crops of exactly 400 x 350 pixels of noise and edges, never zeros, to 224 x
 * 224; all four jitter operators and one erased box a picture.  Medians of 101 batches.
 * usage: bench_cuda [quick | sweep]      quick: two rows of the table alone; sweep: other shapes of
 * the launches as well */
#include <math.h>
#include <string.h>
#include <time.h>

#include "gpu/axis_table.h"
#include "gpu/backend_cuda.h"
#include "gpu/kernels.h"
#include "gpu/strip.h"
#include "tests/gpu_device.h"
#include "tests/helper_batch.h"

#define BATCH 256u
#define SIDE  224u
#define REPS  101
#define WARM  10
#define MB    1000000.0

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, int n, double q)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[(int)(q * (n - 1) + 0.5)];
}

static cudaEvent_t event(void)
{
    cudaEvent_t e;
    GPU_MUST(cudaEventCreate(&e));
    return e;
}

static double between_us(cudaEvent_t a, cudaEvent_t b)
{
    float ms;
    GPU_MUST(cudaEventElapsedTime(&ms, a, b));
    return 1e3 * (double)ms;
}

/* --- what the device can do ------------------------------------------------------------------- */

static double copy_ceiling(enum cudaMemcpyKind kind, size_t bytes, size_t piece) /* bytes / us */
{
    uint8_t *from, *to;
    double us[11];
    cudaStream_t s;
    cudaEvent_t a = event(), b = event();
    if (kind == cudaMemcpyHostToDevice)
        GPU_MUST(cudaHostAlloc((void **)&from, bytes, 0));
    else
        GPU_MUST(cudaMalloc((void **)&from, bytes));
    GPU_MUST(cudaMalloc((void **)&to, bytes));
    if (kind == cudaMemcpyHostToDevice)
        for (size_t i = 0; i < bytes; i++) from[i] = (uint8_t)(i * 2654435761u >> 13);
    else
        GPU_MUST(cudaMemset(from, 0x3C, bytes));
    GPU_MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int r = 0; r < 11; r++) {
        GPU_MUST(cudaEventRecord(a, s));
        for (size_t at = 0; at < bytes; at += piece) {
            size_t n = bytes - at < piece ? bytes - at : piece;
            GPU_MUST(cudaMemcpyAsync(to + at, from + at, n, kind, s));
        }
        GPU_MUST(cudaEventRecord(b, s));
        GPU_MUST(cudaEventSynchronize(b));
        us[r] = between_us(a, b);
    }
    GPU_MUST(cudaStreamDestroy(s));
    if (kind == cudaMemcpyHostToDevice)
        GPU_MUST(cudaFreeHost(from));
    else
        GPU_MUST(cudaFree(from));
    GPU_MUST(cudaFree(to));
    return (double)bytes / quantile(us, 11, 0.5);
}

/* --- kernels ---------------------------------------------------------------------------------- */

typedef struct arena {
    uint8_t *memory;
    ldri_descriptor *fresh; /* as the host made them: kernels add to them */
} arena;

typedef struct bench {
    ldri_backend_config c;
    ldri_kernel_job job;
    arena arenas[2];
    uint8_t *outputs[2];
    cudaStream_t stream;
    size_t pixels_at, read_bytes;
} bench;

static void bench_open(bench *b, ldr_dtype dtype, ldr_layout layout, int kinds, int separate)
{
    memset(b, 0, sizeof *b);
    b->c = helper_config(BATCH, SIDE, SIDE, dtype, layout, LDR_ERASE_PIXEL, 0);
    b->c.arena_bytes = helper_arena_bytes(BATCH, SIDE, SIDE, kinds);
    ldri_kernel_job *job = &b->job;
    job->finish = (ldri_finish){.width = SIDE,
                                .height = SIDE,
                                .dtype = (int)dtype,
                                .layout = (int)layout,
                                .erase_mode = LDR_ERASE_PIXEL,
                                .seed = 1};
    for (int i = 0; i < 3; i++) {
        job->finish.mean[i] = b->c.mean[i];
        job->finish.std[i] = b->c.std[i];
        job->finish.scale[i] = 1.0f / (255.0f * b->c.std[i]);
        job->finish.bias[i] = -b->c.mean[i] / b->c.std[i];
    }
    ldri_kernel_job_sizes(job);
    job->count = BATCH;
    GPU_MUST((cudaError_t)ldri_kernels_plan(NULL, job, 0, !separate));
    GPU_MUST(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    b->pixels_at = (BATCH * sizeof(ldri_descriptor) + 255) / 256 * 256;
    for (int i = 0; i < 2; i++) {
        arena *a = &b->arenas[i];
        int64_t labels[BATCH];
        size_t all = b->pixels_at + b->c.arena_bytes + ldri_overread(SIDE);
        ldri_host_arena h = {.labels = labels};
        GPU_MUST(cudaMalloc((void **)&a->memory, all));
        GPU_MUST(cudaMemset(a->memory, 0, all));
        GPU_MUST(cudaMalloc((void **)&a->fresh, b->pixels_at));
        GPU_MUST(cudaHostAlloc((void **)&h.descriptors, b->pixels_at, 0));
        GPU_MUST(cudaHostAlloc((void **)&h.pixels, b->c.arena_bytes, 0));
        b->read_bytes = helper_fill(&b->c, &h, 7 + (uint32_t)i, kinds);
        GPU_MUST(cudaMemcpy(a->fresh, h.descriptors, b->pixels_at, cudaMemcpyHostToDevice));
        GPU_MUST(
            cudaMemcpy(a->memory + b->pixels_at, h.pixels, b->read_bytes, cudaMemcpyHostToDevice));
        GPU_MUST(cudaFreeHost(h.descriptors));
        GPU_MUST(cudaFreeHost(h.pixels));
        GPU_MUST(cudaMalloc((void **)&b->outputs[i], BATCH * (job->image_bytes + 8)));
    }
    GPU_MUST(cudaMalloc((void **)&job->finals, BATCH * job->final_bytes));
    GPU_MUST(cudaMalloc((void **)&job->tables, 4 * BATCH * ldri_tables_words(SIDE, SIDE)));
    GPU_MUST(cudaMalloc((void **)&job->labels, BATCH * 8));
    GPU_MUST(cudaMemset((void *)(uintptr_t)job->labels, 1, BATCH * 8));
}

static void bench_close(bench *b)
{
    for (int i = 0; i < 2; i++) {
        GPU_MUST(cudaFree(b->arenas[i].memory));
        GPU_MUST(cudaFree(b->arenas[i].fresh));
        GPU_MUST(cudaFree(b->outputs[i]));
    }
    GPU_MUST(cudaFree(b->job.finals));
    GPU_MUST(cudaFree(b->job.tables));
    GPU_MUST(cudaFree((void *)(uintptr_t)b->job.labels));
    GPU_MUST(cudaStreamDestroy(b->stream));
}

static void next_batch(bench *b, int rep)
{
    const arena *a = &b->arenas[rep & 1];
    ldri_kernel_job *job = &b->job;
    GPU_MUST(
        cudaMemcpyAsync(a->memory, a->fresh, b->pixels_at, cudaMemcpyDeviceToDevice, b->stream));
    job->descriptors = (ldri_descriptor *)(void *)a->memory;
    job->pixels = a->memory + b->pixels_at;
    job->images = b->outputs[rep & 1];
    job->out_labels = (int64_t *)(void *)(job->images + BATCH * job->image_bytes);
}

typedef struct times { /* us */
    double all, low, high;
    double prepare, resample, finish; /* resample: all the rest, if fused */
} times;

static times bench_time(bench *b)
{
    static double all[REPS], part[3][REPS];
    cudaEvent_t e[4] = {event(), event(), event(), event()};
    const ldri_kernel_job *job = &b->job;
    times t;
    for (int r = -WARM; r < REPS; r++) {
        next_batch(b, r + WARM);
        GPU_MUST(cudaEventRecord(e[0], b->stream));
        GPU_MUST((cudaError_t)ldri_launch_prepare(NULL, job, b->stream));
        if (job->plan.fused) {
            GPU_MUST((cudaError_t)ldri_launch_fused(NULL, job, b->stream));
        } else {
            GPU_MUST((cudaError_t)ldri_launch_resample(NULL, job, b->stream));
            GPU_MUST((cudaError_t)ldri_launch_finish(NULL, job, b->stream));
        }
        GPU_MUST(cudaEventRecord(e[1], b->stream));
        GPU_MUST(cudaEventSynchronize(e[1]));
        if (r >= 0) all[r] = between_us(e[0], e[1]);
    }
    for (int r = -WARM; r < REPS; r++) { /* the same with marks between the kernels */
        next_batch(b, r + WARM);
        GPU_MUST(cudaEventRecord(e[0], b->stream));
        GPU_MUST((cudaError_t)ldri_launch_prepare(NULL, job, b->stream));
        GPU_MUST(cudaEventRecord(e[1], b->stream));
        if (job->plan.fused)
            GPU_MUST((cudaError_t)ldri_launch_fused(NULL, job, b->stream));
        else
            GPU_MUST((cudaError_t)ldri_launch_resample(NULL, job, b->stream));
        GPU_MUST(cudaEventRecord(e[2], b->stream));
        if (!job->plan.fused) GPU_MUST((cudaError_t)ldri_launch_finish(NULL, job, b->stream));
        GPU_MUST(cudaEventRecord(e[3], b->stream));
        GPU_MUST(cudaEventSynchronize(e[3]));
        for (int k = 0; k < 3 && r >= 0; k++) part[k][r] = between_us(e[k], e[k + 1]);
    }
    t.all = quantile(all, REPS, 0.5);
    t.low = quantile(all, REPS, 0.05);
    t.high = quantile(all, REPS, 0.95);
    t.prepare = quantile(part[0], REPS, 0.5);
    t.resample = quantile(part[1], REPS, 0.5);
    t.finish = quantile(part[2], REPS, 0.5);
    for (int k = 0; k < 4; k++) GPU_MUST(cudaEventDestroy(e[k]));
    return t;
}

static void print_times(const char *name, const bench *b, const times *t, double d2d)
{
    double moved = (double)b->read_bytes + BATCH * (double)b->job.image_bytes;
    printf("%-34s %-8s %7.1f (%5.1f..%5.1f)  %5.1f %6.1f %6.1f  %6.1f MB, at the ceiling %5.1f us: "
           "%4.1f %%\n",
           name, b->job.plan.fused ? "fused" : "separate", t->all, t->low, t->high, t->prepare,
           t->resample, t->finish, moved / MB, moved / d2d, 100.0 * moved / d2d / t->all);
    fflush(stdout);
}

static void kernels(double d2d, int quick)
{
    static const struct {
        const char *name;
        ldr_dtype dtype;
        ldr_layout layout;
        int kinds;
    } rows[] = {
        {"bilinear f16 jitter erase", LDR_F16, LDR_NCHW,
         HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER | HELPER_ONE_BOX},
        {"bicubic  f16 jitter erase", LDR_F16, LDR_NCHW,
         HELPER_EXACT | HELPER_BICUBIC | HELPER_ALL_JITTER | HELPER_ONE_BOX},
        {"bilinear f16 jitter", LDR_F16, LDR_NCHW,
         HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER},
        {"bilinear f16 erase", LDR_F16, LDR_NCHW, HELPER_EXACT | HELPER_BILINEAR | HELPER_ONE_BOX},
        {"bilinear f16", LDR_F16, LDR_NCHW, HELPER_EXACT | HELPER_BILINEAR},
        {"bicubic  f16", LDR_F16, LDR_NCHW, HELPER_EXACT | HELPER_BICUBIC},
        {"bilinear f32 jitter erase", LDR_F32, LDR_NCHW,
         HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER | HELPER_ONE_BOX},
        {"bilinear f16 nhwc jitter erase", LDR_F16, LDR_NHWC,
         HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER | HELPER_ONE_BOX},
        {"bilinear u8 jitter erase", LDR_U8, LDR_NCHW,
         HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER | HELPER_ONE_BOX},
        {"random sizes and filters f16 j e", LDR_F16, LDR_NCHW,
         HELPER_ORDINARY | HELPER_ALL_JITTER | HELPER_ONE_BOX},
    };
    size_t n = quick ? 2 : sizeof rows / sizeof *rows;
    printf("%-34s %-8s %s\n", "augment, 256 x 400x350 -> 224x224", "kernels",
           "us median (5..95 %)  prepare, resample, finish");
    for (size_t i = 0; i < n; i++)
        for (int separate = 0; separate < 2; separate++) {
            bench b;
            bench_open(&b, rows[i].dtype, rows[i].layout, rows[i].kinds, separate);
            times t = bench_time(&b);
            print_times(rows[i].name, &b, &t, d2d);
            bench_close(&b);
        }
}

static void sweep(void)
{
    static const uint32_t strips[] = {14, 16, 19, 23, 28, 32, 38, 45, 56};
    static const uint32_t threads[] = {128, 160, 192, 224, 256};
    static const uint32_t parts[] = {4, 5, 7, 9, 13, 25, 49};
    for (int bicubic = 0; bicubic < 2; bicubic++) {
        bench b;
        bench_open(&b, LDR_F16, LDR_NCHW,
                   HELPER_EXACT | HELPER_ALL_JITTER | HELPER_ONE_BOX |
                       (bicubic ? HELPER_BICUBIC : HELPER_BILINEAR),
                   1);
        ldri_kernel_plan was = b.job.plan;
        for (size_t i = 0; i < sizeof strips / sizeof *strips; i++) {
            b.job.plan.strip_rows = strips[i];
            b.job.plan.n_strips = (SIDE + strips[i] - 1) / strips[i];
            printf("sweep %s strip_rows %2u: resample %6.1f us\n",
                   bicubic ? "bicubic " : "bilinear", strips[i], bench_time(&b).resample);
        }
        b.job.plan = was;
        for (size_t i = 0; !bicubic && i < sizeof threads / sizeof *threads; i++)
            for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
                b.job.plan.finish_threads = threads[i];
                b.job.plan.finish_parts = parts[k];
                printf("sweep finish threads %3u parts %2u: %6.1f us\n", threads[i], parts[k],
                       bench_time(&b).finish);
            }
        bench_close(&b);
    }
}

/* --- the back end ------------------------------------------------------------------------------
 */

static void pipeline(double h2d)
{
    const ldri_backend_ops *cuda = &ldri_backend_cuda;
    int kinds = HELPER_EXACT | HELPER_BILINEAR | HELPER_ALL_JITTER | HELPER_ONE_BOX;
    ldri_backend_config c = helper_config(BATCH, SIDE, SIDE, LDR_F16, LDR_NCHW, LDR_ERASE_PIXEL, 0);
    static double submits[200], hands[2000];
    cudaStream_t consumer;
    ldri_backend *be;
    ldr_error err;
    size_t used = 0;
    c.n_hosts = c.n_outputs = 3;
    c.arena_bytes = helper_arena_bytes(BATCH, SIDE, SIDE, kinds);
    unsetenv("LDR_CUDA_KERNELS");
    double start = now_us();
    if (cuda->open(&be, &c, &err) < 0) {
        printf("FAIL open: %s\n", err.message);
        exit(1);
    }
    double opened = now_us() - start;
    GPU_MUST(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
    for (uint32_t i = 0; i < c.n_hosts; i++) {
        ldri_host_arena a;
        cuda->host_arena(be, i, &a);
        used = helper_fill(&c, &a, i, kinds);
    }
    const int n = 60, warm = 6;
    int n_submits = 0;
    for (int k = 0; k < n + warm; k++) {
        uint32_t slot = (uint32_t)k % 3;
        if (k == warm) {
            GPU_MUST(cudaDeviceSynchronize());
            start = now_us();
        }
        cuda->host_reusable(be, slot, 1);
        double t = now_us();
        if (cuda->submit(be, slot, slot, BATCH, used, &err) < 0) exit(1);
        if (k >= warm) submits[n_submits++] = now_us() - t;
        if (cuda->acquire(be, slot, consumer, &err) < 0) exit(1);
        if (cuda->release(be, slot, consumer, &err) < 0) exit(1);
    }
    GPU_MUST(cudaDeviceSynchronize());
    double us = now_us() - start, bytes = (double)n * (double)(used + BATCH * 400);
    for (int k = 0; k < 2000; k++) {
        double t = now_us();
        cuda->acquire(be, 0, consumer, &err);
        cuda->release(be, 0, consumer, &err);
        hands[k] = now_us() - t;
        if (k % 100 == 99) GPU_MUST(cudaStreamSynchronize(consumer));
    }
    printf("back end: open %.0f ms; %d batches of %.1f MB at %.2f GB/s, %.1f %% of the pinned "
           "ceiling (%.2f); host: submit %.1f us, acquire + release %.2f us (99 %%: %.2f)\n",
           opened / 1000, n, (double)used / MB, bytes / us / 1000, 100 * bytes / us / h2d,
           h2d / 1000, quantile(submits, n_submits, 0.5), quantile(hands, 2000, 0.5),
           quantile(hands, 2000, 0.99));
    cuda->close(be);
    GPU_MUST(cudaStreamDestroy(consumer));
}

int main(int argc, char **argv)
{
    struct cudaDeviceProp p;
    gpu_needed();
    GPU_MUST(cudaGetDeviceProperties(&p, 0));
    printf("%s, %d multiprocessors, compute capability %d.%d\n", p.name, p.multiProcessorCount,
           p.major, p.minor);
    double h2d = copy_ceiling(cudaMemcpyHostToDevice, (size_t)256 << 20, (size_t)256 << 20);
    double pieces = copy_ceiling(cudaMemcpyHostToDevice, (size_t)256 << 20, (size_t)16 << 20);
    double d2d = 2 * copy_ceiling(cudaMemcpyDeviceToDevice, (size_t)1 << 30, (size_t)1 << 30);
    printf("ceilings: host to device %.2f GB/s (16 MB pieces %.2f), device copy %.0f GB/s read + "
           "written\n",
           h2d / 1000, pieces / 1000, d2d / 1000);
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "sweep") == 0) sweep();
    kernels(d2d, strcmp(mode, "quick") == 0);
    if (strcmp(mode, "quick") != 0) pipeline(h2d);
    return 0;
}
