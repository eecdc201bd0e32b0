/* augment.cu - the kernels and their launchers.
 *
 * What a block does stands in blocks.h, in a form that a test can run on a CPU; here are only the
 * shapes of the launches and what needs the chip: shared memory, and the cluster of the fused
 * kernel, whose blocks make a picture together and add up its luma through each other's shared
 * memory. */
#include "gpu/blocks.h"
#include "gpu/cuda_call.h"
#include "gpu/normal_table.h"

/* Shapes, as measured to be best on an H200; a bench may set others. */
#ifndef LDRI_STRIP_ROWS
#define LDRI_STRIP_ROWS 28u /* rows of a final picture that a block resamples */
#endif
#ifndef LDRI_RESAMPLE_BLOCKS
#define LDRI_RESAMPLE_BLOCKS                                                                       \
    4 /* at least that many blocks on a multiprocessor: bounds registers                           \
       */
#endif
#ifndef LDRI_FINISH_BLOCKS
#define LDRI_FINISH_BLOCKS 4
#endif
#ifndef LDRI_FUSED_BLOCKS
#define LDRI_FUSED_BLOCKS 3
#endif
#ifndef LDRI_FINISH_THREADS
#define LDRI_FINISH_THREADS 224u
#endif
#ifndef LDRI_FINISH_CHUNKS
#define LDRI_FINISH_CHUNKS 4u /* that a thread of finish does */
#endif
#define PREPARE_THREADS 128u
#define ODD_BLOCKS      64u /* that share a sample whose windows no table holds */

static __device__ const float quantiles[LDRI_NORMAL_STEPS + 1] = {LDRI_NORMAL_QUANTILES};

/* The grid is parts x samples; a dimension ends at 65,535, so samples take two. */
#define GRID_SAMPLES 32768u

static __device__ uint32_t sample_of_block(void)
{
    return blockIdx.z * gridDim.y + blockIdx.y;
}

/* --- KERNELS -------------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(PREPARE_THREADS)
    ldri_prepare_kernel(const __grid_constant__ ldri_kernel_job job)
{
    uint32_t sample = sample_of_block();
    if (sample >= job.count) return;
    ldri_prepare(&job, sample, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

extern "C" __global__ void __launch_bounds__(256, LDRI_RESAMPLE_BLOCKS)
    ldri_resample_kernel(const __grid_constant__ ldri_kernel_job job)
{
    extern __shared__ ldri_four dynamic[];
    __shared__ ldri_block_shared s;
    const ldri_kernel_plan *plan = &job.plan;
    uint32_t sample = sample_of_block();
    if (sample >= job.count) return;
    uint32_t strip = blockIdx.x % plan->n_strips, tile = blockIdx.x / plan->n_strips;
    uint32_t left = tile * plan->tile_columns, y0 = strip * plan->strip_rows;
    uint32_t columns = min(plan->tile_columns, job.finish.width - left);
    uint32_t y1 = min(y0 + plan->strip_rows, job.finish.height);
    ldri_block_resample(&job, sample, left, columns, y0, y1, ldri_job_planes(&job, sample), &s,
                        (uint32_t *)dynamic, blockDim.x);
    if (threadIdx.x == 0 && s.tint.split < 4)
        ldri_global_add(&job.descriptors[sample].luma_sum, s.luma);
}

extern "C" __global__ void __launch_bounds__(256)
    ldri_colour_kernel(const __grid_constant__ ldri_kernel_job job)
{
    __shared__ ldri_block_shared s;
    uint32_t sample = sample_of_block();
    if (sample >= job.count) return;
    ldri_block_colour(&job, sample, blockIdx.x, gridDim.x, &s, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(256, LDRI_FINISH_BLOCKS)
    ldri_finish_kernel(const __grid_constant__ ldri_kernel_job job)
{
    __shared__ ldri_block_shared s;
    __shared__ ldri_block_noise z;
    uint32_t sample = sample_of_block();
    if (sample >= job.count) return;
    ldri_block_finish(&job, sample, blockIdx.x, gridDim.x, quantiles, &s, &z, blockDim.x);
}

/* The sum over the blocks of a cluster of a word of shared memory. */
static __device__ uint64_t cluster_sum(const uint32_t *word)
{
    uint64_t sum = 0;
#if __CUDA_ARCH__ >= 900
    uint32_t own = (uint32_t)__cvta_generic_to_shared(word);
    for (uint32_t rank = 0; rank < LDRI_CLUSTER; rank++) {
        uint32_t at, v;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(own), "r"(rank));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
        sum += v;
    }
#endif
    return sum;
}

static __device__ void cluster_arrive(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}

static __device__ void cluster_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(256, LDRI_FUSED_BLOCKS)
    ldri_fused_kernel(const __grid_constant__ ldri_kernel_job job)
{
    extern __shared__ ldri_four dynamic[];
    __shared__ ldri_block_shared s;
    __shared__ ldri_block_noise z;
    uint32_t sample = sample_of_block();
    uint32_t width = job.finish.width, rows = job.plan.fused_rows;
    if (sample >= job.count) return; /* the whole cluster */
    uint32_t y0 = min(blockIdx.x * rows, job.finish.height);
    uint32_t y1 = min(y0 + rows, job.finish.height);
    uint32_t *inter = (uint32_t *)dynamic;
    uint8_t *memory = (uint8_t *)(inter + ldri_inter_words(width));
    ldri_planes planes = ldri_fused_planes(&job, y0, memory);
    ldri_block_resample(&job, sample, 0, width, y0, y1, planes, &s, inter, blockDim.x);
    ldri_block_quantiles(&job, &s, &z, quantiles, threadIdx.x, blockDim.x);
    if (threadIdx.x == 0 && blockIdx.x == 0) ldri_labels(&job, sample);
    bool sums = s.tint.split < 4; /* the same for the whole cluster */
    if (sums) {
        cluster_arrive();
        cluster_wait();
        if (threadIdx.x == 0) ldri_block_mean(&job, &s, cluster_sum(&s.luma));
    }
    __syncthreads();
    if (sums) cluster_arrive();
    ldri_block_fused_finish(&job, sample, y0, y1, planes, &s, &z, blockDim.x);
    if (sums) cluster_wait(); /* nobody leaves while another reads its sum */
}

/* --- LAUNCHERS ------------------------------------------------------------------------------ */

static uint32_t round_up(uint32_t n, uint32_t to)
{
    return (n + to - 1) / to * to;
}

static uint32_t at_most(uint32_t n, uint32_t limit)
{
    return n < limit ? n : limit;
}

static int launch(ldri_cuda *calls, const void *kernel, uint32_t parts, uint32_t threads,
                  uint32_t shared, bool cluster, const ldri_kernel_job *job, ldr_stream stream)
{
    uint32_t samples = at_most(job->count, GRID_SAMPLES);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = LDRI_CLUSTER;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(parts, samples, (job->count + samples - 1) / samples);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = cluster ? 1 : 0;
    void *arguments[] = {(void *)job};
    return LDRI_CUDA(calls, LDRI_CUDA_LAUNCH, cudaLaunchKernelExC(&config, kernel, arguments));
}

/* Threads of a block that makes `columns` columns: as many columns side by side as 256 hold. */
static uint32_t threads_for(uint32_t columns)
{
    return round_up(columns * (columns < 256 ? 256 / columns : 1), 32);
}

static void plan_resample(ldri_kernel_plan *p, uint32_t width, uint32_t height)
{
    p->n_tiles = (width + LDRI_TILE_COLUMNS - 1) / LDRI_TILE_COLUMNS;
    p->tile_columns = round_up((width + p->n_tiles - 1) / p->n_tiles, 4);
    p->n_tiles = (width + p->tile_columns - 1) / p->tile_columns;
    p->n_strips = (height + LDRI_STRIP_ROWS - 1) / LDRI_STRIP_ROWS;
    p->strip_rows = (height + p->n_strips - 1) / p->n_strips;
    p->resample_threads = threads_for(p->tile_columns);
    p->resample_shared = 4 * ldri_inter_words(p->tile_columns);
    uint32_t chunks = (width + 7) / 8 * height;
    p->finish_threads = at_most(round_up(chunks, 32), LDRI_FINISH_THREADS);
    uint32_t each = p->finish_threads * LDRI_FINISH_CHUNKS;
    p->finish_parts = (chunks + each - 1) / each;
}

static int plan_fused(ldri_cuda *calls, ldri_kernel_job *job, int device_id)
{
    ldri_kernel_plan *p = &job->plan;
    if (job->mixes || p->n_tiles > 1) return cudaSuccess;
    p->fused_rows = (job->finish.height + LDRI_CLUSTER - 1) / LDRI_CLUSTER;
    p->fused_threads = p->resample_threads;
    uint64_t planes = (uint64_t)3 * job->pitch * p->fused_rows;
    int limit = 0, major = 0, clusters = 0;
    cudaError_t e = LDRI_CUDA(
        calls, LDRI_CUDA_ATTRIBUTE,
        cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_id));
    if (e != cudaSuccess) return e;
    e = LDRI_CUDA(calls, LDRI_CUDA_ATTRIBUTE,
                  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_id));
    if (e != cudaSuccess) return e;
    if (major < 9 ||
        p->resample_shared + planes + sizeof(ldri_block_shared) + sizeof(ldri_block_noise) >
            (uint64_t)limit)
        return cudaSuccess;
    p->fused_shared = p->resample_shared + (uint32_t)planes;
    e = LDRI_CUDA(calls, LDRI_CUDA_FUNCTION,
                  cudaFuncSetAttribute((const void *)ldri_fused_kernel,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)p->fused_shared));
    if (e != cudaSuccess) return e;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = LDRI_CLUSTER;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(LDRI_CLUSTER);
    config.blockDim = dim3(p->fused_threads);
    config.dynamicSmemBytes = p->fused_shared;
    config.attrs = &attribute;
    config.numAttrs = 1;
    e = LDRI_CUDA(
        calls, LDRI_CUDA_CLUSTERS,
        cudaOccupancyMaxActiveClusters(&clusters, (const void *)ldri_fused_kernel, &config));
    if (e != cudaSuccess) return e;
    p->fused = clusters > 0;
    return cudaSuccess;
}

extern "C" int ldri_kernels_plan(ldri_cuda *calls, ldri_kernel_job *job, int device_id,
                                 int may_fuse)
{
    ldri_kernel_plan *p = &job->plan;
    *p = ldri_kernel_plan();
    plan_resample(p, job->finish.width, job->finish.height);
    cudaError_t e = LDRI_CUDA(calls, LDRI_CUDA_FUNCTION,
                              cudaFuncSetAttribute((const void *)ldri_resample_kernel,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   (int)p->resample_shared));
    if (e != cudaSuccess || !may_fuse) return e;
    return plan_fused(calls, job, device_id);
}

extern "C" int ldri_launch_prepare(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    /* A thread an entry of a table. */
    uint32_t entries = job->finish.width + job->finish.height;
    uint32_t blocks = at_most((entries + PREPARE_THREADS - 1) / PREPARE_THREADS, 16);
    if (job->odd) blocks = ODD_BLOCKS;
    return launch(calls, (const void *)ldri_prepare_kernel, blocks, PREPARE_THREADS, 0, false, job,
                  stream);
}

extern "C" int ldri_launch_resample(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    const ldri_kernel_plan *p = &job->plan;
    /* A block a strip of a tile. */
    return launch(calls, (const void *)ldri_resample_kernel, p->n_strips * p->n_tiles,
                  p->resample_threads, p->resample_shared, false, job, stream);
}

extern "C" int ldri_launch_colour(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    const ldri_kernel_plan *p = &job->plan;
    return launch(calls, (const void *)ldri_colour_kernel, p->finish_parts, p->finish_threads, 0,
                  false, job, stream);
}

extern "C" int ldri_launch_finish(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    const ldri_kernel_plan *p = &job->plan;
    return launch(calls, (const void *)ldri_finish_kernel, p->finish_parts, p->finish_threads, 0,
                  false, job, stream);
}

extern "C" int ldri_launch_fused(ldri_cuda *calls, const ldri_kernel_job *job, ldr_stream stream)
{
    const ldri_kernel_plan *p = &job->plan;
    /* A cluster a picture. */
    return launch(calls, (const void *)ldri_fused_kernel, LDRI_CLUSTER, p->fused_threads,
                  p->fused_shared, true, job, stream);
}
