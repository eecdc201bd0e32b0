/* The order of copies, kernels and consumers on a GPU.  Consumers and kernels are held up, so that
 * memory that is used again too early shows in the bytes; and each wait is left out once, to see
 * that it does. */
#include <string.h>

#include "gpu/backend_cuda.h"
#include "gpu/cuda_call.h"
#include "tests/gpu_device.h"
#include "tests/helper_batch.h"

#define BATCHES   8u
#define KINDS     (HELPER_EXACT | HELPER_ALL_JITTER)
#define HOLD_NS   10000000u /* far longer than a batch takes on the host */
#define N_LOADERS 3

static const ldri_backend_ops *const cuda = &ldri_backend_cuda;
static int failed;

typedef struct content { /* of a host arena, made beforehand: a batch must not take long */
    ldri_descriptor *descriptors;
    int64_t *labels;
    uint8_t *pixels;
    size_t used;
    uint8_t *expected;
} content;

typedef struct loader {
    ldri_backend_config c;
    ldri_backend *be;
    cudaStream_t consumers[3]; /* the first is the default stream */
    content contents[BATCHES];
    uint8_t *got[BATCHES]; /* pinned, so that copies to it do not wait */
} loader;

typedef enum held { NOTHING = 0, WORK = 1, CONSUMER = 2, BOTH = 3 } held;

static void must(ldr_status s, const ldr_error *err)
{
    if (s >= 0) return;
    printf("FAIL %s\n", err->message);
    exit(1);
}

static void *host_memory(size_t n)
{
    void *p = malloc(n);
    if (!p) abort();
    return p;
}

static void make_content(const ldri_backend_config *c, content *x, uint32_t seed)
{
    x->descriptors = host_memory(c->batch * sizeof *x->descriptors);
    x->labels = host_memory(c->batch * sizeof *x->labels);
    x->pixels = host_memory(c->arena_bytes);
    ldri_host_arena a = {.descriptors = x->descriptors, .labels = x->labels, .pixels = x->pixels};
    x->used = helper_fill(c, &a, seed, KINDS);
    x->expected = helper_reference(c, &a, x->used);
    if (!x->expected) abort();
}

static void loader_open(loader *l, uint32_t seed, int device)
{
    ldr_error err;
    memset(l, 0, sizeof *l);
    l->c = helper_config(16, 224, 224, LDR_F16, LDR_NCHW, LDR_ERASE_PIXEL, 0);
    l->c.device_id = device;
    /* Where a wait is missing kernels see halves of two batches: they stay inside. */
    l->c.arena_bytes = helper_arena_bytes(16, 224, 224, KINDS) + ((size_t)1 << 20);
    must(cuda->open(&l->be, &l->c, &err), &err);
    GPU_MUST(cudaSetDevice(device));
    for (int i = 1; i < 3; i++)
        GPU_MUST(cudaStreamCreateWithFlags(&l->consumers[i],
                                           i == 1 ? cudaStreamNonBlocking : cudaStreamDefault));
    for (uint32_t k = 0; k < BATCHES; k++) {
        GPU_MUST(cudaHostAlloc((void **)&l->got[k], helper_images_bytes(&l->c), 0));
        make_content(&l->c, &l->contents[k], seed + k);
    }
}

static ldr_status hold_work(void *arg, ldr_stream stream)
{
    (void)arg;
    return gpu_spin(HOLD_NS, stream) == cudaSuccess ? LDR_OK : LDR_E_CUDA;
}

static void load_batch(loader *l, uint32_t k, held what)
{
    ldr_error err;
    ldri_host_arena a;
    ldri_output o;
    const content *x = &l->contents[k];
    uint32_t host = k % l->c.n_hosts, output = k % l->c.n_outputs;
    cudaStream_t consumer = l->consumers[k % 3];
    if (!cuda->host_reusable(l->be, host, 0)) cuda->host_reusable(l->be, host, 1);
    cuda->host_arena(l->be, host, &a);
    memcpy(a.descriptors, x->descriptors, l->c.batch * sizeof *a.descriptors);
    memcpy(a.labels, x->labels, l->c.batch * sizeof *a.labels);
    memcpy(a.pixels, x->pixels, x->used);
    memset(l->got[k], 0, helper_images_bytes(&l->c));
    must(cuda->submit(l->be, host, output, l->c.batch, x->used, &err), &err);
    if (what & WORK) must(cuda->after(l->be, output, hold_work, NULL, &err), &err);
    cuda->output(l->be, output, &o);
    must(cuda->acquire(l->be, output, consumer, &err), &err);
    if (what & CONSUMER) GPU_MUST(gpu_spin(2 * HOLD_NS, consumer)); /* a slow step */
    GPU_MUST(cudaMemcpyAsync(l->got[k], o.images, helper_images_bytes(&l->c),
                             cudaMemcpyDeviceToHost, consumer));
    must(cuda->release(l->be, output, consumer, &err), &err);
}

static uint32_t count_wrong(const loader *l)
{
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < BATCHES; k++)
        wrong += memcmp(l->contents[k].expected, l->got[k], helper_images_bytes(&l->c)) != 0;
    return wrong;
}

static uint32_t run(loader *l, held what)
{
    for (uint32_t k = 0; k < BATCHES; k++) load_batch(l, k, what);
    GPU_MUST(cudaDeviceSynchronize());
    return count_wrong(l);
}

static void loader_free(loader *l) /* the back end is closed */
{
    for (int i = 1; i < 3; i++) GPU_MUST(cudaStreamDestroy(l->consumers[i]));
    for (uint32_t k = 0; k < BATCHES; k++) {
        GPU_MUST(cudaFreeHost(l->got[k]));
        free(l->contents[k].descriptors);
        free(l->contents[k].labels);
        free(l->contents[k].pixels);
        free(l->contents[k].expected);
    }
}

static void report(const char *name, int good, uint32_t wrong)
{
    if (good) {
        printf("ok %s\n", name);
    } else {
        printf("FAIL %s %u of %u batches wrong\n", name, wrong, BATCHES);
        failed = 1;
    }
    fflush(stdout);
}

static void waits(void)
{
    static const struct {
        const char *name;
        ldri_cuda_kind kind;
        held what;
    } missing[] = {{"without_wait_done", LDRI_CUDA_WAIT_DONE, WORK},
                   {"without_wait_copied", LDRI_CUDA_WAIT_COPIED, NOTHING},
                   {"without_wait_used", LDRI_CUDA_WAIT_USED, CONSUMER},
                   {"without_wait_ready", LDRI_CUDA_WAIT_READY, WORK},
                   {"without_query_copied", LDRI_CUDA_QUERY_COPIED, WORK}};
    static const char *const names[] = {"nothing_held", "work_held", "consumer_held", "both_held"};
    loader l;
    loader_open(&l, 1, 0);
    for (int what = NOTHING; what <= (int)BOTH; what++) {
        uint32_t wrong = run(&l, (held)what);
        report(names[what], wrong == 0, wrong);
    }
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        ldri_cuda_rule_skip(missing[i].kind, 0);
        uint32_t wrong = run(&l, missing[i].what);
        ldri_cuda_rule_none();
        report(missing[i].name, wrong > 0, wrong); /* it is caught */
    }
    uint32_t wrong = run(&l, BOTH);
    report("both_held_again", wrong == 0, wrong);
    cuda->close(l.be);
    loader_free(&l);
}

static void several(void)
{
    static loader l[N_LOADERS];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < N_LOADERS; i++) loader_open(&l[i], 100 * i, 0);
    for (uint32_t k = 0; k < BATCHES; k++)
        for (uint32_t i = 0; i < N_LOADERS; i++) load_batch(&l[i], k, (held)((k + i) % 4));
    GPU_MUST(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < N_LOADERS; i++) wrong += count_wrong(&l[i]);
    report("several_loaders", wrong == 0, wrong);
    for (uint32_t i = 0; i < N_LOADERS; i++) {
        cuda->close(l[i].be);
        loader_free(&l[i]);
    }
}

/* With memory that could not be pinned. */
static void pageable(void)
{
    loader l;
    ldri_cuda_rule_fail(LDRI_CUDA_HOST_ALLOC, 0);
    loader_open(&l, 1, 0);
    ldri_cuda_rule_none();
    uint32_t wrong = run(&l, BOTH);
    report("pageable", wrong == 0, wrong);
    cuda->close(l.be);
    loader_free(&l);
}

/* close waits for consumers that are still at work; nothing else here does. */
static void close_waits(void)
{
    loader l;
    loader_open(&l, 1, 0);
    for (uint32_t k = 0; k < BATCHES; k++) load_batch(&l, k, CONSUMER);
    cuda->close(l.be);
    uint32_t wrong = count_wrong(&l);
    report("close_waits", wrong == 0, wrong);
    loader_free(&l);
}

static void other_device(void)
{
    int n, now;
    GPU_MUST(cudaGetDeviceCount(&n));
    if (n < 2) {
        puts("skip device_1 there is one device");
        return;
    }
    loader l;
    loader_open(&l, 1, 1);
    uint32_t wrong = run(&l, BOTH);
    GPU_MUST(cudaGetDevice(&now));
    report("device_1", wrong == 0 && now == 1, wrong);
    cuda->close(l.be);
    loader_free(&l);
    GPU_MUST(cudaSetDevice(0));
}

int main(void)
{
    gpu_needed();
    waits();
    several();
    pageable();
    close_waits();
    other_device();
    return failed;
}
