/* kernels.h - the kernels of one batch, and what they are given.  C and CUDA.
 *
 * A batch takes up to four launches:
 *     prepare    tables of weights; whole pictures whose windows no table holds (odd.h)
 *     resample   crops -> planes of bytes, colour operators up to contrast, sum of luma
 *     colour     only where pictures are mixed: the other colour operators, in place
 *     finish     colour operators unless done, mix, normalise, erase, store; labels
 * or, where pictures are not mixed and the device can do it, two: prepare, and one that does the
 * rest with the picture in shared memory (fused). */
#ifndef LDR_KERNELS_H
#define LDR_KERNELS_H

#include "gpu/finish.h"
#include "loader/descriptor.h"
#include "loader/loader.h"

#define LDRI_CLUSTER 8u /* blocks that make one picture together in the fused kernel */

typedef struct ldri_kernel_plan { /* shapes of the launches: fixed for a loader */
    uint32_t tile_columns, n_tiles;
    uint32_t strip_rows, n_strips;
    uint32_t resample_threads, resample_shared;
    uint32_t finish_threads, finish_parts;
    int fused;
    uint32_t fused_rows, fused_threads, fused_shared;
} ldri_kernel_plan;

typedef struct ldri_kernel_job { /* pointers into device memory */
    ldri_descriptor *descriptors;
    const uint8_t *pixels;
    const int64_t *labels, *mix_labels;
    const float *mix_lambda;
    uint8_t *finals;  /* planes of each sample, final_bytes apart */
    uint32_t *tables; /* of each sample, ldri_tables_words apart */
    uint8_t *images;  /* the output */
    int64_t *out_labels, *out_mix_labels;
    float *out_mix_lambda;
    uint32_t count;
    int mixes;
    int odd; /* a sample of the batch goes by LDRI_PATH_ODD */
    ldri_finish finish;
    uint32_t pitch;     /* of a plane */
    size_t plane_bytes; /* of one channel of a final */
    size_t final_bytes, image_bytes;
    ldri_kernel_plan plan;
} ldri_kernel_job;

/* Fills the sizes that follow from finish.width, finish.height and finish.dtype. */
static inline void ldri_kernel_job_sizes(ldri_kernel_job *job)
{
    const ldri_finish *f = &job->finish;
    job->pitch = (f->width + 15u) & ~15u;
    job->plane_bytes = (size_t)job->pitch * f->height;
    job->final_bytes = 3 * job->plane_bytes;
    job->image_bytes = (size_t)3 * f->width * f->height * ldri_type_bytes(f->dtype);
}

/* The calls below go through cuda_call.h with the kind `launch`.  They return a cudaError_t. */
typedef struct ldri_cuda ldri_cuda;

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses the shapes of the launches for the current device, and allows the kernels the shared
 * memory they take.  may_fuse: 0 keeps to separate kernels. */
int ldri_kernels_plan(ldri_cuda *calls, ldri_kernel_job *job, int device_id, int may_fuse);

/* Enqueue one kernel. */
int ldri_launch_prepare(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream);
int ldri_launch_resample(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream);
int ldri_launch_colour(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream);
int ldri_launch_finish(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream);
int ldri_launch_fused(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream);

#ifdef __cplusplus
}
#endif
#endif
