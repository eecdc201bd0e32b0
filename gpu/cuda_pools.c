#include "gpu/cuda_pools.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/axis_table.h"
#include "gpu/strip.h"

#define ALIGNMENT 256u

/* --- sizes ----------------------------------------------------------------------------------- */

typedef struct cursor { /* lays parts out one behind the other */
    uint64_t at;
    int fits;
} cursor;

/* Where a part of n items begins. */
static size_t place(cursor *c, uint64_t n, uint64_t item)
{
    uint64_t bytes, here = c->at;
    if (__builtin_mul_overflow(n, item, &bytes) || __builtin_add_overflow(c->at, bytes, &c->at) ||
        __builtin_add_overflow(c->at, ALIGNMENT - 1, &c->at) || c->at > SIZE_MAX / 4) {
        c->fits = 0;
        c->at = 0;
    }
    c->at -= c->at % ALIGNMENT;
    return (size_t)here;
}

ldr_status ldri_cuda_lay_out(ldri_cuda_layout *out, const ldri_backend_config *c,
                             const ldri_kernel_job *job, ldr_error *err)
{
    uint64_t batch = c->batch, mixed = c->mixes ? batch : 0;
    cursor arena = {0, 1}, output = {0, 1}, finals = {0, 1}, tables = {0, 1}, all = {0, 1};
    place(&arena, batch, sizeof(ldri_descriptor));
    out->labels_at = place(&arena, batch, sizeof(int64_t));
    out->mix_labels_at = place(&arena, mixed, sizeof(int64_t));
    out->mix_lambda_at = place(&arena, mixed, sizeof(float));
    out->pixels_at = place(&arena, c->arena_bytes, 1);
    out->arena_bytes = (size_t)arena.at;
    place(&arena, ldri_overread(c->width), 1);
    out->device_arena_bytes = (size_t)arena.at;
    place(&output, batch, job->image_bytes);
    out->out_labels_at = place(&output, batch, sizeof(int64_t));
    out->out_mix_labels_at = place(&output, mixed, sizeof(int64_t));
    out->out_mix_lambda_at = place(&output, mixed, sizeof(float));
    out->output_bytes = (size_t)output.at;
    place(&finals, batch, job->final_bytes);
    out->finals_bytes = (size_t)finals.at;
    place(&tables, batch, sizeof(uint32_t) * ldri_tables_words(c->width, c->height));
    out->tables_bytes = (size_t)tables.at;
    place(&all, LDRI_DEVICE_ARENAS, arena.at);
    place(&all, c->n_outputs, output.at);
    place(&all, finals.at, 1);
    place(&all, tables.at, 1);
    out->device_bytes = all.at;
    /* 32-bit numbers of values in a picture are what kernels count with. */
    if (!arena.fits || !output.fits || !finals.fits || !tables.fits || !all.fits ||
        (uint64_t)c->width * c->height > UINT32_MAX / 16) {
        return ldri_error_set(err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
                              "a batch of %u images of %ux%u is larger than memory can be: lower "
                              "batch, width or height",
                              c->batch, c->width, c->height);
    }
    if (c->device_limit && out->device_bytes > c->device_limit) {
        return ldri_error_set(
            err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
            "device_limit is %zu bytes, but %u arenas of %zu, %u outputs of %zu and %zu for work "
            "take %llu: raise it, or lower batch, depth or pinned_limit",
            c->device_limit, LDRI_DEVICE_ARENAS, out->device_arena_bytes, c->n_outputs,
            out->output_bytes, out->finals_bytes + out->tables_bytes,
            (unsigned long long)out->device_bytes);
    }
    return LDR_OK;
}

/* --- making ---------------------------------------------------------------------------------- */

#define TRY(p, kind, call)                                                                         \
    do {                                                                                           \
        cudaError_t e_ = LDRI_CUDA((p)->calls, kind, call);                                        \
        if (e_ != cudaSuccess) return ldri_cuda_error((p)->calls, kind, e_, err);                  \
    } while (0)

static ldr_status stream_make(ldri_cuda_pools *p, cudaStream_t *out, ldr_error *err)
{
    TRY(p, LDRI_CUDA_STREAM_MAKE, cudaStreamCreateWithFlags(out, cudaStreamNonBlocking));
    return LDR_OK;
}

static ldr_status event_make(ldri_cuda_pools *p, cudaEvent_t *out, unsigned flags, ldr_error *err)
{
    TRY(p, LDRI_CUDA_EVENT_MAKE, cudaEventCreateWithFlags(out, cudaEventDisableTiming | flags));
    return LDR_OK;
}

/* Device memory that reads as 0 until it is written.  Nobody reads it so, but for padding.  *out is
 * what there is to free, also on failure. */
static ldr_status memory_make(ldri_cuda_pools *p, void **out, size_t bytes, ldr_error *err)
{
    *out = NULL;
    TRY(p, LDRI_CUDA_MALLOC, cudaMalloc(out, bytes));
    TRY(p, LDRI_CUDA_MEMSET, cudaMemsetAsync(*out, 0, bytes, p->work));
    return LDR_OK;
}

static void warn_pageable(const ldri_backend_config *c, size_t bytes, cudaError_t e)
{
    char line[256];
    if (!c->warn) return;
    snprintf(line, sizeof line,
             "cannot pin %zu bytes of memory (%s): copies to the device will be slow; raise the "
             "limit on locked memory (ulimit -l) or lower pinned_limit",
             bytes, cudaGetErrorString(e));
    c->warn(c->warn_user, line);
}

/* Pinned if it can be had; else ordinary memory for this and all later ones, said once. */
static ldr_status host_make(ldri_cuda_pools *p, ldri_cuda_host *h, int *may_pin,
                            const ldri_backend_config *c, ldr_error *err)
{
    size_t bytes = p->layout.arena_bytes;
    if (*may_pin) {
        void *memory = NULL;
        cudaError_t e = LDRI_CUDA(p->calls, LDRI_CUDA_HOST_ALLOC,
                                  cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
        if (e == cudaSuccess) {
            h->memory = memory;
            h->pinned = 1;
            return LDR_OK;
        }
        ldri_cuda_error(p->calls, LDRI_CUDA_HOST_ALLOC, e, NULL);
        *may_pin = 0;
        warn_pageable(c, bytes, e);
    }
    h->memory = aligned_alloc(ALIGNMENT, bytes);
    if (h->memory) return LDR_OK;
    return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE,
                          "no memory for %u host arenas of %zu bytes: lower batch, depth or "
                          "pinned_limit",
                          c->n_hosts, bytes);
}

static ldr_status make_all(ldri_cuda_pools *p, const ldri_backend_config *c, ldr_error *err)
{
    const ldri_cuda_layout *l = &p->layout;
    void *memory;
    ldr_status s;
    int may_pin = 1;
    if ((s = stream_make(p, &p->copy, err)) < 0 || (s = stream_make(p, &p->work, err)) < 0 ||
        (s = stream_make(p, &p->back, err)) < 0)
        return s;
    for (uint32_t i = 0; i < p->n_hosts; i++) {
        ldri_cuda_host *h = &p->hosts[i];
        /* Blocking: the staging thread sleeps in its wait instead of burning a worker's core. */
        if ((s = event_make(p, &h->copied, cudaEventBlockingSync, err)) < 0 ||
            (s = host_make(p, h, &may_pin, c, err)) < 0)
            return s;
    }
    for (uint32_t i = 0; i < LDRI_DEVICE_ARENAS; i++) {
        if ((s = event_make(p, &p->arenas[i].done, 0, err)) < 0) return s;
        s = memory_make(p, &memory, l->device_arena_bytes, err);
        p->arenas[i].memory = memory;
        if (s < 0) return s;
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        if ((s = event_make(p, &p->outputs[i].ready, 0, err)) < 0 ||
            (s = event_make(p, &p->outputs[i].used, cudaEventBlockingSync, err)) < 0)
            return s;
        s = memory_make(p, &memory, l->output_bytes, err);
        p->outputs[i].memory = memory;
        if (s < 0) return s;
    }
    s = memory_make(p, &memory, l->finals_bytes, err);
    p->finals = memory;
    if (s < 0) return s;
    s = memory_make(p, &memory, l->tables_bytes, err);
    p->tables = memory;
    return s;
}

ldr_status ldri_cuda_pools_open(ldri_cuda_pools *p, const ldri_backend_config *c, ldr_error *err)
{
    p->n_hosts = c->n_hosts;
    p->n_outputs = c->n_outputs;
    p->hosts = calloc(p->n_hosts, sizeof *p->hosts);
    p->outputs = calloc(p->n_outputs, sizeof *p->outputs);
    if (!p->hosts || !p->outputs)
        return ldri_error_set(err, LDR_E_NOMEM, 0, LDR_NO_SAMPLE, "out of memory");
    return make_all(p, c, err);
}

/* --- taking apart ---------------------------------------------------------------------------- */

/* A failure in close is nobody's any more; least of all that the driver has gone already. */
#define DROP(p, kind, call) ((void)LDRI_CUDA((p)->calls, kind, call))

static void stream_free(ldri_cuda_pools *p, cudaStream_t stream)
{
    if (stream) DROP(p, LDRI_CUDA_STREAM_FREE, cudaStreamDestroy(stream));
}

static void event_free(ldri_cuda_pools *p, cudaEvent_t event)
{
    if (event) DROP(p, LDRI_CUDA_EVENT_FREE, cudaEventDestroy(event));
}

static void memory_free(ldri_cuda_pools *p, void *memory)
{
    if (memory) DROP(p, LDRI_CUDA_FREE, cudaFree(memory));
}

static void wait_for_all(ldri_cuda_pools *p)
{
    cudaStream_t streams[] = {p->copy, p->work, p->back};
    for (uint32_t i = 0; p->outputs && i < p->n_outputs; i++) {
        cudaEvent_t used = p->outputs[i].used;
        if (used) DROP(p, LDRI_CUDA_SYNC_USED, cudaEventSynchronize(used));
    }
    for (int i = 0; i < 3; i++) {
        if (streams[i]) DROP(p, LDRI_CUDA_STREAM_SYNC, cudaStreamSynchronize(streams[i]));
    }
}

void ldri_cuda_pools_close(ldri_cuda_pools *p)
{
    wait_for_all(p);
    for (uint32_t i = 0; p->hosts && i < p->n_hosts; i++) {
        ldri_cuda_host *h = &p->hosts[i];
        event_free(p, h->copied);
        if (h->memory && h->pinned)
            DROP(p, LDRI_CUDA_FREE_HOST, cudaFreeHost(h->memory));
        else
            free(h->memory);
    }
    for (uint32_t i = 0; i < LDRI_DEVICE_ARENAS; i++) {
        event_free(p, p->arenas[i].done);
        memory_free(p, p->arenas[i].memory);
    }
    for (uint32_t i = 0; p->outputs && i < p->n_outputs; i++) {
        event_free(p, p->outputs[i].ready);
        event_free(p, p->outputs[i].used);
        memory_free(p, p->outputs[i].memory);
    }
    memory_free(p, p->finals);
    memory_free(p, p->tables);
    stream_free(p, p->copy);
    stream_free(p, p->work);
    stream_free(p, p->back);
    DROP(p, LDRI_CUDA_LAST_ERROR, cudaGetLastError());
    free(p->hosts);
    free(p->outputs);
}
