/* Augmentation through the whole loader: the same bytes whatever the threads, depth and memory;
 * labels and weights of mixed images; the caller's own operator. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mix.h"
#include "loader/params_mix.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

static char *tree; /* 4 classes of 11 pictures */
enum { N = 44, SIZE = 40, VALUES = 3 * SIZE * SIZE };

static void options(ldr_options *o)
{
    ldr_options_init(o);
    ldr_options_train(o, SIZE);
    o->source = tree;
    o->batch = 9; /* odd, and the last batch has 8 */
    o->threads = 3;
    o->seed = 7;
}

static void everything(ldr_options *o)
{
    options(o);
    o->filter = LDR_RANDOM_FILTER;
    o->vflip = 0.5f;
    o->brightness = o->contrast = o->saturation = 0.4f;
    o->hue = 0.1f;
    o->grayscale_prob = 0.2f;
    o->mixup_alpha = 0.8f;
    o->cutmix_alpha = 1.0f;
    o->erase_prob = 0.5f;
    o->erase_mode = LDR_ERASE_PIXEL;
    o->erase_count[1] = 3;
    o->epochs = 2;
}

static ldr *open_or_fail(const ldr_options *o)
{
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, o, &err) < 0) fail_msg("%s", err.message);
    return ld;
}

static void same_bytes_with_everything_on(void **unused)
{
    static const uint32_t threads[] = {1, 2, 8}, depths[] = {1, 2, 7};
    static const char *const levels[] = {"none", "avx2", "avx512"};
    ldr_options o;
    for (int dtype = 0; dtype < 4; dtype++) {
        everything(&o);
        o.dtype = (ldr_dtype)dtype;
        o.layout = (ldr_layout)(dtype & 1);
        o.mix_pair = dtype == 2;
        uint64_t want = helper_run_digest(&o);
        for (size_t i = 0; i < 3; i++) {
            o.threads = threads[i];
            o.depth = depths[2 - i];
            assert_int_equal(helper_run_digest(&o), want);
            setenv("LDR_SIMD", levels[i], 1);
            assert_int_equal(helper_run_digest(&o), want);
            unsetenv("LDR_SIMD");
        }
        o.depth = 2;
        o.pinned_limit = 2 * (9 * (128 * 40 + 450)) + 4096;
        assert_int_equal(helper_run_digest(&o), want);
        o.pinned_limit = 0;
        o.seed++;
        assert_int_not_equal(helper_run_digest(&o), want);
    }
}

static void each_option_changes_the_images(void **unused)
{
    ldr_options o;
    uint64_t digests[16];
    size_t n = 0;
    for (int k = 0; k < 13; k++) {
        options(&o);
        if (k == 1) o.brightness = 0.4f;
        if (k == 2) o.contrast = 0.4f;
        if (k == 3) o.saturation = 0.4f;
        if (k == 4) o.hue = 0.2f;
        if (k == 5) o.grayscale_prob = 0.5f;
        if (k == 6) o.mixup_alpha = 1.0f;
        if (k == 7) o.cutmix_alpha = 1.0f;
        if (k == 8) o.mixup_alpha = o.cutmix_alpha = 1.0f;
        if (k >= 9 && k < 12) {
            o.erase_prob = 1.0f;
            o.erase_mode = (ldr_erase)(k - 9);
        }
        if (k == 12) o.filter = LDR_NEAREST;
        digests[n++] = helper_run_digest(&o);
        for (size_t i = 0; i + 1 < n; i++) assert_int_not_equal(digests[i], digests[n - 1]);
    }
}

/* An epoch's bytes, labels and counts, copied out. */
typedef struct epoch {
    uint8_t images[N][VALUES];
    int64_t labels[N], mix_labels[N];
    float mix_lambda[N];
    uint32_t counts[8];
    uint32_t n_batches;
} epoch;

static epoch *load(const ldr_options *o)
{
    ldr *ld = open_or_fail(o);
    epoch *e = calloc(1, sizeof *e);
    assert_non_null(e);
    const ldr_batch *b;
    uint32_t n = 0;
    while (ldr_next(ld, NULL, -1, &b) == LDR_OK) {
        assert_int_equal(b->mix_labels != NULL, ldri_mixes(o));
        assert_int_equal(b->mix_lambda != NULL, ldri_mixes(o));
        assert_ptr_equal(b->mix_labels, b->mix_labels_host);
        assert_ptr_equal(b->mix_lambda, b->mix_lambda_host);
        memcpy(e->images[n], b->images, (size_t)b->count * VALUES);
        memcpy(e->labels + n, b->labels_host, b->count * sizeof *e->labels);
        if (ldri_mixes(o)) {
            memcpy(e->mix_labels + n, b->mix_labels, b->count * sizeof *e->mix_labels);
            memcpy(e->mix_lambda + n, b->mix_lambda, b->count * sizeof *e->mix_lambda);
        }
        n += b->count;
        e->counts[e->n_batches++] = b->count;
        assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    }
    assert_int_equal(n, N);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    return e;
}

/* The mixed epoch from the epoch without mixing. */
static void mixed_images_are_mixtures_with_both_labels(void **unused)
{
    int kinds[3] = {0};
    for (int k = 0; k < 6; k++) {
        ldr_options o;
        options(&o);
        o.dtype = LDR_U8;
        o.layout = LDR_NHWC;
        o.saturation = 0.4f;
        o.seed = (uint64_t)(100 + k);
        epoch *plain = load(&o);
        o.mixup_alpha = k % 3 != 1 ? 0.8f : 0.0f;
        o.cutmix_alpha = k % 3 != 0 ? 1.0f : 0.0f;
        o.mix_pair = k >= 3;
        o.mix_prob = 0.8f;
        epoch *mixed = load(&o);
        assert_int_equal(mixed->counts[0], 9);
        assert_int_equal(mixed->counts[4], 8);
        for (uint32_t batch = 0, first = 0; batch < mixed->n_batches; batch++) {
            uint32_t count = mixed->counts[batch];
            for (uint32_t i = 0; i < count; i++) {
                uint32_t own = first + i, other = first + count - 1 - i;
                ldri_mix_params m;
                ldri_descriptor d = {0};
                ldri_mix_draw(&o, 0, batch, count, i, &m);
                ldri_mix_describe(&m, &d);
                kinds[m.mix]++;
                assert_int_equal(mixed->labels[own], plain->labels[own]);
                assert_int_equal(mixed->mix_labels[own], plain->labels[other]);
                assert_true(mixed->mix_lambda[own] == m.label_weight);
                for (uint32_t v = 0; v < VALUES; v++) {
                    uint8_t want = ldri_mix_byte(&d, v / 3 / SIZE, v / 3 % SIZE,
                                                 plain->images[own][v], plain->images[other][v]);
                    if (mixed->images[own][v] != want)
                        fail_msg("case %d, batch %u, image %u, value %u", k, batch, i, v);
                }
            }
            first += count;
        }
        free(plain);
        free(mixed);
    }
    assert_true(kinds[0] > 0 && kinds[LDRI_MIXUP] > 20 && kinds[LDRI_CUTMIX] > 20);
}

static void a_batch_of_one_is_mixed_with_itself(void **unused)
{
    ldr_options o;
    options(&o);
    o.batch = 1;
    o.dtype = LDR_U8;
    o.cutmix_alpha = 1.0f;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    while (ldr_next(ld, NULL, -1, &b) == LDR_OK) {
        assert_int_equal(b->mix_labels[0], b->labels[0]);
        assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    }
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static void mixing_survives_bad_samples(void **unused)
{
    char *sick = helper_tree(2, 6);
    helper_bad_file(sick, "c00/x1.jpg", helper_bad_kinds[0]);
    helper_bad_file(sick, "c01/x2.jpg", helper_bad_kinds[1]);
    ldr_options o;
    everything(&o);
    o.source = sick;
    o.batch = 4;
    for (int policy = LDR_BAD_REPLACE; policy <= (int)LDR_BAD_MARK; policy++) {
        o.on_bad = (ldr_on_bad)policy;
        if (policy != LDR_BAD_STOP) {
            o.threads = 1;
            uint64_t want = helper_run_digest(&o);
            o.threads = 6;
            assert_int_equal(helper_run_digest(&o), want);
            continue;
        }
        ldr *ld = open_or_fail(&o);
        const ldr_batch *b;
        ldr_status s;
        while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK)
            assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        assert_true(s < 0);
        assert_int_equal(ldr_next(ld, NULL, -1, &b), s);
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
    helper_remove_tree(sick);
    free(sick);
}

/* Stopped anywhere: in the first round, in the second, with batches held. */
static void mixing_can_be_stopped_at_any_time(void **unused)
{
    ldr_options o;
    everything(&o);
    o.epochs = 0;
    for (uint32_t i = 0; i < 24; i++) {
        o.depth = 1 + i % 4;
        o.threads = 1 + i % 5;
        ldr *ld = open_or_fail(&o);
        const ldr_batch *b = NULL;
        for (uint32_t k = 0; k < i / 2; k++) {
            assert_true(ldr_next(ld, NULL, -1, &b) >= 0);
            if (b) assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
            b = NULL;
        }
        if (i % 3 == 0) ldr_abort(ld);
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

/* --- after ----------------------------------------------------------------------------------- */

typedef struct calls {
    uint32_t n, fail_at;
    uint64_t seeds[16], epochs[16], indices[16];
} calls;

static int note(void *user, const struct ldr_batch *b, uint64_t seed, ldr_stream stream)
{
    calls *c = user;
    if (stream || b->size != sizeof *b || c->n >= 16 || !b->images) abort();
    if (c->n == c->fail_at) return -77;
    c->seeds[c->n] = seed;
    c->epochs[c->n] = b->epoch;
    c->indices[c->n++] = b->index;
    memset((void *)b->images, (int)(seed & 255), b->count * helper_image_bytes(b));
    return 0;
}

static void after_sees_each_batch_once_in_order(void **unused)
{
    for (int mixes = 0; mixes < 2; mixes++) {
        ldr_options o;
        options(&o);
        if (mixes) everything(&o);
        o.dtype = LDR_U8;
        o.epochs = 2;
        calls c = {.fail_at = UINT32_MAX};
        o.after = note;
        o.after_user = &c;
        ldr *ld = open_or_fail(&o);
        const ldr_batch *b;
        uint32_t n = 0;
        for (int ends = 0; ends < 2;) {
            ldr_status s = ldr_next(ld, NULL, -1, &b);
            if (s == LDR_END) {
                ends++;
                continue;
            }
            assert_int_equal(s, LDR_OK);
            const uint8_t *v = b->images;
            for (size_t i = 0; i < b->count * helper_image_bytes(b); i++)
                assert_int_equal(v[i], ldri_batch_seed(&o, b->epoch, b->index) & 255);
            n++;
            assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        }
        assert_int_equal(n, 10);
        assert_int_equal(c.n, 10);
        for (uint32_t i = 0; i < 10; i++) {
            assert_int_equal(c.epochs[i], i / 5);
            assert_int_equal(c.indices[i], i % 5);
            assert_true(c.seeds[i] == ldri_batch_seed(&o, i / 5, i % 5));
            for (uint32_t k = 0; k < i; k++) assert_true(c.seeds[i] != c.seeds[k]);
        }
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

static void after_may_fail_a_batch(void **unused)
{
    ldr_options o;
    options(&o);
    calls c = {.fail_at = 3};
    o.after = note;
    o.after_user = &c;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    ldr_error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
        assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    }
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_E_CALLBACK);
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_E_CALLBACK);
    ldr_last_error(ld, &err);
    assert_int_equal(err.detail, -77);
    assert_non_null(strstr(err.message, "returned -77 for batch 3 of epoch 0"));
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static int make_tree(void **unused)
{
    tree = helper_tree(4, 11);
    return 0;
}

static int remove_tree(void **unused)
{
    helper_remove_tree(tree);
    free(tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_with_everything_on),
        cmocka_unit_test(each_option_changes_the_images),
        cmocka_unit_test(mixed_images_are_mixtures_with_both_labels),
        cmocka_unit_test(a_batch_of_one_is_mixed_with_itself),
        cmocka_unit_test(mixing_survives_bad_samples),
        cmocka_unit_test(mixing_can_be_stopped_at_any_time),
        cmocka_unit_test(after_sees_each_batch_once_in_order),
        cmocka_unit_test(after_may_fail_a_batch),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
