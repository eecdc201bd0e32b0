/* backend_cuda.c - the back end that augments on an NVIDIA GPU.
 *
 * DESIGN
 *
 * Two streams of our own, both non-blocking: `copy` brings host arenas to the device, `work` runs
 * the kernels.  Three memories with three lives (cuda_pools.h), and an event for the end of each:
 *
 *     host arena h    workers write it ... copied: it may be written again
 *     device arena d  the copy writes it ... done: its kernels have run
 *     output o        kernels write it, ready ... the consumer reads it, used
 *
 * submit, on the staging thread, enqueues and returns:
 *     copy: wait d.done; pieces of the arena; record h.copied
 *     work: wait h.copied; wait o.used; up to four kernels; record d.done, o.ready
 * acquire makes the consumer's stream wait for o.ready; release records o.used on it.  A wait on an
 * event binds to its last record at the time of the call: each event is recorded before its owner
 * is handed on through a ring of the core, and recorded again only when the waits on it are
 * enqueued.
 *
 * Nobody on the host waits for the device, but for the staging thread in host_reusable, when it has
 * no arena left, download, and close.  Nothing is allocated after open, and no stream is used that
 * is not ours or the caller's.
 *
 * The runtime's current device belongs to the thread: callers' threads get theirs back. */
#include "gpu/backend_cuda.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/axis_table.h"
#include "gpu/cuda_pools.h"
#include "gpu/simd.h"

#define PIECE_BYTES ((size_t)16 << 20) /* at most, of one copy: 99 % of the bus's ceiling */

struct ldri_backend {
    ldri_backend_config config;
    ldri_cuda_pools pools;
    ldri_kernel_job job; /* what is the same for all batches */
    const ldri_resample_kernels *resample;
    uint32_t next_arena; /* staging thread's */
};

struct ldri_scratch {
    ldri_resampler *resampler;
};

#define TRY(be, kind, call)                                                                        \
    do {                                                                                           \
        cudaError_t e_ = LDRI_CUDA((be)->pools.calls, kind, call);                                 \
        if (e_ != cudaSuccess) return ldri_cuda_error((be)->pools.calls, kind, e_, err);           \
    } while (0)

/* --- devices --------------------------------------------------------------------------------- */

/* Makes the back end's device current.  *before: the one to go back to. */
static ldr_status enter(ldri_backend *be, int *before, ldr_error *err)
{
    TRY(be, LDRI_CUDA_GET_DEVICE, cudaGetDevice(before));
    if (*before != be->pools.device_id)
        TRY(be, LDRI_CUDA_SET_DEVICE, cudaSetDevice(be->pools.device_id));
    return LDR_OK;
}

static ldr_status leave(ldri_backend *be, int before, ldr_error *err)
{
    if (before != be->pools.device_id) TRY(be, LDRI_CUDA_SET_DEVICE, cudaSetDevice(before));
    return LDR_OK;
}

static ldr_status stay(ldri_backend *be, ldr_error *err) /* in a thread of the library's own */
{
    int before;
    return enter(be, &before, err);
}

static ldr_status device_fits(ldri_cuda *calls, int id, ldr_error *err)
{
    int major = 0, minor = 0;
    cudaError_t e =
        LDRI_CUDA(calls, LDRI_CUDA_ATTRIBUTE,
                  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, id));
    if (e == cudaSuccess)
        e = LDRI_CUDA(calls, LDRI_CUDA_ATTRIBUTE,
                      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, id));
    if (e != cudaSuccess) return ldri_cuda_error(calls, LDRI_CUDA_ATTRIBUTE, e, err);
    if (major >= 8) return LDR_OK;
    return ldri_error_set(err, LDR_E_CUDA, 0, LDR_NO_SAMPLE,
                          "CUDA device %d has compute capability %d.%d, 8.0 is needed: use device "
                          "cpu, or another device_id",
                          id, major, minor);
}

static ldr_status count_devices(ldri_cuda *calls, int *n, ldr_error *err)
{
    *n = 0;
    cudaError_t e = LDRI_CUDA(calls, LDRI_CUDA_DEVICE_COUNT, cudaGetDeviceCount(n));
    if (e == cudaSuccess && *n == 0) e = cudaErrorNoDevice;
    if (e == cudaSuccess) return LDR_OK;
    ldri_cuda_error(calls, LDRI_CUDA_DEVICE_COUNT, e, err);
    return LDR_E_CUDA;
}

ldr_status ldri_backend_cuda_works(ldr_error *err)
{
    int n;
    ldr_status s = count_devices(NULL, &n, err);
    for (int i = 0; s >= 0 && i < n; i++) {
        s = device_fits(NULL, i, err);
        if (s >= 0) return LDR_OK;
        if (i + 1 < n) s = LDR_OK; /* another may fit */
    }
    return s;
}

/* --- open, close ----------------------------------------------------------------------------- */

static void cuda_close(ldri_backend *be)
{
    if (!be) return;
    int before = be->pools.device_id;
    (void)LDRI_CUDA(be->pools.calls, LDRI_CUDA_GET_DEVICE, cudaGetDevice(&before));
    (void)LDRI_CUDA(be->pools.calls, LDRI_CUDA_SET_DEVICE, cudaSetDevice(be->pools.device_id));
    ldri_cuda_pools_close(&be->pools);
    if (before != be->pools.device_id)
        (void)LDRI_CUDA(be->pools.calls, LDRI_CUDA_SET_DEVICE, cudaSetDevice(before));
    ldri_cuda_free(be->pools.calls);
    free(be);
}

static void job_init(ldri_kernel_job *job, const ldri_backend_config *c)
{
    ldri_finish *f = &job->finish;
    job->mixes = c->mixes;
    f->width = c->width;
    f->height = c->height;
    f->dtype = (int)c->dtype;
    f->layout = (int)c->layout;
    f->erase_mode = (int)c->erase_mode;
    f->seed = c->seed;
    ldri_normaliser z; /* for its scale and bias: one formula for all */
    ldri_normaliser_init(&z, &ldri_normalise_plain, c->width, c->height, LDR_F32, c->layout,
                         c->mean, c->std);
    for (int i = 0; i < 3; i++) {
        f->mean[i] = c->mean[i];
        f->std[i] = c->std[i];
        f->scale[i] = z.scale[i];
        f->bias[i] = z.bias[i];
    }
    ldri_kernel_job_sizes(job);
}

/* The job of a batch in arena a for output o. */
static ldri_kernel_job job_of(const ldri_backend *be, const ldri_cuda_arena *a,
                              const ldri_cuda_output *o, uint32_t count)
{
    const ldri_cuda_layout *l = &be->pools.layout;
    ldri_kernel_job job = be->job;
    job.descriptors = (ldri_descriptor *)a->memory;
    job.pixels = a->memory + l->pixels_at;
    job.labels = (const int64_t *)(a->memory + l->labels_at);
    job.mix_labels = (const int64_t *)(a->memory + l->mix_labels_at);
    job.mix_lambda = (const float *)(a->memory + l->mix_lambda_at);
    job.finals = be->pools.finals;
    job.tables = be->pools.tables;
    job.images = o->memory;
    job.out_labels = (int64_t *)(o->memory + l->out_labels_at);
    job.out_mix_labels = (int64_t *)(o->memory + l->out_mix_labels_at);
    job.out_mix_lambda = (float *)(o->memory + l->out_mix_lambda_at);
    job.count = count;
    return job;
}

#define LAUNCH(be, which, job)                                                                     \
    do {                                                                                           \
        cudaError_t e_ =                                                                           \
            (cudaError_t)ldri_launch_##which((be)->pools.calls, (job), (be)->pools.work);          \
        if (e_ != cudaSuccess)                                                                     \
            return ldri_cuda_error((be)->pools.calls, LDRI_CUDA_LAUNCH, e_, err);                  \
    } while (0)

static ldr_status launch_all(ldri_backend *be, const ldri_kernel_job *job, ldr_error *err)
{
    LAUNCH(be, prepare, job);
    if (job->plan.fused) {
        LAUNCH(be, fused, job);
        return LDR_OK;
    }
    LAUNCH(be, resample, job);
    if (job->mixes) LAUNCH(be, colour, job);
    LAUNCH(be, finish, job);
    return LDR_OK;
}

/* A kernel's first launch may load its code, which waits for the whole device: so it is now, on one
 * black picture, which an arena of zeros describes. */
static ldr_status touch_kernels(ldri_backend *be, ldr_error *err)
{
    ldri_kernel_job job = job_of(be, &be->pools.arenas[0], &be->pools.outputs[0], 1);
    ldr_status s = launch_all(be, &job, err);
    if (s < 0) return s;
    TRY(be, LDRI_CUDA_STREAM_SYNC, cudaStreamSynchronize(be->pools.work));
    return LDR_OK;
}

static void warn_of_connections(const ldri_backend_config *c)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (!text || strcmp(text, "1") != 0 || !c->warn) return;
    c->warn(c->warn_user,
            "CUDA_DEVICE_MAX_CONNECTIONS is 1: copies and kernels of the loader queue up behind "
            "those of training; unset it if you can");
}

static ldr_status open_on_device(ldri_backend *be, ldr_error *err)
{
    const ldri_backend_config *c = &be->config;
    const char *kernels = getenv("LDR_CUDA_KERNELS");
    /* On an H200 the fused kernel takes 324 us where the separate ones take 268 (CONTRIBUTING.md). */
    int may_fuse = kernels && strcmp(kernels, "fused") == 0;
    job_init(&be->job, c);
    cudaError_t e =
        (cudaError_t)ldri_kernels_plan(be->pools.calls, &be->job, be->pools.device_id, may_fuse);
    if (e != cudaSuccess) return ldri_cuda_error(be->pools.calls, LDRI_CUDA_FUNCTION, e, err);
    ldr_status s = ldri_cuda_lay_out(&be->pools.layout, c, &be->job, err);
    if (s < 0) return s;
    if ((s = ldri_cuda_pools_open(&be->pools, c, err)) < 0) return s;
    return touch_kernels(be, err);
}

static ldr_status cuda_open(ldri_backend **out, const ldri_backend_config *config, ldr_error *err)
{
    assert(config->batch > 0 && config->width > 0 && config->height > 0);
    assert(config->n_hosts > 0 && config->n_outputs > 0 && config->arena_bytes % 64 == 0);
    ldri_backend *be = calloc(1, sizeof *be);
    ldri_cuda *calls = ldri_cuda_new();
    if (!be || !calls) {
        free(be);
        ldri_cuda_free(calls);
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE, "out of memory");
    }
    be->config = *config;
    be->pools.calls = calls;
    be->pools.device_id = config->device_id;
    be->resample = ldri_simd_resample(ldri_simd_wanted());
    int n, before;
    ldr_status s = count_devices(calls, &n, err);
    if (s >= 0 && (config->device_id < 0 || config->device_id >= n)) {
        s = ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                           "device_id is %d, but there are %d CUDA devices: use 0 .. %d",
                           config->device_id, n, n - 1);
    }
    if (s >= 0) s = device_fits(calls, config->device_id, err);
    if (s < 0) {
        free(be);
        ldri_cuda_free(calls);
        return s;
    }
    warn_of_connections(config);
    if ((s = enter(be, &before, err)) >= 0) {
        s = open_on_device(be, err);
        ldr_status left = leave(be, before, s < 0 ? NULL : err);
        if (s >= 0) s = left;
    }
    if (s < 0)
        cuda_close(be);
    else
        *out = be;
    return s;
}

/* --- where things are ------------------------------------------------------------------------ */

static void cuda_host_arena(ldri_backend *be, uint32_t host, ldri_host_arena *out)
{
    assert(host < be->config.n_hosts);
    const ldri_cuda_layout *l = &be->pools.layout;
    uint8_t *p = be->pools.hosts[host].memory;
    out->descriptors = (ldri_descriptor *)p;
    out->labels = (int64_t *)(p + l->labels_at);
    out->mix_labels = be->config.mixes ? (int64_t *)(p + l->mix_labels_at) : NULL;
    out->mix_lambda = be->config.mixes ? (float *)(p + l->mix_lambda_at) : NULL;
    out->pixels = p + l->pixels_at;
}

static void cuda_output(ldri_backend *be, uint32_t output, ldri_output *out)
{
    assert(output < be->config.n_outputs);
    const ldri_cuda_layout *l = &be->pools.layout;
    uint8_t *p = be->pools.outputs[output].memory;
    out->images = p;
    out->labels = (const int64_t *)(p + l->out_labels_at);
    out->mix_labels = be->config.mixes ? (const int64_t *)(p + l->out_mix_labels_at) : NULL;
    out->mix_lambda = be->config.mixes ? (const float *)(p + l->out_mix_lambda_at) : NULL;
}

static void cuda_memory(const ldri_backend *be, uint64_t *pinned_bytes, uint64_t *device_bytes,
                        uint64_t *host_bytes)
{
    *pinned_bytes = *host_bytes = 0;
    for (uint32_t i = 0; i < be->pools.n_hosts; i++)
        *(be->pools.hosts[i].pinned ? pinned_bytes : host_bytes) += be->pools.layout.arena_bytes;
    *device_bytes = be->pools.layout.device_bytes;
}

static void cuda_calls(const ldri_backend *be,
                       void (*each)(void *user, const char *name, uint64_t n), void *user)
{
    ldri_cuda_counts(be->pools.calls, each, user);
}

/* --- workers --------------------------------------------------------------------------------- */

static void cuda_scratch_close(ldri_scratch *scratch)
{
    if (!scratch) return;
    ldri_resampler_close(scratch->resampler);
    free(scratch);
}

static ldri_scratch *cuda_scratch_open(ldri_backend *be)
{
    ldri_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->resampler = ldri_resampler_open(be->resample, be->config.width, be->config.height);
    if (scratch->resampler) return scratch;
    free(scratch);
    return NULL;
}

static ldr_status cuda_resample_sample(ldri_backend *be, ldri_scratch *scratch,
                                       const ldri_descriptor *d, const uint8_t *crop, uint8_t *out)
{
    assert(d->kind == LDRI_RGB_CROP);
    return ldri_resampler_run(scratch->resampler, d, crop, out, ldri_pitch(be->config.width));
}

/* --- the staging thread ---------------------------------------------------------------------- */

/* [0, bytes) of a host arena, in equal pieces of at most PIECE_BYTES: if there are several, each
 * has more than half of that. */
static ldr_status enqueue_copy(ldri_backend *be, const ldri_cuda_host *h, const ldri_cuda_arena *a,
                               size_t bytes, ldr_error *err)
{
    size_t n = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    size_t piece = ((bytes + n - 1) / n + 4095) / 4096 * 4096;
    for (size_t at = 0; at < bytes; at += piece) {
        size_t some = bytes - at < piece ? bytes - at : piece;
        TRY(be, LDRI_CUDA_COPY,
            cudaMemcpyAsync(a->memory + at, h->memory + at, some, cudaMemcpyHostToDevice,
                            be->pools.copy));
    }
    return LDR_OK;
}

static int any_odd(const ldri_descriptor *d, uint32_t count, uint32_t width)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ldri_path_of(&d[i], width) == LDRI_PATH_ODD) return 1;
    }
    return 0;
}

static ldr_status cuda_submit(ldri_backend *be, uint32_t host, uint32_t output, uint32_t count,
                              size_t used_bytes, ldr_error *err)
{
    assert(host < be->config.n_hosts && output < be->config.n_outputs);
    assert(count > 0 && count <= be->config.batch && used_bytes <= be->config.arena_bytes);
    ldri_cuda_pools *p = &be->pools;
    ldri_cuda_host *h = &p->hosts[host];
    ldri_cuda_arena *a = &p->arenas[be->next_arena];
    ldri_cuda_output *o = &p->outputs[output];
    ldri_kernel_job job = job_of(be, a, o, count);
    job.odd = any_odd((const ldri_descriptor *)h->memory, count, be->config.width);

    ldr_status s = stay(be, err);
    if (s < 0) return s;
    be->next_arena = (be->next_arena + 1) % LDRI_DEVICE_ARENAS;
    TRY(be, LDRI_CUDA_WAIT_DONE, cudaStreamWaitEvent(p->copy, a->done, 0));
    if ((s = enqueue_copy(be, h, a, p->layout.pixels_at + used_bytes, err)) < 0) return s;
    TRY(be, LDRI_CUDA_RECORD_COPIED, cudaEventRecord(h->copied, p->copy));
    TRY(be, LDRI_CUDA_WAIT_COPIED, cudaStreamWaitEvent(p->work, h->copied, 0));
    TRY(be, LDRI_CUDA_WAIT_USED, cudaStreamWaitEvent(p->work, o->used, 0));
    if ((s = launch_all(be, &job, err)) < 0) return s;
    TRY(be, LDRI_CUDA_RECORD_DONE, cudaEventRecord(a->done, p->work));
    TRY(be, LDRI_CUDA_RECORD_READY, cudaEventRecord(o->ready, p->work));
    return LDR_OK;
}

static ldr_status cuda_after(ldri_backend *be, uint32_t output, ldri_after_fn call, void *arg,
                             ldr_error *err)
{
    ldr_status s = stay(be, err);
    if (s < 0) return s;
    if ((s = call(arg, be->pools.work)) < 0) return s;
    ldri_cuda_output *o = &be->pools.outputs[output];
    TRY(be, LDRI_CUDA_RECORD_READY, cudaEventRecord(o->ready, be->pools.work));
    return s;
}

/* A failure counts as reusable: the device reads nothing any more, and the next submit meets the
 * failure and can report it. */
static int cuda_host_reusable(ldri_backend *be, uint32_t host, int wait)
{
    cudaEvent_t copied = be->pools.hosts[host].copied;
    if (stay(be, NULL) < 0) return 1;
    if (wait) {
        (void)LDRI_CUDA(be->pools.calls, LDRI_CUDA_SYNC_COPIED, cudaEventSynchronize(copied));
        return 1;
    }
    return LDRI_CUDA(be->pools.calls, LDRI_CUDA_QUERY_COPIED, cudaEventQuery(copied)) !=
           cudaErrorNotReady;
}

/* --- callers' threads ------------------------------------------------------------------------ */

static ldr_status order_consumer(ldri_backend *be, uint32_t output, ldr_stream consumer,
                                 ldr_error *err)
{
    TRY(be, LDRI_CUDA_WAIT_READY,
        cudaStreamWaitEvent(consumer, be->pools.outputs[output].ready, 0));
    return LDR_OK;
}

static ldr_status record_use(ldri_backend *be, uint32_t output, ldr_stream last_use, ldr_error *err)
{
    TRY(be, LDRI_CUDA_RECORD_USED, cudaEventRecord(be->pools.outputs[output].used, last_use));
    return LDR_OK;
}

static ldr_status cuda_acquire(ldri_backend *be, uint32_t output, ldr_stream consumer,
                               ldr_error *err)
{
    int before;
    ldr_status s = enter(be, &before, err);
    if (s < 0) return s;
    s = order_consumer(be, output, consumer, err);
    ldr_status left = leave(be, before, s < 0 ? NULL : err);
    return s < 0 ? s : left;
}

static ldr_status cuda_release(ldri_backend *be, uint32_t output, ldr_stream last_use,
                               ldr_error *err)
{
    int before;
    ldr_status s = enter(be, &before, err);
    if (s < 0) return s;
    s = record_use(be, output, last_use, err);
    ldr_status left = leave(be, before, s < 0 ? NULL : err);
    return s < 0 ? s : left;
}

static ldr_status copy_back(ldri_backend *be, uint32_t output, void *to, size_t bytes,
                            ldr_error *err)
{
    const ldri_cuda_output *o = &be->pools.outputs[output];
    cudaStream_t back = be->pools.back;
    TRY(be, LDRI_CUDA_WAIT_READY, cudaStreamWaitEvent(back, o->ready, 0));
    TRY(be, LDRI_CUDA_COPY_BACK,
        cudaMemcpyAsync(to, o->memory, bytes, cudaMemcpyDeviceToHost, back));
    TRY(be, LDRI_CUDA_STREAM_SYNC, cudaStreamSynchronize(back));
    return LDR_OK;
}

static ldr_status cuda_download(ldri_backend *be, uint32_t output, void *to, size_t bytes,
                                ldr_error *err)
{
    int before;
    ldr_status s = enter(be, &before, err);
    if (s < 0) return s;
    assert(bytes <= be->config.batch * be->job.image_bytes);
    s = copy_back(be, output, to, bytes, err);
    ldr_status left = leave(be, before, s < 0 ? NULL : err);
    return s < 0 ? s : left;
}

const ldri_backend_ops ldri_backend_cuda = {
    .name = "cuda",
    .device = LDR_DEVICE_CUDA,
    .augments_in_workers = 0,
    .open = cuda_open,
    .close = cuda_close,
    .host_arena = cuda_host_arena,
    .output = cuda_output,
    .memory = cuda_memory,
    .calls = cuda_calls,
    .scratch_open = cuda_scratch_open,
    .scratch_close = cuda_scratch_close,
    .resample_sample = cuda_resample_sample,
    .submit = cuda_submit,
    .after = cuda_after,
    .host_reusable = cuda_host_reusable,
    .acquire = cuda_acquire,
    .release = cuda_release,
    .download = cuda_download,
};
