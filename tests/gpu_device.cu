#include "gpu/tint.h"
#include "tests/gpu_chip_words.h"
#include "tests/gpu_device.h"

static __global__ void spin(uint64_t ns)
{
    uint64_t start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
}

static __global__ void all_colours(uint32_t *out, uint8_t shift)
{
    __shared__ uint32_t table[LDRI_HUE_ENTRIES];
    for (uint32_t i = threadIdx.x; i < LDRI_HUE_ENTRIES; i += blockDim.x)
        table[i] = ldri_hue_entry(i, shift);
    __syncthreads();
    uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;
    float r = LDRI_BIAS + (float)(v & 255u);
    float g = LDRI_BIAS + (float)(v >> 8 & 255u);
    float b = LDRI_BIAS + (float)(v >> 16 & 255u);
    uint32_t luma = ldri_float_bits(ldri_biased_luma(r, g, b)) & 255u;
    ldri_pixel_hue(&r, &g, &b, table);
    out[v] = (ldri_float_bits(r) & 255u) | (ldri_float_bits(g) & 255u) << 8 |
             (ldri_float_bits(b) & 255u) << 16 | luma << 24;
}

static __global__ void all_blends(uint8_t *out, const float *factors)
{
    uint32_t d = blockIdx.x, x = threadIdx.x, k = blockIdx.y;
    float factor = factors[k], base = (float)d;
    int within = factor >= 0.0f && factor <= 1.0f;
    float v = ldri_biased_blend(base + LDRI_BIAS, base, LDRI_BIAS + (float)x, factor, within);
    out[65536u * k + 256u * d + x] = (uint8_t)ldri_float_bits(v);
}

static __global__ void chip(uint32_t *out, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gpu_chip_words(i, out + 12 * i);
}

extern "C" cudaError_t gpu_spin(uint64_t ns, cudaStream_t stream)
{
    spin<<<1, 1, 0, stream>>>(ns);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_all_colours(uint32_t *out, uint8_t shift, cudaStream_t stream)
{
    all_colours<<<(1u << 24) / 256, 256, 0, stream>>>(out, shift);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_all_blends(uint8_t *out, const float *factors, uint32_t n,
                                      cudaStream_t stream)
{
    all_blends<<<dim3(256, n), 256, 0, stream>>>(out, factors);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_chip(uint32_t *out, uint32_t n, cudaStream_t stream)
{
    chip<<<(n + 255) / 256, 256, 0, stream>>>(out, n);
    return cudaGetLastError();
}
