/* decode_limit: never more than the limit in use, turns in order, nobody starves, nothing is judged
 * by timing. */
#include "loader/budget.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loader/loader.h"
#include "loader/descriptor.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

enum { LIMIT = 1000, THREADS = 8 };

static _Atomic int stop;
static ldri_budget budget;
static _Atomic long in_use, most, takes;

static void note(long change)
{
    long now = atomic_fetch_add(&in_use, change) + change;
    for (long m = most; now > m && !atomic_compare_exchange_weak(&most, &m, now);) continue;
}

static void *taker(void *arg)
{
    uint64_t state = (uint64_t)(uintptr_t)arg;
    ldri_hold h = {&budget, 0};
    for (int i = 0; i < 3000; i++) {
        uint32_t first = helper_below(&state, helper_below(&state, 8) ? 100 : LIMIT + 1);
        uint32_t more = first + helper_below(&state, LIMIT + 1 - first);
        if (!ldri_hold_set(&h, first)) abort();
        note(first);
        if (helper_below(&state, 2)) {
            if (ldri_hold_grow(&h, more)) {
                note((long)more - (long)first);
                first = more;
            } else { /* as a worker does: let go before waiting */
                note(-(long)first);
                if (!ldri_hold_set(&h, more)) abort();
                first = more;
                note(first);
            }
        }
        if (h.bytes != first) abort();
        sched_yield();
        note(-(long)first);
        ldri_hold_release(&h);
        takes++;
    }
    return NULL;
}

static void never_above_the_limit_and_no_deadlock(void **unused)
{
    (void)unused;
    stop = 0;
    in_use = most = takes = 0;
    assert_int_equal(ldri_budget_init(&budget, LIMIT, &stop), LDR_OK);
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, taker, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    assert_int_equal(takes, THREADS * 3000);
    assert_int_equal(budget.used, 0);
    assert_int_equal(budget.next_ticket, budget.serving);
    assert_true(most <= LIMIT);
    assert_true(most > LIMIT / 2);
    ldri_budget_destroy(&budget);
}

static _Atomic int served; /* order in which waiters got their turn */

typedef struct waiter {
    uint64_t bytes;
    int turn;
    _Atomic int result; /* -1 while it waits */
} waiter;

static void *wait_turn(void *arg)
{
    waiter *w = arg;
    ldri_hold h = {&budget, 0};
    int got = ldri_hold_set(&h, w->bytes);
    w->turn = served++;
    if (got) ldri_hold_release(&h);
    w->result = got;
    return NULL;
}

static void until_waiting(uint64_t n) /* n holders are waiting for their turn */
{
    for (;;) {
        pthread_mutex_lock(&budget.lock);
        uint64_t waiting = budget.next_ticket - budget.serving;
        pthread_mutex_unlock(&budget.lock);
        if (waiting == n) return;
        sched_yield();
    }
}

static void small_ones_do_not_overtake_a_large_one(void **unused)
{
    (void)unused;
    stop = 0;
    served = 0;
    assert_int_equal(ldri_budget_init(&budget, LIMIT, &stop), LDR_OK);
    ldri_hold mine = {&budget, 0};
    assert_true(ldri_hold_set(&mine, 600));
    waiter large = {.bytes = LIMIT, .result = -1}, small = {.bytes = 10, .result = -1};
    pthread_t a, b;
    pthread_create(&a, NULL, wait_turn, &large);
    until_waiting(1);
    pthread_create(&b, NULL, wait_turn, &small); /* it would fit, but it is not its turn */
    until_waiting(2);
    assert_false(ldri_hold_grow(&mine, 601)); /* nor is it that of who holds already */
    assert_true(ldri_hold_grow(&mine, 600));
    assert_int_equal(mine.bytes, 600);
    assert_int_equal(small.result, -1);
    ldri_hold_release(&mine);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(large.result, 1);
    assert_int_equal(small.result, 1);
    assert_true(large.turn < small.turn);
    ldri_budget_destroy(&budget);
}

static void stopping_ends_every_wait(void **unused)
{
    (void)unused;
    stop = 0;
    assert_int_equal(ldri_budget_init(&budget, LIMIT, &stop), LDR_OK);
    ldri_hold mine = {&budget, 0};
    assert_true(ldri_hold_set(&mine, LIMIT));
    waiter w[3];
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (waiter){.bytes = 5, .result = -1};
        pthread_create(&t[i], NULL, wait_turn, &w[i]);
    }
    until_waiting(3);
    atomic_store(&stop, 1);
    ldri_event_signal(&budget.event, UINT32_MAX);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(w[i].result, 0);
    }
    ldri_hold_release(&mine);
    ldri_budget_destroy(&budget);
}

static void put_picture(const char *root, const char *name, uint32_t w, uint32_t h, int progressive,
                        int png)
{
    uint8_t *rgb = helper_draw(HELPER_SMOOTH, w, h, w);
    size_t n;
    uint8_t *bytes;
    if (png) {
        helper_png o;
        helper_png_init(&o);
        o.interlaced = 1;
        bytes = helper_png_encode(rgb, w, h, &o, &n);
    } else {
        helper_jpeg o;
        helper_jpeg_init(&o);
        o.progressive = progressive;
        bytes = helper_jpeg_encode(rgb, w, h, &o, &n);
    }
    helper_write_file(root, name, bytes, n);
    free(bytes);
    free(rgb);
}

/* The same bytes whether pictures wait for each other or not; what needs more than the whole is
 * bad, always. */
static void the_limit_decides_what_is_bad_and_nothing_else(void **unused)
{
    (void)unused;
    char *root = helper_temp_dir();
    for (int i = 0; i < 12; i++) {
        char name[40];
        snprintf(name, sizeof name, "c/%02d.jpg", i);
        put_picture(root, name, 200 + 40 * (uint32_t)i, 300, i % 2, 0);
    }
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 64);
    o.source = root;
    o.batch = 4;
    o.threads = 6;
    o.epochs = 4;
    uint64_t want = helper_run_digest(&o);
    o.decode_limit = 2200000; /* the largest alone: 640 x 300 progressive */
    assert_int_equal(helper_run_digest(&o), want);
    o.pinned_limit =
        4 * (4 * (ldri_pitch(64) * 64 + 450)) + 4096; /* and every crop outside the arena */
    assert_int_equal(helper_run_digest(&o), want);
    o.decode_limit = 700000;
    o.on_bad = LDR_BAD_MARK;
    uint64_t some_bad = helper_run_digest(&o);
    assert_int_not_equal(some_bad, want);
    o.pinned_limit = 0;
    o.threads = 1;
    assert_int_equal(helper_run_digest(&o), some_bad);
    helper_remove_tree(root);
    free(root);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their own memory counts */
enum { PINNED = 64 << 20, DECODE = 512 << 20, ROOM = 64 << 20 };

static void load_under_caps(const char *root, uint32_t threads)
{
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_train(&o, 224);
    o.source = root;
    o.batch = 16;
    o.threads = threads;
    o.epochs = 1;
    o.pinned_limit = PINNED;
    o.decode_limit = DECODE;
    o.on_bad = LDR_BAD_STOP;
    ldr *ld;
    ldr_error err;
    const ldr_batch *b;
    if (ldr_open(&ld, &o, &err) < 0) _exit(2);
    ldr_stats st = {.size = sizeof st};
    if (ldr_stats_get(ld, &st) != LDR_OK || st.pinned_bytes > PINNED) _exit(3);
    uint64_t images = 0;
    for (int ends = 0; ends < 1;) {
        ldr_status s = ldr_next(ld, NULL, -1, &b);
        if (s < 0) {
            ldr_last_error(ld, &err);
            printf("%s\n", err.message);
            fflush(stdout);
            _exit(4);
        }
        ends += s == LDR_END;
        if (s != LDR_OK) continue;
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        images += b->count;
        ldr_release(ld, b, NULL);
    }
    _exit(images == 12 && ldr_close(&ld) == LDR_OK ? 0 : 5);
}
#endif

static void memory_stays_under_the_caps(void **unused)
{
    (void)unused;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#else
    char *root = helper_temp_dir();
    pid_t maker = fork(); /* so that what drawing takes is not inherited */
    if (maker == 0) {
        static const uint32_t sides[][2] = {{1000, 1000}, {2500, 1600}, {4000, 3000}, {7000, 5700}};
        for (int i = 0; i < 12; i++) {
            char name[40];
            snprintf(name, sizeof name, "c/%02d.%s", i, i % 3 == 2 ? "png" : "jpg");
            put_picture(root, name, sides[i / 3][0], sides[i / 3][1], i % 3 == 1, i % 3 == 2);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(maker, &status, 0), maker);
    assert_int_equal(status, 0);
    static const uint32_t threads[] = {3, 24};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) load_under_caps(root, threads[i]);
        struct rusage u;
        assert_int_equal(wait4(child, &status, 0, &u), child);
        print_message("%u threads: peak resident memory %ld MiB, allowed %d\n", threads[i],
                      u.ru_maxrss / 1024, (PINNED + DECODE + ROOM) >> 20);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_true(u.ru_maxrss / 1024 <= (PINNED + DECODE + ROOM) >> 20);
    }
    helper_remove_tree(root);
    free(root);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_above_the_limit_and_no_deadlock),
        cmocka_unit_test(small_ones_do_not_overtake_a_large_one),
        cmocka_unit_test(stopping_ends_every_wait),
        cmocka_unit_test(the_limit_decides_what_is_bad_and_nothing_else),
        cmocka_unit_test(memory_stays_under_the_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
