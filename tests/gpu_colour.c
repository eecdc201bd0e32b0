/* The colour operators on a GPU against colour.h on the CPU: hue and luma of every colour, blends
 * of all bytes, and the instructions of chip.h. */
#include "gpu/colour.h"
#include "tests/gpu_chip_words.h"
#include "tests/gpu_device.h"

#define N_COLOURS (1u << 24)
#define N_FACTORS 64u
#define N_WORDS   (1u << 20)

static int failed;

static void *host_copy(const void *device, size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) abort();
    GPU_MUST(cudaMemcpy(p, device, bytes, cudaMemcpyDeviceToHost));
    return p;
}

static void report(const char *name, uint64_t wrong, uint32_t first)
{
    if (wrong == 0) {
        printf("ok %s\n", name);
        return;
    }
    printf("FAIL %s %llu wrong, the first at %u\n", name, (unsigned long long)wrong, first);
    failed = 1;
}

static void colours(uint8_t shift)
{
    uint32_t *device, first = 0;
    uint64_t wrong = 0;
    char name[32];
    GPU_MUST(cudaMalloc((void **)&device, N_COLOURS * sizeof *device));
    GPU_MUST(gpu_all_colours(device, shift, 0));
    uint32_t *got = host_copy(device, N_COLOURS * sizeof *device);
    GPU_MUST(cudaFree(device));
    for (uint32_t v = N_COLOURS; v-- > 0;) {
        ldri_rgb p = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16)};
        ldri_rgb h = ldri_hue(p, shift);
        uint32_t luma = ldri_luma(p.r, p.g, p.b);
        uint32_t expected = h.r | (uint32_t)h.g << 8 | (uint32_t)h.b << 16 | luma << 24;
        if (got[v] == expected) continue;
        wrong++;
        first = v;
    }
    free(got);
    snprintf(name, sizeof name, "colours_hue_%u", shift);
    report(name, wrong, first);
}

static void blends(void)
{
    float factors[N_FACTORS], *device_factors;
    uint8_t *device;
    uint64_t wrong = 0;
    uint32_t first = 0;
    for (uint32_t k = 0; k < N_FACTORS; k++) factors[k] = (float)k / 32.0f + (float)(k % 3) * 0.01f;
    GPU_MUST(cudaMalloc((void **)&device, N_FACTORS * 65536));
    GPU_MUST(cudaMalloc((void **)&device_factors, sizeof factors));
    GPU_MUST(cudaMemcpy(device_factors, factors, sizeof factors, cudaMemcpyHostToDevice));
    GPU_MUST(gpu_all_blends(device, device_factors, N_FACTORS, 0));
    uint8_t *got = host_copy(device, N_FACTORS * 65536);
    for (uint32_t i = N_FACTORS * 65536; i-- > 0;) {
        uint8_t expected = ldri_blend((uint8_t)(i >> 8), (uint8_t)i, factors[i >> 16]);
        if (got[i] == expected) continue;
        wrong++;
        first = i;
    }
    free(got);
    GPU_MUST(cudaFree(device));
    GPU_MUST(cudaFree(device_factors));
    report("blends", wrong, first);
}

static void instructions(void)
{
    uint32_t *device;
    uint64_t wrong = 0;
    uint32_t first = 0;
    GPU_MUST(cudaMalloc((void **)&device, N_WORDS * 12 * sizeof *device));
    GPU_MUST(gpu_chip(device, N_WORDS, 0));
    uint32_t *got = host_copy(device, N_WORDS * 12 * sizeof *device);
    for (uint32_t i = N_WORDS; i-- > 0;) {
        uint32_t expected[12];
        gpu_chip_words(i, expected);
        for (uint32_t k = 12; k-- > 0;) {
            if (got[12 * i + k] == expected[k]) continue;
            wrong++;
            first = 12 * i + k;
        }
    }
    free(got);
    GPU_MUST(cudaFree(device));
    if (wrong) printf("(instruction %u)\n", first % 12);
    report("instructions", wrong, first);
}

int main(void)
{
    gpu_needed();
    instructions();
    blends();
    static const uint8_t shifts[] = {0, 1, 25, 128, 231, 255};
    for (size_t i = 0; i < sizeof shifts; i++) colours(shifts[i]);
    return failed;
}
