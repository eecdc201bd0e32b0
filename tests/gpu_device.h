/* gpu_device.h - kernels of tests on a GPU, and how these tests report. */
#ifndef LDR_GPU_DEVICE_H
#define LDR_GPU_DEVICE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Holds the stream up for so many nanoseconds. */
cudaError_t gpu_spin(uint64_t ns, cudaStream_t stream);

/* out[v] for all 2^24 colours v (r | g << 8 | b << 16): bytes r, g, b after the hue shift as the
 * kernels do it, and its luma in the top byte. */
cudaError_t gpu_all_colours(uint32_t *out, uint8_t shift, cudaStream_t stream);

/* out[65536 k + 256 d + x]: blend from d to x with factors[k], k < n. */
cudaError_t gpu_all_blends(uint8_t *out, const float *factors, uint32_t n, cudaStream_t stream);

/* The functions of chip.h on words drawn from i, 12 results for each i < n. */
cudaError_t gpu_chip(uint32_t *out, uint32_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

/* A test is a program that prints `ok NAME` or `FAIL NAME why` for each case. */
#define GPU_MUST(call)                                                                             \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_));      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Ends the program with 77 where there is no GPU. */
static inline void gpu_needed(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess && n > 0) return;
    puts("skip no CUDA device");
    exit(77);
}

#endif
