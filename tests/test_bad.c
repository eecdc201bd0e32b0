/* Bad samples: an item, not an exception.  Each kind first, last, and as a whole batch, under each
 * policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loader/plan.h"
#include "loader/descriptor.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

enum { GOOD = 16, BATCH = 4 };

static ldr_cause cause_of(const char *kind)
{
    if (!strcmp(kind, "empty")) return LDR_CAUSE_EMPTY;
    if (!strcmp(kind, "one-byte") || !strcmp(kind, "html")) return LDR_CAUSE_FORMAT;
    if (!strcmp(kind, "huge-header")) return LDR_CAUSE_LIMIT;
    return LDR_CAUSE_DAMAGED;
}

/* Two classes of 8 good pictures; the bad one is c00/+a.jpg (first in the list) or c01/zzz.jpg
 * (last). */
static char *tree_with(const char *kind, int last)
{
    char *root = helper_tree(2, GOOD / 2);
    helper_bad_file(root, last ? "c01/zzz.jpg" : "c00/+a.jpg", kind);
    return root;
}

static void options(ldr_options *o, const char *root, ldr_on_bad policy)
{
    ldr_options_init(o);
    ldr_options_eval(o, 32);
    o->view = LDR_VIEW_SQUASH; /* with crop_pct 1 every row is needed */
    o->crop_pct = 1;
    o->source = root;
    o->batch = BATCH;
    o->threads = 3;
    o->on_bad = policy;
}

static ldr *open_or_fail(const ldr_options *o)
{
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, o, &err) < 0) fail_msg("%s", err.message);
    return ld;
}

static int all_black(const ldr_batch *b, uint32_t i)
{
    const uint8_t *p = (const uint8_t *)b->images + i * helper_image_bytes(b);
    for (size_t k = 0; k < helper_image_bytes(b); k++) {
        if (p[k]) return 0;
    }
    return 1;
}

static void replaced(const char *root, uint64_t bad, ldr_cause cause)
{
    ldr_options o;
    options(&o, root, LDR_BAD_REPLACE);
    ldr *ld = open_or_fail(&o);
    ldri_plan plan;
    assert_int_equal(ldri_plan_init(&plan, &o, GOOD + 1, NULL), LDR_OK);
    const ldr_batch *b;
    uint64_t at = 0;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, 5000, &b)) == LDR_OK) {
        for (uint32_t i = 0; i < b->count; i++, at++) {
            uint64_t want = at;
            for (uint32_t j = 0; want == bad; j++) want = ldri_plan_replacement(&plan, 0, at, j);
            assert_int_equal(b->samples_host[i], want);
            assert_int_equal(b->labels[i], ldr_sample_label(ld, want));
            assert_int_equal(b->ok_host[i], 1);
        }
        ldr_release(ld, b, NULL);
    }
    assert_int_equal(s, LDR_END);
    assert_int_equal(at, GOOD + 1);
    ldr_bad list[4];
    assert_int_equal(ldr_bad_samples(ld, list, 4), 1);
    assert_int_equal(list[0].sample, bad);
    assert_int_equal(list[0].cause, cause);
    assert_true(list[0].message[0] != 0);
    ldr_stats st = {.size = sizeof st};
    ldr_stats_get(ld, &st);
    assert_true(st.skipped[cause] >= 1);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static void stopped(const char *root, uint64_t bad)
{
    ldr_options o;
    options(&o, root, LDR_BAD_STOP);
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    uint64_t batches = 0;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, 5000, &b)) == LDR_OK) {
        batches++;
        ldr_release(ld, b, NULL);
    }
    assert_int_equal(batches, bad / BATCH); /* those before it are delivered */
    assert_true(s < 0);
    assert_int_equal(ldr_next(ld, NULL, 5000, &b), s);
    ldr_error err;
    ldr_last_error(ld, &err);
    assert_int_equal(err.status, s);
    assert_int_equal(err.sample, bad);
    assert_non_null(strstr(err.message, ldr_sample_name(ld, bad)));
    assert_null(strchr(err.message, '\n'));
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static void marked(const char *root, uint64_t bad)
{
    ldr_options o;
    options(&o, root, LDR_BAD_MARK);
    o.dtype = LDR_U8;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    uint64_t at = 0;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, 5000, &b)) == LDR_OK) {
        for (uint32_t i = 0; i < b->count; i++, at++) {
            assert_int_equal(b->samples_host[i], at);
            assert_int_equal(b->labels[i], ldr_sample_label(ld, at));
            assert_int_equal(b->ok_host[i], at != bad);
            assert_int_equal(all_black(b, i), at == bad);
        }
        ldr_release(ld, b, NULL);
    }
    assert_int_equal(s, LDR_END);
    assert_int_equal(at, GOOD + 1);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static void each_kind_first_and_last_under_each_policy(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < helper_n_bad_kinds; k++) {
        for (int last = 0; last < 2; last++) {
            const char *kind = helper_bad_kinds[k];
            print_message("%s, %s in the list\n", kind, last ? "last" : "first");
            char *root = tree_with(kind, last);
            uint64_t bad = last ? GOOD : 0;
            replaced(root, bad, cause_of(kind));
            stopped(root, bad);
            marked(root, bad);
            helper_remove_tree(root);
            free(root);
        }
    }
}

static void a_source_of_bad_files_fails_with_the_first_cause(void **unused)
{
    (void)unused;
    char *root = helper_temp_dir();
    for (size_t k = 0; k < helper_n_bad_kinds; k++) {
        char name[40];
        snprintf(name, sizeof name, "c/%zu.jpg", k);
        helper_bad_file(root, name, helper_bad_kinds[k]);
    }
    ldr_options o;
    options(&o, root, LDR_BAD_REPLACE);
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    ldr_status s = ldr_next(ld, NULL, 5000, &b);
    assert_true(s < 0);
    ldr_error err;
    ldr_last_error(ld, &err);
    assert_int_equal(err.sample, 0); /* the first place's own sample */
    assert_non_null(strstr(err.message, "c/0.jpg"));
    assert_non_null(strstr(err.message, "empty"));
    assert_int_equal(ldr_close(&ld), LDR_OK);

    o.on_bad = LDR_BAD_MARK;
    ld = open_or_fail(&o);
    uint64_t images = 0;
    while ((s = ldr_next(ld, NULL, 5000, &b)) == LDR_OK) {
        for (uint32_t i = 0; i < b->count; i++) assert_int_equal(b->ok_host[i], 0);
        images += b->count;
        ldr_release(ld, b, NULL);
    }
    assert_int_equal(s, LDR_END);
    assert_int_equal(images, helper_n_bad_kinds);
    assert_int_equal(ldr_bad_samples(ld, NULL, 0), helper_n_bad_kinds);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    helper_remove_tree(root);
    free(root);
}

static void replacement_is_the_same_for_any_threads_and_memory(void **unused)
{
    (void)unused;
    char *root = helper_tree(2, 12);
    for (size_t k = 0; k < helper_n_bad_kinds; k++) {
        char name[40];
        snprintf(name, sizeof name, "c%02zu/b%zu.jpg", k % 2, k);
        helper_bad_file(root, name, helper_bad_kinds[k]);
    }
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 40);
    o.source = root;
    o.batch = 6;
    o.epochs = 3;
    o.threads = 1;
    uint64_t want = helper_run_digest(&o);
    o.threads = 8;
    assert_int_equal(helper_run_digest(&o), want);
    o.pinned_limit = 4 * (6 * (ldri_pitch(40) * 40 + 450)) + 4096;
    assert_int_equal(helper_run_digest(&o), want);
    helper_remove_tree(root);
    free(root);
}

static void a_file_that_vanishes_is_missing(void **unused)
{
    (void)unused;
    char *root = helper_tree(1, 6);
    ldr_options o;
    options(&o, root, LDR_BAD_MARK);
    o.depth = 1;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    assert_int_equal(ldr_next(ld, NULL, 5000, &b), LDR_OK);
    char path[4096]; /* of the second batch, which waits for the only output */
    snprintf(path, sizeof path, "%s/%s", root, ldr_sample_name(ld, 5));
    assert_int_equal(unlink(path), 0);
    ldr_release(ld, b, NULL);
    assert_int_equal(ldr_next(ld, NULL, 5000, &b), LDR_OK);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->ok_host[0], 1);
    assert_int_equal(b->ok_host[1], 0);
    ldr_release(ld, b, NULL);
    ldr_bad bad;
    assert_int_equal(ldr_bad_samples(ld, &bad, 1), 1);
    assert_int_equal(bad.cause, LDR_CAUSE_MISSING);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    helper_remove_tree(root);
    free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_first_and_last_under_each_policy),
        cmocka_unit_test(a_source_of_bad_files_fails_with_the_first_cause),
        cmocka_unit_test(replacement_is_the_same_for_any_threads_and_memory),
        cmocka_unit_test(a_file_that_vanishes_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
