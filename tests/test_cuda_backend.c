/* The CUDA back end on a runtime without a device (stub_cudart.h): what it enqueues, in which
 * order, what happens if a wait is missing, and what it says when a call fails. */
#include "tests/helper_cmocka.h"

#if !LDR_STUB /* the Makefile found no CUDA headers */
#include <stdio.h>

int main(void)
{
    puts("skip test_cuda_backend no CUDA headers here");
    return 77;
}
#else

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend_cuda.h"
#include "gpu/cuda_call.h"
#include "gpu/normalise.h"
#include "loader/host_images.h"
#include "tests/helper_batch.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"
#include "tests/stub_cudart.h"

#define ORDINARY (HELPER_ORDINARY | HELPER_JITTER | HELPER_ERASE)
#define BATCHES  7u

static const ldri_backend_ops *const cuda = &ldri_backend_cuda;

/* Whatever order is missing, a kernel must not read where there is no memory. */
#define MARGIN   ((size_t)1 << 17)

static ldri_backend_config config_of(uint32_t batch, int mixes)
{
    ldri_backend_config c = helper_config(batch, 40, 24, LDR_F16, LDR_NCHW, LDR_ERASE_PIXEL, mixes);
    c.arena_bytes = helper_arena_bytes(batch, 40, 24, ORDINARY) + MARGIN;
    return c;
}

/* --- a core, and a consumer who takes his time ------------------------------------------------ */

typedef struct reading { /* an output's images and labels as the consumer finds them */
    const void *images, *labels;
    void *to_images, *to_labels;
    size_t image_bytes, label_bytes;
} reading;

static void consume(void *arg)
{
    const reading *r = arg;
    memcpy(r->to_images, r->images, r->image_bytes);
    memcpy(r->to_labels, r->labels, r->label_bytes);
    memset((void *)(uintptr_t)r->images, STUB_POISON, r->image_bytes); /* nobody reads it twice */
}

typedef struct result {
    uint8_t *expected, *images;
    int64_t *expected_labels, *labels;
} result;

static void load_batch(ldri_backend *be, const ldri_backend_config *c, uint32_t k, uint32_t seed,
                       cudaStream_t consumer, result *r)
{
    ldr_error err;
    ldri_host_arena a;
    ldri_output o;
    uint32_t host = k % c->n_hosts, output = k % c->n_outputs;
    if (!cuda->host_reusable(be, host, 0)) assert_int_equal(cuda->host_reusable(be, host, 1), 1);
    cuda->host_arena(be, host, &a);
    size_t used = helper_fill(c, &a, seed + k, ORDINARY), bytes = helper_images_bytes(c);
    r->expected = helper_reference(c, &a, used);
    r->images = malloc(bytes);
    r->labels = calloc(c->batch, sizeof *r->labels);
    r->expected_labels = calloc(c->batch, sizeof *r->labels);
    assert_true(r->expected && r->images && r->labels && r->expected_labels);
    memcpy(r->expected_labels, a.labels, c->batch * sizeof *r->labels);
    assert_int_equal(cuda->submit(be, host, output, c->batch, used, &err), LDR_OK);
    cuda->output(be, output, &o);
    assert_int_equal(cuda->acquire(be, output, consumer, &err), LDR_OK);
    reading x = {o.images, o.labels, r->images, r->labels, bytes, c->batch * sizeof *r->labels};
    assert_int_equal(stub_enqueue(consumer, consume, &x, sizeof x), cudaSuccess);
    assert_int_equal(cuda->release(be, output, consumer, &err), LDR_OK);
}

/* How many of BATCHES batches came out wrong.  trusts: close has to wait for what is left; else it
 * is not tried, because memory would be freed under a consumer. */
static uint32_t wrong_batches(const ldri_backend_config *c, uint32_t seed, int trusts)
{
    ldr_error err;
    ldri_backend *be;
    result results[BATCHES];
    cudaStream_t consumers[3] = {NULL};
    for (int i = 1; i < 3; i++) cudaStreamCreateWithFlags(&consumers[i], cudaStreamNonBlocking);
    if (cuda->open(&be, c, &err) != LDR_OK) fail_msg("open: %s", err.message);
    for (uint32_t k = 0; k < BATCHES; k++)
        load_batch(be, c, k, seed, consumers[(k + seed) % 3], &results[k]);
    if (!trusts) stub_drain();
    cuda->close(be);
    stub_drain();
    for (int i = 1; i < 3; i++) cudaStreamDestroy(consumers[i]);
    assert_int_equal(stub_blocks(), 0);
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < BATCHES; k++) {
        result *r = &results[k];
        wrong += memcmp(r->expected, r->images, helper_images_bytes(c)) != 0 ||
                 memcmp(r->expected_labels, r->labels, c->batch * sizeof *r->labels) != 0;
        free(r->expected);
        free(r->images);
        free(r->labels);
        free(r->expected_labels);
    }
    return wrong;
}

static void bytes_are_those_of_the_cpu(void **unused)
{
    for (uint32_t seed = 1; seed <= 10; seed++)
        for (int policy = 0; policy < STUB_N_POLICIES; policy++)
            for (int way = 0; way < 3; way++) { /* fused, separate, mixed */
                stub_reset((stub_policy)policy, seed);
                stub_fuse(way == 0);
                ldri_backend_config c = config_of(4, way == 2);
                c.n_hosts = 1 + seed % 3;
                c.n_outputs = 1 + seed % 2;
                uint32_t wrong = wrong_batches(&c, seed, 1);
                if (wrong) fail_msg("seed %u policy %d way %d: %u wrong", seed, policy, way, wrong);
            }
}

/* Each wait and each record is there for a reason: without it some legal order gives wrong bytes.
 */
static void a_missing_wait_shows(void **unused)
{
    static const ldri_cuda_kind kinds[] = {
        LDRI_CUDA_WAIT_DONE,    LDRI_CUDA_WAIT_COPIED, LDRI_CUDA_WAIT_USED,
        LDRI_CUDA_WAIT_READY,   LDRI_CUDA_RECORD_DONE, LDRI_CUDA_RECORD_COPIED,
        LDRI_CUDA_RECORD_READY, LDRI_CUDA_RECORD_USED, LDRI_CUDA_QUERY_COPIED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint32_t wrong = 0;
        for (uint32_t seed = 1; seed <= 3; seed++)
            for (int policy = 0; policy < STUB_N_POLICIES; policy++) {
                stub_reset((stub_policy)policy, seed);
                ldri_backend_config c = config_of(3, 0);
                ldri_cuda_rule_skip(kinds[i], 0);
                wrong += wrong_batches(&c, seed, 0);
                ldri_cuda_rule_none();
            }
        if (wrong == 0) fail_msg("kind %d can be left out and nobody sees it", (int)kinds[i]);
    }
}

/* --- calls that fail -------------------------------------------------------------------------- */

static void add_up(void *user, const char *name, uint64_t n)
{
    (void)name;
    *(uint64_t *)user += n;
}

static void open_survives_any_failure(void **unused)
{
    stub_reset(STUB_RANDOM, 1);
    ldri_backend_config c = config_of(2, 1);
    ldri_backend *be;
    ldr_error err;
    uint64_t n_calls = 0, failed = 0;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
    cuda->calls(be, add_up, &n_calls);
    cuda->close(be);
    assert_true(n_calls > 20);
    for (uint64_t n = 1; n <= n_calls; n++) {
        ldri_cuda_rule_fail(LDRI_CUDA_N_KINDS, n);
        be = NULL;
        ldr_status s = cuda->open(&be, &c, &err);
        ldri_cuda_rule_none();
        if (s < 0) {
            failed++;
            assert_null(be);
            assert_true(s == LDR_E_CUDA || s == LDR_E_NOMEM);
            assert_non_null(strstr(err.message, "cuda")); /* the function's name */
        } else {                                          /* memory that could not be pinned */
            cuda->close(be);
        }
        if (stub_blocks() != 0) fail_msg("call %llu: something was left", (unsigned long long)n);
    }
    assert_int_equal(failed, n_calls - c.n_hosts);
}

static void a_failing_call_is_named(void **unused)
{
    static const struct {
        ldri_cuda_kind kind;
        const char *name;
    } cases[] = {{LDRI_CUDA_GET_DEVICE, "cudaGetDevice"},
                 {LDRI_CUDA_WAIT_DONE, "cudaStreamWaitEvent"},
                 {LDRI_CUDA_COPY, "cudaMemcpyAsync"},
                 {LDRI_CUDA_RECORD_COPIED, "cudaEventRecord"},
                 {LDRI_CUDA_WAIT_COPIED, "cudaStreamWaitEvent"},
                 {LDRI_CUDA_WAIT_USED, "cudaStreamWaitEvent"},
                 {LDRI_CUDA_LAUNCH, "cudaLaunchKernelExC"},
                 {LDRI_CUDA_RECORD_DONE, "cudaEventRecord"},
                 {LDRI_CUDA_RECORD_READY, "cudaEventRecord"}};
    stub_reset(STUB_LATE, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ldri_backend_config c = config_of(2, 0);
        ldri_backend *be;
        ldri_host_arena a;
        ldr_error err;
        assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
        cuda->host_arena(be, 0, &a);
        size_t used = helper_fill(&c, &a, 1, ORDINARY);
        ldri_cuda_rule_fail(cases[i].kind, 1);
        assert_int_equal(cuda->submit(be, 0, 0, 2, used, &err), LDR_E_CUDA);
        assert_int_equal(err.status, LDR_E_CUDA);
        assert_int_equal(err.detail, cudaErrorUnknown);
        assert_non_null(strstr(err.message, cases[i].name));
        assert_non_null(strstr(err.message, "unknown error")); /* CUDA's text */
        ldri_cuda_rule_none();
        cuda->close(be);
    }
    ldri_backend_config c = config_of(2, 0);
    ldri_backend *be;
    ldr_error err;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
    ldri_cuda_rule_fail(LDRI_CUDA_WAIT_READY, 1);
    assert_int_equal(cuda->acquire(be, 0, NULL, &err), LDR_E_CUDA);
    ldri_cuda_rule_fail(LDRI_CUDA_RECORD_USED, 1);
    assert_int_equal(cuda->release(be, 0, NULL, &err), LDR_E_CUDA);
    ldri_cuda_rule_none();
    cuda->close(be);
    stub_drain();
    assert_int_equal(stub_blocks(), 0);
}

static void the_environment_can_make_calls_fail(void **unused)
{
    stub_reset(STUB_LATE, 1);
    ldri_backend_config c = config_of(2, 0);
    ldri_backend *be;
    ldr_error err;
    setenv("LDR_CUDA_FAIL", "cudaMalloc:2", 1);
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_NOMEM);
    assert_non_null(strstr(err.message, "cudaMalloc"));
    assert_non_null(strstr(err.message, "lower batch"));
    setenv("LDR_CUDA_FAIL", "stream_make", 1);
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_CUDA);
    setenv("LDR_CUDA_FAIL", "any:1", 1);
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_CUDA);
    unsetenv("LDR_CUDA_FAIL");
    ldri_cuda_rule_none();
    assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
    cuda->close(be);
    assert_int_equal(stub_blocks(), 0);
}

/* --- memory and devices ----------------------------------------------------------------------- */

static void count_lines(void *user, const char *line)
{
    assert_non_null(strstr(line, "cannot pin"));
    ++*(int *)user;
}

static void without_pinned_memory_it_goes_on(void **unused)
{
    int lines = 0;
    uint64_t pinned, device, host;
    ldri_backend *be;
    stub_reset(STUB_COPIES, 1);
    ldri_backend_config c = config_of(3, 0);
    c.n_hosts = 3;
    assert_int_equal(cuda->open(&be, &c, NULL), LDR_OK);
    cuda->memory(be, &pinned, &device, &host);
    assert_true(pinned >= 3 * (uint64_t)c.arena_bytes && host == 0);
    assert_true(device <= stub_device_bytes() && device >= 2 * (uint64_t)c.arena_bytes);
    assert_true(stub_device_bytes() - device < 4096); /* what memory() says is what was taken */
    cuda->close(be);
    c.warn = count_lines;
    c.warn_user = &lines;
    ldri_cuda_rule_fail(LDRI_CUDA_HOST_ALLOC, 2); /* the first one is pinned */
    assert_int_equal(cuda->open(&be, &c, NULL), LDR_OK);
    cuda->memory(be, &pinned, &device, &host);
    assert_int_equal(pinned * 2, host);
    cuda->close(be);
    assert_int_equal(lines, 1); /* said once */
    ldri_cuda_rule_fail(LDRI_CUDA_HOST_ALLOC, 0);
    assert_int_equal(wrong_batches(&c, 1, 1), 0);
    ldri_cuda_rule_none();
    assert_int_equal(lines, 2);
}

static void device_limit_is_kept(void **unused)
{
    uint64_t pinned, device, host;
    ldri_backend *be;
    ldr_error err;
    stub_reset(STUB_LATE, 1);
    ldri_backend_config c = config_of(3, 1);
    assert_int_equal(cuda->open(&be, &c, NULL), LDR_OK);
    cuda->memory(be, &pinned, &device, &host);
    cuda->close(be);
    c.device_limit = (size_t)device;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
    cuda->close(be);
    c.device_limit--;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_LIMIT);
    char needed[32];
    snprintf(needed, sizeof needed, "%llu", (unsigned long long)device);
    assert_non_null(strstr(err.message, needed));
    assert_non_null(strstr(err.message, "lower batch"));
    assert_int_equal(stub_blocks(), 0);
    c = config_of(3, 0);
    c.batch = 1u << 31;
    c.width = c.height = 1u << 20;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_LIMIT);
}

static void devices_are_chosen_and_left_alone(void **unused)
{
    int now;
    ldr_error err;
    ldri_backend *be;
    ldri_host_arena a;
    stub_reset(STUB_LATE, 1);
    stub_devices(2, 9, 0);
    cudaSetDevice(0);
    ldri_backend_config c = config_of(2, 0);
    c.device_id = 1;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
    cudaGetDevice(&now);
    assert_int_equal(now, 0);
    cuda->host_arena(be, 0, &a);
    size_t used = helper_fill(&c, &a, 1, ORDINARY);
    assert_int_equal(cuda->submit(be, 0, 0, 2, used, &err), LDR_OK);
    cudaSetDevice(0); /* this thread is a consumer's now */
    assert_int_equal(cuda->acquire(be, 0, NULL, &err), LDR_OK);
    cudaGetDevice(&now);
    assert_int_equal(now, 0);
    assert_int_equal(cuda->release(be, 0, NULL, &err), LDR_OK); /* of device 1 */
    cudaGetDevice(&now);
    assert_int_equal(now, 0);
    cudaStream_t other; /* a stream of device 0 */
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    assert_int_equal(cuda->release(be, 0, other, &err), LDR_E_CUDA);
    assert_non_null(strstr(err.message, "stream must belong"));
    cudaStreamDestroy(other);
    cuda->close(be);
    cudaGetDevice(&now);
    assert_int_equal(now, 0);
    stub_drain();
    c.device_id = 2;
    assert_int_equal(cuda->open(&be, &c, &err), LDR_E_INVALID);
    assert_non_null(strstr(err.message, "device_id is 2"));
    assert_int_equal(stub_blocks(), 0);
}

static void auto_takes_cuda_where_it_works(void **unused)
{
    ldr_error err;
    stub_reset(STUB_LATE, 1);
    assert_ptr_equal(ldri_backend_find(LDR_DEVICE_AUTO, &err), cuda);
    assert_ptr_equal(ldri_backend_find(LDR_DEVICE_CUDA, &err), cuda);
    assert_string_equal(ldri_backend_find(LDR_DEVICE_CPU, &err)->name, "cpu");
    stub_devices(0, 9, 0);
    assert_string_equal(ldri_backend_find(LDR_DEVICE_AUTO, &err)->name, "cpu");
    assert_null(ldri_backend_find(LDR_DEVICE_CUDA, &err));
    assert_int_equal(err.status, LDR_E_CUDA);
    assert_non_null(strstr(err.message, "no CUDA-capable device is detected"));
    assert_non_null(strstr(err.message, "use device cpu"));
    stub_devices(1, 7, 5);
    assert_string_equal(ldri_backend_find(LDR_DEVICE_AUTO, &err)->name, "cpu");
    assert_null(ldri_backend_find(LDR_DEVICE_CUDA, &err));
    assert_non_null(strstr(err.message, "7.5"));
}

/* --- what it costs ---------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t copies, launches, waits, records, syncs, queries, others;
} tally;

static void tally_up(void *user, const char *name, uint64_t n)
{
    tally *t = user;
    if (!strcmp(name, "cudaMemcpyAsync"))
        t->copies += n;
    else if (!strcmp(name, "cudaLaunchKernelExC"))
        t->launches += n;
    else if (!strcmp(name, "cudaStreamWaitEvent"))
        t->waits += n;
    else if (!strcmp(name, "cudaEventRecord"))
        t->records += n;
    else if (strstr(name, "Synchronize"))
        t->syncs += n;
    else if (!strcmp(name, "cudaEventQuery"))
        t->queries += n;
    else if (strcmp(name, "cudaGetDevice") != 0)
        t->others += n;
}

static void a_batch_takes_few_calls(void **unused)
{
    for (int way = 0; way < 3; way++) {
        stub_reset(STUB_RANDOM, 1);
        stub_fuse(way == 0);
        ldri_backend_config c = config_of(2, way == 2);
        c.arena_bytes = (size_t)40 << 20;
        ldri_backend *be;
        ldri_host_arena a;
        ldr_error err;
        tally before = {0}, after = {0};
        assert_int_equal(cuda->open(&be, &c, &err), LDR_OK);
        cuda->calls(be, tally_up, &before);
        cuda->host_arena(be, 0, &a);
        helper_fill(&c, &a, 1, ORDINARY);
        assert_int_equal(cuda->host_reusable(be, 0, 1), 1);
        assert_int_equal(cuda->submit(be, 0, 0, 2, c.arena_bytes, &err), LDR_OK);
        assert_int_equal(cuda->acquire(be, 0, NULL, &err), LDR_OK);
        assert_int_equal(cuda->release(be, 0, NULL, &err), LDR_OK);
        cuda->calls(be, tally_up, &after);
        assert_int_equal(after.launches - before.launches, way == 0 ? 2 : way == 1 ? 3 : 4);
        assert_int_equal(after.copies - before.copies, 3); /* of 13.4 MB */
        assert_int_equal(after.waits - before.waits, 4);
        assert_int_equal(after.records - before.records, 4);
        assert_int_equal(after.syncs - before.syncs, 1);
        assert_int_equal(after.queries - before.queries, 0);
        assert_int_equal(after.others - before.others, 0);
        assert_true(stub_smallest_copy() >= (size_t)8 << 20);
        assert_true(stub_largest_copy() <= (size_t)16 << 20);
        cuda->close(be);
        stub_drain();
    }
}

/* --- whole loaders ---------------------------------------------------------------------------- */

static char *tree;

static int make_tree(void **unused)
{
    tree = helper_tree(3, 14);
    return 0;
}

static int remove_tree(void **unused)
{
    helper_remove_tree(tree);
    free(tree);
    return 0;
}

static void options_of(ldr_options *o, ldr_device device)
{
    ldr_options_init(o);
    ldr_options_train(o, 32);
    o->source = tree;
    o->batch = 6;
    o->threads = 2;
    o->depth = 3;
    o->epochs = 2;
    o->device = device;
    o->dtype = LDR_BF16;
    o->seed = 5;
    o->brightness = o->contrast = o->saturation = 0.4f;
    o->hue = 0.1f;
    o->grayscale_prob = 0.2f;
    o->vflip = 0.5f;
    o->erase_prob = 0.5f;
    o->erase_mode = LDR_ERASE_PIXEL;
    o->filter = LDR_RANDOM_FILTER;
}

/* The stub's device memory is the host's; all the same the images come by the way of the command.
 */
static uint64_t run_digest(const ldr_options *o)
{
    ldr *ld;
    ldr_error err;
    const ldr_batch *b;
    ldri_host_images copy = {0};
    uint64_t digest = HELPER_FNV_START;
    if (ldr_open(&ld, o, &err) < 0) fail_msg("open: %s", err.message);
    for (uint64_t ends = 0; ends < o->epochs;) {
        ldr_status s = ldr_next(ld, NULL, -1, &b);
        if (s == LDR_END) {
            ends++;
            continue;
        }
        const void *images;
        assert_int_equal(s, LDR_OK);
        assert_int_equal(ldri_host_images_get(ld, b, &copy, &images), LDR_OK);
        if (images != b->images)
            assert_memory_equal(images, b->images, b->count * ldri_image_bytes(b));
        uint64_t one = helper_batch_digest(b);
        digest = helper_fnv(digest, &one, sizeof one);
        assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    }
    ldri_host_images_free(&copy);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    return digest;
}

static void a_loader_gives_the_bytes_of_the_cpu(void **unused)
{
    for (int mixes = 0; mixes < 2; mixes++) {
        ldr_options o;
        options_of(&o, LDR_DEVICE_CPU);
        if (mixes) o.mixup_alpha = 0.8f, o.cutmix_alpha = 1.0f;
        uint64_t expected = run_digest(&o);
        for (int policy = 0; policy < STUB_N_POLICIES; policy++)
            for (int small = 0; small < 2; small++) {
                stub_reset((stub_policy)policy, 7);
                stub_fuse(policy & 1);
                options_of(&o, LDR_DEVICE_CUDA);
                if (mixes) o.mixup_alpha = 0.8f, o.cutmix_alpha = 1.0f;
                if (small) o.pinned_limit = 120000;
                if (run_digest(&o) != expected)
                    fail_msg("mixes %d policy %d small %d: another digest", mixes, policy, small);
                stub_drain();
                assert_int_equal(stub_blocks(), 0);
            }
    }
}

static void several_loaders_at_once(void **unused)
{
    enum { N = 3 };
    ldr *loaders[N];
    ldr_error err;
    ldr_options o;
    stub_reset(STUB_RANDOM, 3);
    options_of(&o, LDR_DEVICE_CPU);
    o.epochs = 1;
    uint64_t expected = run_digest(&o), digests[N];
    o.device = LDR_DEVICE_AUTO;
    for (int i = 0; i < N; i++) {
        if (ldr_open(&loaders[i], &o, &err) < 0) fail_msg("open: %s", err.message);
        digests[i] = HELPER_FNV_START;
    }
    for (int open = N; open > 0;)
        for (int i = 0; i < N; i++) {
            const ldr_batch *b;
            ldri_host_images copy = {0};
            const void *images;
            if (!loaders[i]) continue;
            ldr_status s = ldr_next(loaders[i], NULL, -1, &b);
            if (s == LDR_END) {
                assert_int_equal(ldr_close(&loaders[i]), LDR_OK);
                open--;
                continue;
            }
            assert_int_equal(s, LDR_OK);
            assert_int_equal(ldri_host_images_get(loaders[i], b, &copy, &images), LDR_OK);
            uint64_t one = helper_batch_digest(b);
            digests[i] = helper_fnv(digests[i], &one, sizeof one);
            ldri_host_images_free(&copy);
            assert_int_equal(ldr_release(loaders[i], b, NULL), LDR_OK);
        }
    for (int i = 0; i < N; i++) assert_true(digests[i] == expected);
    stub_drain();
    assert_int_equal(stub_blocks(), 0);
}

static void a_failure_reaches_the_caller(void **unused)
{
    static const ldri_cuda_kind kinds[] = {LDRI_CUDA_COPY, LDRI_CUDA_LAUNCH, LDRI_CUDA_RECORD_READY,
                                           LDRI_CUDA_WAIT_READY, LDRI_CUDA_RECORD_USED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ldr *ld;
        ldr_error err;
        ldr_options o;
        const ldr_batch *b;
        stub_reset(STUB_RANDOM, 4);
        options_of(&o, LDR_DEVICE_CUDA);
        if (ldr_open(&ld, &o, &err) < 0) fail_msg("open: %s", err.message);
        ldri_cuda_rule_fail(kinds[i], 2);
        ldr_status s;
        while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) ldr_release(ld, b, NULL);
        ldri_cuda_rule_none();
        ldr_last_error(ld, &err);
        assert_int_equal(err.status, LDR_E_CUDA);
        assert_non_null(strstr(err.message, "unknown error"));
        if (kinds[i] != LDRI_CUDA_RECORD_USED) assert_int_equal(s, LDR_E_CUDA);
        assert_int_equal(ldr_close(&ld), LDR_OK);
        stub_drain();
        assert_int_equal(stub_blocks(), 0);
    }
}

int main(void)
{
    setenv("LDR_CUDA_KERNELS", "fused", 1); /* allowed; stub_fuse says whether it can be */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_cpu),
        cmocka_unit_test(a_missing_wait_shows),
        cmocka_unit_test(open_survives_any_failure),
        cmocka_unit_test(a_failing_call_is_named),
        cmocka_unit_test(the_environment_can_make_calls_fail),
        cmocka_unit_test(without_pinned_memory_it_goes_on),
        cmocka_unit_test(device_limit_is_kept),
        cmocka_unit_test(devices_are_chosen_and_left_alone),
        cmocka_unit_test(auto_takes_cuda_where_it_works),
        cmocka_unit_test(a_batch_takes_few_calls),
        cmocka_unit_test(a_loader_gives_the_bytes_of_the_cpu),
        cmocka_unit_test(several_loaders_at_once),
        cmocka_unit_test(a_failure_reaches_the_caller),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
#endif
