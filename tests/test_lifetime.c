/* Every way to stop: close, early break, abort, retire, fork; from other threads and at exit.  No
 * hang, leak or race. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

static char *tree;

static void options(ldr_options *o)
{
    ldr_options_init(o);
    ldr_options_train(o, 32);
    o->source = tree;
    o->batch = 4;
    o->threads = 2;
    o->depth = 3;
    o->epochs = 0;
}

static ldr *open_or_die(void)
{
    ldr_options o;
    options(&o);
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) {
        print_message("%s\n", err.message);
        abort();
    }
    return ld;
}

static int rounds(int n)
{
    const char *s = getenv("LIFETIME_ROUNDS");
    return s ? atoi(s) : n;
}

static void a_thousand_early_stops(void **unused)
{
    (void)unused;
    for (int round = 0; round < rounds(1000); round++) {
        ldr *ld = open_or_die();
        const ldr_batch *b;
        for (int k = 0; k < round % 4; k++) {
            ldr_status s = ldr_next(ld, NULL, -1, &b);
            if (s == LDR_OK) assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        }
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

static void *wait_for_batches(void *arg)
{
    ldr *ld = arg;
    const ldr_batch *b;
    ldr_status s;
    while ((s = ldr_next(ld, NULL, -1, &b)) >= 0) {
        if (s == LDR_OK && ldr_release(ld, b, NULL) < 0) abort();
    }
    return (void *)(intptr_t)s;
}

static void abort_ends_blocked_calls(void **unused)
{
    (void)unused;
    for (int round = 0; round < rounds(100); round++) {
        ldr *ld = open_or_die();
        pthread_t t[3];
        for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, wait_for_batches, ld);
        if (round % 2) {
            struct timespec ms = {0, (round % 5) * 1000000};
            nanosleep(&ms, NULL);
        }
        ldr_abort(ld);
        for (int i = 0; i < 3; i++) {
            void *result;
            pthread_join(t[i], &result);
            assert_int_equal((intptr_t)result, LDR_E_ABORTED);
        }
        const ldr_batch *b;
        assert_int_equal(ldr_next(ld, NULL, 0, &b), LDR_E_ABORTED);
        ldr_error err;
        ldr_last_error(ld, &err);
        assert_int_equal(err.status, LDR_E_ABORTED);
        ldr_abort(ld);
        assert_int_equal(ldr_close(&ld), LDR_OK);
    }
}

static void *abort_it(void *arg)
{
    ldr_abort(arg);
    return NULL;
}

/* The consumer that sees the abort closes at once, while ldr_abort may still be inside. */
static void the_aborted_consumer_closes_by_itself(void **unused)
{
    (void)unused;
    for (int round = 0; round < rounds(300); round++) {
        ldr *ld = open_or_die();
        pthread_t t;
        ldr_error err;
        const ldr_batch *b;
        ldr_status s;
        pthread_create(&t, NULL, abort_it, ld);
        while ((s = ldr_next(ld, NULL, -1, &b)) >= 0) {
            if (s == LDR_OK) assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        }
        assert_int_equal(s, LDR_E_ABORTED);
        ldr_last_error(ld, &err);
        assert_int_equal(ldr_close(&ld), LDR_OK);
        pthread_join(t, NULL);
    }
}

static void abort_leaves_held_batches_readable(void **unused)
{
    (void)unused;
    ldr *ld = open_or_die();
    const ldr_batch *b;
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    uint64_t digest = helper_batch_digest(b);
    ldr_abort(ld);
    assert_int_equal(ldr_close(&ld), LDR_BUSY);
    assert_int_equal(helper_batch_digest(b), digest);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

typedef struct late_release {
    ldr *ld;
    const ldr_batch *b;
} late_release;

static void *release_one(void *arg)
{
    late_release *r = arg;
    if (ldr_release(r->ld, r->b, NULL) != LDR_OK) abort();
    return NULL;
}

static void the_last_release_frees_a_retired_loader(void **unused)
{
    (void)unused;
    for (int round = 0; round < rounds(100); round++) {
        ldr *ld = open_or_die();
        enum { HELD = 3 };
        late_release r[HELD];
        pthread_t t[HELD];
        int held = round % (HELD + 1);
        for (int i = 0; i < held; i++) {
            r[i].ld = ld;
            ldr_status s;
            while ((s = ldr_next(ld, NULL, -1, &r[i].b)) == LDR_END) continue;
            assert_int_equal(s, LDR_OK);
        }
        ldr_retire(ld);
        for (int i = 0; i < held; i++) pthread_create(&t[i], NULL, release_one, &r[i]);
        for (int i = 0; i < held; i++) pthread_join(t[i], NULL);
    }
    ldr_retire(NULL);
}

static void *close_it(void *arg)
{
    ldr *ld = arg;
    return (void *)(intptr_t)ldr_close(&ld);
}

static void close_from_another_thread(void **unused)
{
    (void)unused;
    for (int round = 0; round < rounds(50); round++) {
        pthread_t t;
        void *result;
        pthread_create(&t, NULL, close_it, open_or_die());
        pthread_join(t, &result);
        assert_int_equal((intptr_t)result, LDR_OK);
    }
}

static int exit_status(pid_t child) /* of a child that must end by itself within 20 s */
{
    for (int i = 0; i < 20000; i++) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return -1000;
}

static ldr *global;
static void close_global(void)
{
    if (ldr_close(&global) != LDR_OK) _exit(3);
}

static void close_at_exit(void **unused)
{
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        global = open_or_die();
        const ldr_batch *b;
        if (ldr_next(global, NULL, -1, &b) != LDR_OK) _exit(4);
        ldr_release(global, b, NULL);
        atexit(close_global);
        exit(0);
    }
    assert_int_equal(exit_status(child), 0);
}

/* A child of fork has no threads of ours: it gets an error at once, and the parent does not notice.
 */
static void a_forked_child_is_refused(void **unused)
{
    (void)unused;
    ldr *ld = open_or_die();
    const ldr_batch *b, *mine;
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    pid_t child = fork();
    if (child == 0) {
        ldr_stats st = {.size = sizeof st};
        ldr_error err;
        ldr_last_error(ld, &err);
        int ok = ldr_next(ld, NULL, -1, &mine) == LDR_E_FORKED &&
                 ldr_release(ld, b, NULL) == LDR_E_FORKED && ldr_length(ld) == 0 &&
                 ldr_class_name(ld, 0) == NULL && ldr_stats_get(ld, &st) == LDR_E_FORKED &&
                 err.status == LDR_E_FORKED && strstr(err.message, "fork") != NULL;
        ldr_abort(ld);
        ok = ok && ldr_close(&ld) == LDR_E_FORKED && ld == NULL;
#if !defined(__SANITIZE_THREAD__) /* it refuses threads in a forked child */
        /* A loader of its own works. */
        ldr *own = open_or_die();
        ok = ok && ldr_next(own, NULL, -1, &mine) == LDR_OK &&
             mine->samples_host[0] == b->samples_host[0];
        ok = ok && ldr_release(own, mine, NULL) == LDR_OK && ldr_close(&own) == LDR_OK;
#endif
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(exit_status(child), 0);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

int main(void)
{
    tree = helper_tree(2, 6);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_early_stops),
        cmocka_unit_test(abort_ends_blocked_calls),
        cmocka_unit_test(the_aborted_consumer_closes_by_itself),
        cmocka_unit_test(abort_leaves_held_batches_readable),
        cmocka_unit_test(the_last_release_frees_a_retired_loader),
        cmocka_unit_test(close_from_another_thread),
        cmocka_unit_test(close_at_exit),
        cmocka_unit_test(a_forked_child_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_remove_tree(tree);
    free(tree);
    return failed;
}
