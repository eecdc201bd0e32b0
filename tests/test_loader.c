/* Contents and order: the same bytes whatever the threads, depth and memory, and the rules of
 * ldr_next. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/queue.h"
#include "loader/descriptor.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

static char *tree; /* 4 classes of 11 pictures */
enum { N = 44 };

static void options(ldr_options *o)
{
    ldr_options_init(o);
    ldr_options_train(o, 48);
    o->source = tree;
    o->batch = 8;
    o->threads = 2;
    o->seed = 7;
}

static ldr *open_or_fail(const ldr_options *o)
{
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, o, &err) < 0) fail_msg("%s", err.message);
    return ld;
}

static void same_bytes_for_any_threads_depth_and_memory(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.epochs = 2;
    uint64_t want = helper_run_digest(&o);
    static const uint32_t threads[] = {1, 2, 7, 32}, depths[] = {1, 2, 9};
    for (size_t i = 0; i < 4; i++) {
        o.threads = threads[i];
        assert_int_equal(helper_run_digest(&o), want);
    }
    o.threads = 3;
    for (size_t i = 0; i < 3; i++) {
        o.depth = depths[i];
        assert_int_equal(helper_run_digest(&o), want);
    }
    /* So little memory that nearly every crop is resampled by its worker. */
    o.depth = 2;
    o.pinned_limit = 2 * (8 * (ldri_pitch(48) * 48 + 450)) + 4096;
    assert_int_equal(helper_run_digest(&o), want);
    o.pinned_limit = 0;
    o.seed = 8;
    assert_int_not_equal(helper_run_digest(&o), want);
    o.seed = 7;
    o.first_epoch = 1;
    assert_int_not_equal(helper_run_digest(&o), want);
}

static void every_type_and_view_is_the_same_with_overflow(void **unused)
{
    (void)unused;
    ldr_options o;
    for (int view = 0; view < 3; view++) {
        for (int dtype = 0; dtype < 4; dtype++) {
            options(&o);
            o.view = (ldr_view)view;
            o.dtype = (ldr_dtype)dtype;
            o.layout = (ldr_layout)(dtype & 1);
            o.filter = LDR_RANDOM_FILTER;
            o.vflip = 0.5f;
            uint64_t want = helper_run_digest(&o);
            o.pinned_limit = 4 * (8 * (ldri_pitch(48) * 48 + 450)) + 4096;
            o.threads = 5;
            assert_int_equal(helper_run_digest(&o), want);
        }
    }
}

static void too_little_memory_is_refused_with_the_size_that_does(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.pinned_limit = 1000;
    ldr *ld = NULL;
    ldr_error err;
    assert_int_equal(ldr_open(&ld, &o, &err), LDR_E_LIMIT);
    assert_null(ld);
    const char *takes = strstr(err.message, "takes ");
    assert_non_null(takes);
    o.pinned_limit = strtoul(takes + 6, NULL, 10);
    ld = open_or_fail(&o);
    ldr_stats st = {.size = sizeof st};
    assert_int_equal(ldr_stats_get(ld, &st), LDR_OK);
    assert_true(st.pinned_bytes <= o.pinned_limit);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    o.pinned_limit--;
    assert_int_equal(ldr_open(&ld, &o, &err), LDR_E_LIMIT);
}

static void an_epoch_holds_every_sample_once_with_its_label(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.epochs = 3;
    ldr *ld = open_or_fail(&o);
    assert_int_equal(ldr_sample_count(ld), N);
    assert_int_equal(ldr_class_count(ld), 4);
    assert_string_equal(ldr_class_name(ld, 2), "c02");
    assert_null(ldr_class_name(ld, 4));
    assert_null(ldr_sample_name(ld, N));
    assert_int_equal(ldr_sample_label(ld, N), -1);
    const ldr_batch *b;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen[N] = {0};
        ldr_status s;
        uint64_t index = 0;
        while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) {
            assert_int_equal(b->epoch, epoch);
            assert_int_equal(b->index, index);
            assert_int_equal(b->count, index == 5 ? 4 : 8);
            assert_int_equal(b->padded, 0);
            assert_int_equal((uintptr_t)b->images % 64, 0);
            for (uint32_t i = 0; i < b->count; i++) {
                uint64_t sample = b->samples_host[i];
                assert_true(sample < N);
                seen[sample]++;
                assert_int_equal(b->labels[i], sample / 11);
                assert_int_equal(b->labels_host[i], ldr_sample_label(ld, sample));
                assert_int_equal(b->ok_host[i], 1);
            }
            index++;
            assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        }
        assert_int_equal(s, LDR_END);
        assert_int_equal(index, ldr_length(ld));
        for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_END);
    ldr_stats st = {.size = sizeof st};
    assert_int_equal(ldr_stats_get(ld, &st), LDR_OK);
    assert_int_equal(st.images, 3 * N);
    assert_int_equal(st.batches, 18);
    assert_int_equal(st.decode.items, 3 * N);
    assert_int_equal(st.augment.items, 3 * N);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    assert_null(ld);
}

static void short_tail_is_dropped_or_kept(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.keep_last = 0;
    ldr *ld = open_or_fail(&o);
    assert_int_equal(ldr_length(ld), 5);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    o.batch = 45;
    ldr_error err;
    assert_int_equal(ldr_open(&ld, &o, &err), LDR_E_INVALID);
    o.keep_last = 1;
    ld = open_or_fail(&o);
    assert_int_equal(ldr_length(ld), 1);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static void ranks_share_an_epoch_and_pad_at_the_end(void **unused)
{
    (void)unused;
    int seen[N] = {0};
    uint32_t padded = 0;
    for (int rank = 0; rank < 5; rank++) { /* 44 = 5 x 9 - 1: one repeat, of the last rank */
        ldr_options o;
        options(&o);
        o.rank = rank;
        o.world = 5;
        o.batch = 4;
        ldr *ld = open_or_fail(&o);
        assert_int_equal(ldr_length(ld), 3);
        const ldr_batch *b;
        while (ldr_next(ld, NULL, -1, &b) == LDR_OK) {
            for (uint32_t i = 0; i < b->count - b->padded; i++) seen[b->samples_host[i]]++;
            padded += b->padded;
            assert_true(b->padded == 0 || (rank == 4 && b->index == 2));
            ldr_release(ld, b, NULL);
        }
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
    assert_int_equal(padded, 1);
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
}

static void all_batches_held_is_busy_at_once(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.depth = 3;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b[3], *more;
    for (int i = 0; i < 3; i++) assert_int_equal(ldr_next(ld, NULL, -1, &b[i]), LDR_OK);
    uint64_t digest = helper_batch_digest(b[1]);
    assert_int_equal(ldr_next(ld, NULL, -1, &more), LDR_BUSY);
    assert_int_equal(ldr_close(&ld), LDR_BUSY);
    assert_non_null(ld);
    /* Any order; the batch that is still held keeps its bytes while others are made. */
    assert_int_equal(ldr_release(ld, b[2], NULL), LDR_OK);
    assert_int_equal(ldr_next(ld, NULL, -1, &more), LDR_OK);
    assert_int_equal(more->index, 3);
    assert_int_equal(ldr_release(ld, more, NULL), LDR_OK);
    assert_int_equal(ldr_release(ld, b[0], NULL), LDR_OK);
    assert_int_equal(ldr_next(ld, NULL, -1, &more), LDR_OK);
    assert_int_equal(helper_batch_digest(b[1]), digest);
    assert_int_equal(ldr_release(ld, more, NULL), LDR_OK);
    assert_int_equal(ldr_release(ld, b[1], NULL), LDR_OK);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

/* A source of exactly as many batches as may be held: the end is known with the last of them. */
static void the_end_is_told_while_all_are_held(void **unused)
{
    (void)unused;
    for (int round = 0; round < 50; round++) {
        ldr_options o;
        options(&o);
        o.batch = 11;
        o.depth = 4;
        ldr *ld = open_or_fail(&o);
        const ldr_batch *b[4], *more;
        for (int i = 0; i < 4; i++) assert_int_equal(ldr_next(ld, NULL, -1, &b[i]), LDR_OK);
        assert_int_equal(ldr_next(ld, NULL, -1, &more), LDR_END);
        for (int i = 0; i < 4; i++) assert_int_equal(ldr_release(ld, b[i], NULL), LDR_OK);
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

static void a_second_release_is_noticed(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.depth = 1;
    o.epochs = 0;
    o.batch = 1;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b, *later;
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_E_STATE);
    /* The same memory, handed over again: the old pointer is still refused. */
    for (int i = 0; i < 63; i++) {
        ldr_status s;
        while ((s = ldr_next(ld, NULL, -1, &later)) == LDR_END) continue;
        assert_int_equal(s, LDR_OK);
        assert_ptr_equal(later->images, b->images);
        assert_int_equal(ldr_release(ld, b, NULL), LDR_E_STATE);
        assert_int_equal(ldr_release(ld, later, NULL), LDR_OK);
    }
    ldr_batch own = *later;
    assert_int_equal(ldr_release(ld, &own, NULL), LDR_E_STATE);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    assert_int_equal(ldr_close(NULL), LDR_OK);
}

static void timeout_is_kept(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.batch = N;
    o.height = o.width = 256;
    o.epochs = 0; /* endless */
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b;
    int timeouts = 0;
    for (int i = 0; i < 200 && timeouts < 3; i++) {
        ldr_status s = ldr_next(ld, NULL, i % 2, &b);
        assert_true(s == LDR_OK || s == LDR_TIMEOUT || s == LDR_END);
        if (s == LDR_OK) ldr_release(ld, b, NULL);
        timeouts += s == LDR_TIMEOUT;
    }
    assert_true(timeouts > 0);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

typedef struct consumer {
    ldr *ld;
    _Atomic int *seen;
    _Atomic int ends;
} consumer;

static void *consume(void *arg)
{
    consumer *c = arg;
    const ldr_batch *b;
    int last = 0;
    for (;;) {
        ldr_status s = ldr_next(c->ld, NULL, -1, &b);
        if (s == LDR_BUSY) continue; /* the other threads have all of them */
        if (s == LDR_END) {
            c->ends++;
            if (last++) return NULL; /* twice in a row: the last epoch is over */
            continue;
        }
        if (s != LDR_OK) abort();
        last = 0;
        for (uint32_t i = 0; i < b->count; i++) c->seen[b->samples_host[i]]++;
        if (ldr_release(c->ld, b, NULL) != LDR_OK) abort();
    }
}

static void several_consumers_share_the_batches(void **unused)
{
    (void)unused;
    for (int round = 0; round < 20; round++) {
        ldr_options o;
        options(&o);
        o.batch = 4;
        o.depth = 2;
        ldr *ld = open_or_fail(&o);
        _Atomic int seen[N] = {0};
        consumer c = {ld, seen, 0};
        pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, consume, &c);
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

static void errors_of_the_caller_are_statuses(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    ldr_error err;
    ldr *ld = NULL;
    const ldr_batch *b;
    assert_int_equal(ldr_open(NULL, &o, &err), LDR_E_INVALID);
    assert_int_equal(ldr_open(&ld, NULL, &err), LDR_E_INVALID);
    assert_int_equal(ldr_next(NULL, NULL, 0, &b), LDR_E_INVALID);
    assert_int_equal(ldr_release(NULL, NULL, NULL), LDR_E_INVALID);
    o.source = "no/such/place";
    assert_int_equal(ldr_open(&ld, &o, NULL), LDR_E_IO);
    assert_int_equal(ldr_open(&ld, &o, &err), LDR_E_IO);
    assert_non_null(strstr(err.message, "no/such/place"));
    assert_null(strchr(err.message, '\n'));
    assert_null(ld);
    ldr_stats st = {.size = 3};
    o.source = tree;
    ld = open_or_fail(&o);
    assert_int_equal(ldr_stats_get(ld, &st), LDR_E_INVALID);
    ldr_last_error(ld, &err);
    assert_int_equal(err.status, LDR_OK);
    assert_string_equal(err.message, "");
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

int main(void)
{
    tree = helper_tree(4, 11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_for_any_threads_depth_and_memory),
        cmocka_unit_test(every_type_and_view_is_the_same_with_overflow),
        cmocka_unit_test(too_little_memory_is_refused_with_the_size_that_does),
        cmocka_unit_test(an_epoch_holds_every_sample_once_with_its_label),
        cmocka_unit_test(short_tail_is_dropped_or_kept),
        cmocka_unit_test(ranks_share_an_epoch_and_pad_at_the_end),
        cmocka_unit_test(all_batches_held_is_busy_at_once),
        cmocka_unit_test(the_end_is_told_while_all_are_held),
        cmocka_unit_test(a_second_release_is_noticed),
        cmocka_unit_test(timeout_is_kept),
        cmocka_unit_test(several_consumers_share_the_batches),
        cmocka_unit_test(errors_of_the_caller_are_statuses),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_remove_tree(tree);
    free(tree);
    return failed;
}
