/* The CUDA back end on a GPU against the CPU back end: every byte, on random batches of all types,
 * layouts, sizes and operators.  Outputs are poisoned first, and nothing but them may change.
 * usage: gpu_augment [small]      small: few cases, for a tool that makes everything slow */
#include <string.h>

#include "gpu/backend_cuda.h"
#include "tests/gpu_device.h"
#include "tests/helper_batch.h"

#define POISON 0x5A

static const ldri_backend_ops *const cuda = &ldri_backend_cuda;
static int failed, cases;

static void *host_memory(size_t n)
{
    void *p = malloc(n);
    if (!p) abort();
    return p;
}

static int all_poison(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != POISON) return 0;
    return 1;
}

/* Everything from the images to behind the last labels, as far as the layout is known. */
static const char *check_output(const ldri_backend_config *c, const ldri_host_arena *a,
                                uint32_t count, const uint8_t *expected, const ldri_output *o)
{
    size_t images = helper_images_bytes(c), image = images / c->batch;
    size_t labels_at = (size_t)((const uint8_t *)(const void *)o->labels - (uint8_t *)o->images);
    size_t all = labels_at + c->batch * sizeof *o->labels;
    uint8_t *got = host_memory(all);
    GPU_MUST(cudaMemcpy(got, o->images, all, cudaMemcpyDeviceToHost));
    const char *wrong = NULL;
    ldri_backend_config some = *c;
    some.batch = count;
    wrong = helper_difference(&some, a, expected, got);
    if (!wrong && !all_poison(got + count * image, labels_at - count * image))
        wrong = "memory behind the images was written";
    if (!wrong && memcmp(got + labels_at, a->labels, count * sizeof *a->labels) != 0)
        wrong = "labels";
    if (!wrong && !all_poison(got + labels_at + count * 8, (c->batch - count) * 8))
        wrong = "memory behind the labels was written";
    if (!wrong && c->mixes) {
        int64_t *l = host_memory(count * sizeof *l);
        float *f = host_memory(count * sizeof *f);
        GPU_MUST(cudaMemcpy(l, o->mix_labels, count * sizeof *l, cudaMemcpyDeviceToHost));
        GPU_MUST(cudaMemcpy(f, o->mix_lambda, count * sizeof *f, cudaMemcpyDeviceToHost));
        if (memcmp(l, a->mix_labels, count * sizeof *l) != 0) wrong = "mix_labels";
        if (memcmp(f, a->mix_lambda, count * sizeof *f) != 0) wrong = "mix_lambda";
        free(l);
        free(f);
    }
    free(got);
    return wrong;
}

static void poison(const ldri_backend_config *c, const ldri_output *o)
{
    size_t labels_at = (size_t)((const uint8_t *)(const void *)o->labels - (uint8_t *)o->images);
    GPU_MUST(cudaMemset(o->images, POISON, labels_at + c->batch * sizeof *o->labels));
    GPU_MUST(cudaDeviceSynchronize());
}

static void check(const char *name, const ldri_backend_config *config, uint32_t seed, int kinds,
                  int separate)
{
    ldri_backend_config c = *config;
    ldri_backend *be;
    ldr_error err;
    cases++;
    setenv("LDR_CUDA_KERNELS", separate ? "separate" : "fused", 1);
    c.arena_bytes = helper_arena_bytes(c.batch, c.width, c.height, kinds);
    if (cuda->open(&be, &c, &err) < 0) {
        printf("FAIL %s open: %s\n", name, err.message);
        exit(1);
    }
    const char *wrong = NULL;
    for (uint32_t k = 0; k < 3 && !wrong; k++) { /* three batches: both arenas, and one again */
        uint32_t host = k % c.n_hosts, output = k % c.n_outputs;
        /* Less than a full batch; pairs stay whole. */
        uint32_t count = k == 1 && !c.mixes && c.batch > 1 ? c.batch - 1 : c.batch;
        ldri_host_arena a;
        ldri_output o;
        cuda->host_reusable(be, host, 1);
        cuda->host_arena(be, host, &a);
        cuda->output(be, output, &o);
        size_t used = helper_fill(&c, &a, seed + k, kinds);
        uint8_t *expected = helper_reference(&c, &a, used);
        if (!expected) abort();
        poison(&c, &o);
        if (cuda->submit(be, host, output, count, used, &err) < 0 ||
            cuda->acquire(be, output, NULL, &err) < 0) {
            printf("FAIL %s submit: %s\n", name, err.message);
            exit(1);
        }
        GPU_MUST(cudaStreamSynchronize(NULL));
        wrong = check_output(&c, &a, count, expected, &o);
        if (cuda->release(be, output, NULL, &err) < 0) wrong = "release";
        free(expected);
        if (wrong)
            printf("FAIL %s seed %u %ux%u dtype %d layout %d erase %d mixes %d separate %d: %s\n",
                   name, seed + k, c.width, c.height, (int)c.dtype, (int)c.layout,
                   (int)c.erase_mode, c.mixes, separate, wrong);
    }
    cuda->close(be);
    if (wrong) failed++;
}

static void group(const char *name, int before_failed, int before_cases)
{
    if (failed == before_failed) printf("ok %s (%d cases)\n", name, cases - before_cases);
    fflush(stdout);
}

static const struct {
    uint32_t width, height;
} sizes[] = {{40, 24}, {64, 64},   {37, 29},   {8, 8},    {1, 1},     {5, 70},   {100, 3},
             {33, 9},  {224, 224}, {299, 299}, {520, 40}, {256, 256}, {40, 500}, {260, 7}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void types_and_layouts(int small)
{
    int f = failed, n = cases;
    uint32_t seed = 1;
    for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++)
        for (int layout = LDR_NCHW; layout <= (int)LDR_NHWC; layout++)
            for (int erase = LDR_ERASE_CONST; erase <= (int)LDR_ERASE_PIXEL; erase++)
                for (int way = 0; way < 3; way++, seed++) { /* fused, separate, mixed */
                    if (small && seed % 7 != 0) continue;
                    uint32_t i = small ? seed % 4 : seed % N_SIZES;
                    ldri_backend_config c =
                        helper_config(6, sizes[i].width, sizes[i].height, (ldr_dtype)dtype,
                                      (ldr_layout)layout, (ldr_erase)erase, way == 2);
                    check("types", &c, 10 * seed, HELPER_ORDINARY | HELPER_JITTER | HELPER_ERASE,
                          way > 0);
                }
    group("types_and_layouts", f, n);
}

static void every_size(void)
{
    int f = failed, n = cases;
    for (uint32_t i = 0; i < N_SIZES; i++)
        for (int way = 0; way < 3; way++) {
            ldri_backend_config c = helper_config(16, sizes[i].width, sizes[i].height, LDR_F16,
                                                  LDR_NCHW, LDR_ERASE_PIXEL, way == 2);
            check("sizes", &c, 1000 + 10 * i, HELPER_ORDINARY | HELPER_JITTER | HELPER_ERASE,
                  way > 0);
        }
    group("every_size", f, n);
}

static void extreme_crops(int small)
{
    int f = failed, n = cases;
    for (uint32_t i = 0; i < (small ? 1u : 10u); i++)
        for (int separate = 0; separate < 2; separate++) {
            ldri_backend_config c =
                helper_config(small ? 6 : 24, sizes[i % N_SIZES].width, sizes[i % N_SIZES].height,
                              LDR_U8, LDR_NHWC, LDR_ERASE_RAND, 0);
            check("extreme", &c, 2000 + 10 * i, HELPER_EXTREME | HELPER_JITTER | HELPER_ERASE,
                  separate);
        }
    group("extreme_crops", f, n);
}

static void full_batches(void)
{
    int f = failed, n = cases, kinds = HELPER_EXACT | HELPER_ALL_JITTER | HELPER_ONE_BOX;
    for (int separate = 0; separate < 2; separate++)
        for (int dtype = LDR_F32; dtype <= (int)LDR_U8; dtype++) {
            ldri_backend_config c = helper_config(64, 224, 224, (ldr_dtype)dtype,
                                                  (ldr_layout)(dtype & 1), LDR_ERASE_PIXEL, 0);
            check("full", &c, 3000, kinds | HELPER_BILINEAR, separate);
            check("full", &c, 3010, kinds | HELPER_BICUBIC, separate);
        }
    group("full_batches", f, n);
}

int main(int argc, char **argv)
{
    int small = argc > 1 && strcmp(argv[1], "small") == 0;
    gpu_needed();
    types_and_layouts(small);
    extreme_crops(small);
    if (!small) {
        every_size();
        full_batches();
    }
    return failed != 0;
}
