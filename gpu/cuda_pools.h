/* cuda_pools.h - everything that a CUDA back end makes when it opens: the three memories of a batch
 * in flight, streams, events.  Nothing is made afterwards. */
#ifndef LDR_CUDA_POOLS_H
#define LDR_CUDA_POOLS_H

#include "gpu/cuda_call.h"
#include "gpu/kernels.h"
#include "loader/backend.h"

#define LDRI_DEVICE_ARENAS 2u

/* Where parts begin, in bytes. */
typedef struct ldri_cuda_layout {
    size_t labels_at, mix_labels_at, mix_lambda_at, pixels_at; /* in a host or device arena */
    size_t arena_bytes;                                        /* of a host arena */
    size_t device_arena_bytes; /* the same, and what kernels read behind it (strip.h) */
    size_t out_labels_at, out_mix_labels_at, out_mix_lambda_at; /* in an output, after the images */
    size_t output_bytes;
    size_t finals_bytes, tables_bytes; /* of a batch, shared by all: the work stream is one queue */
    uint64_t device_bytes;             /* all together */
} ldri_cuda_layout;

typedef struct ldri_cuda_host {
    uint8_t *memory;
    int pinned;         /* else ordinary memory */
    cudaEvent_t copied; /* its last submit no longer reads it */
} ldri_cuda_host;

typedef struct ldri_cuda_arena { /* on the device */
    uint8_t *memory;
    cudaEvent_t done; /* its last batch is augmented */
} ldri_cuda_arena;

typedef struct ldri_cuda_output {
    uint8_t *memory;
    cudaEvent_t ready; /* written */
    cudaEvent_t used;  /* the consumer has read it */
} ldri_cuda_output;

typedef struct ldri_cuda_pools {
    ldri_cuda *calls;
    int device_id;
    ldri_cuda_layout layout;
    uint32_t n_hosts, n_outputs;
    ldri_cuda_host *hosts;
    ldri_cuda_arena arenas[LDRI_DEVICE_ARENAS];
    ldri_cuda_output *outputs;
    uint8_t *finals;
    uint32_t *tables;
    cudaStream_t copy, work, back; /* back: copies to the host, for the command and tests */
} ldri_cuda_pools;

/* job: sizes and plan are set.  LDR_E_LIMIT: more than an address space, or than device_limit,
 * holds. */
ldr_status ldri_cuda_lay_out(ldri_cuda_layout *out, const ldri_backend_config *c,
                             const ldri_kernel_job *job, ldr_error *err);

/* The device is current.  p->calls, device_id, layout are set, the rest is zero.  On failure what
 * was made is left to ldri_cuda_pools_close. */
ldr_status ldri_cuda_pools_open(ldri_cuda_pools *p, const ldri_backend_config *c, ldr_error *err);

/* Waits for the consumers' last uses and for the pools' own streams, and frees any prefix of what
 * open makes.  Failures are not reported: the driver may be shutting down. */
void ldri_cuda_pools_close(ldri_cuda_pools *p);

#endif
