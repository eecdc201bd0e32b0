/* What the loader may cost: hand-over time, allocations, threads, and CPU time while the consumer
 * holds everything. */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "loader/queue.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static char *tree;

/* --- a malloc counter: calls made by our own code, not by libjpeg, libpng or zlib ----------------
 */

#if !SANITIZED
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static _Atomic int counting;
static _Atomic long own_calls;
static void *_Atomic own_caller;
static uintptr_t text_start, text_end; /* of this program, the static library in it */

static void count(void *caller)
{
    if (!counting || (uintptr_t)caller < text_start || (uintptr_t)caller >= text_end) return;
    own_calls++;
    own_caller = caller;
}
void *malloc(size_t n)
{
    count(__builtin_return_address(0));
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t m)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t a, size_t n)
{
    count(__builtin_return_address(0));
    return __libc_memalign(a, n);
}
#endif

static void options(ldr_options *o)
{
    ldr_options_init(o);
    ldr_options_train(o, 64);
    o->source = tree;
    o->batch = 16;
    o->threads = 2;
    o->epochs = 0;
}

static ldr *open_or_fail(const ldr_options *o)
{
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, o, &err) < 0) fail_msg("%s", err.message);
    return ld;
}

static void take(ldr *ld, int batches)
{
    const ldr_batch *b;
    while (batches > 0) {
        ldr_status s = ldr_next(ld, NULL, -1, &b);
        assert_true(s == LDR_OK || s == LDR_END);
        if (s == LDR_END) continue;
        assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
        batches--;
    }
}

static void nothing_is_allocated_per_batch(void **unused)
{
    (void)unused;
#if SANITIZED
    skip();
#else
    extern char __executable_start, etext;
    text_start = (uintptr_t)&__executable_start;
    text_end = (uintptr_t)&etext;
    own_calls = 0;
    counting = 1;
    ldr_options o;
    options(&o);
    ldr *ld = open_or_fail(&o);
    assert_true(own_calls > 10); /* the counter sees ldr_open */
    take(ld, 100);               /* buffers have grown to the largest picture */
    own_calls = 0;
    take(ld, 300);
    long calls = own_calls;
    counting = 0;
    if (calls) fail_msg("%ld allocations in 300 batches, the last from %p", calls, own_caller);
    assert_int_equal(ldr_close(&ld), LDR_OK);
#endif
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Time of next + release with a batch ready, in ns: the median, and the lowest tenth. */
static uint64_t time_handover(ldr *ld, uint64_t *tenth)
{
    enum { ROUNDS = 60 };
    static uint64_t ns[ROUNDS];
    const ldr_batch *b;
    struct timespec pause = {0, 5000000};
    for (int n = 0; n < ROUNDS;) {
        nanosleep(&pause, NULL);
        uint64_t start = ldri_now_ns();
        ldr_status s = ldr_next(ld, NULL, 0, &b); /* only a batch that is ready counts */
        if (s == LDR_OK) ldr_release(ld, b, NULL);
        ns[n] = ldri_now_ns() - start;
        n += s == LDR_OK;
    }
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    print_message("next + release: median %.2f us, 90 %% %.2f us\n", ns[ROUNDS / 2] * 1e-3,
                  ns[ROUNDS * 9 / 10] * 1e-3);
    *tenth = ns[ROUNDS / 10];
    return ns[ROUNDS / 2];
}

static void a_ready_batch_is_handed_over_in_microseconds(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.depth = 8;
    ldr *ld = open_or_fail(&o);
    take(ld, 10);
    /* 10 us is the promise, on a machine that is not busy with something else: waking the staging
     * thread is a system call whose time others decide.  What is asserted is a promise kept by the
     * fastest tenth, with room: it catches a wait, a copy or an allocation, which all would pay. */
    uint64_t promised = SANITIZED ? 200000 : 10000, median = UINT64_MAX, tenth = UINT64_MAX;
    for (int i = 0; i < 5 && median > promised; i++) {
        uint64_t low, ns = time_handover(ld, &low);
        if (ns < median) median = ns;
        if (low < tenth) tenth = low;
    }
    if (median > promised) print_message("above the promised %.0f us\n", promised * 1e-3);
    assert_true(tenth <= 5 * promised);
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void an_idle_loader_sleeps(void **unused)
{
    (void)unused;
    ldr_options o;
    options(&o);
    o.threads = 4;
    ldr *ld = open_or_fail(&o);
    const ldr_batch *b[4];
    for (int i = 0; i < 4; i++) {
        ldr_status s;
        while ((s = ldr_next(ld, NULL, -1, &b[i])) == LDR_END) continue;
        assert_int_equal(s, LDR_OK);
    }
    struct timespec settle = {0, 300000000}, second = {1, 0};
    nanosleep(&settle, NULL);
    double before = cpu_seconds();
    nanosleep(&second, NULL);
    double used = cpu_seconds() - before;
    print_message("CPU time in one second with every batch held: %.3f ms\n", used * 1e3);
    assert_true(used < 0.01);
    for (int i = 0; i < 4; i++) ldr_release(ld, b[i], NULL);
    take(ld, 8); /* and it wakes up again */
    assert_int_equal(ldr_close(&ld), LDR_OK);
}

static int count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void threads_are_as_configured_and_affinity_is_left_alone(void **unused)
{
    (void)unused;
    cpu_set_t before, after;
    int nice_before = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int others = count_threads(); /* this one, and a sanitizer's */
    ldr_options o;
    options(&o);
    o.threads = 3;
    ldr *ld = open_or_fail(&o);
    take(ld, 5);
    assert_int_equal(count_threads() - others, 3 + 1); /* workers and the staging thread */
    take(ld, 50);                                      /* several epochs */
    assert_int_equal(count_threads() - others, 3 + 1);
    assert_int_equal(ldr_close(&ld), LDR_OK);

    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    o.threads = 0; /* as many as may be used: one */
    ld = open_or_fail(&o);
    ldr_stats st = {.size = sizeof st};
    assert_int_equal(ldr_stats_get(ld, &st), LDR_OK);
    assert_int_equal(st.threads, 1);
    assert_int_equal(count_threads() - others, 1 + 1);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&one, &after));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), nice_before); /* only our own threads are nice */
}

#if !SANITIZED
static size_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t total, resident;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &total, &resident), 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#endif

static void memory_stays_where_it_is(void **unused)
{
    (void)unused;
#if SANITIZED
    skip();
#else
    char *root = helper_tree(2, 30);
    for (int k = 0; k < 20; k++) {
        char name[40];
        snprintf(name, sizeof name, "c%02d/b%d.jpg", k % 2, k);
        helper_bad_file(root, name, helper_bad_kinds[(size_t)k % helper_n_bad_kinds]);
    }
    ldr_options o;
    options(&o);
    o.source = root;
    o.epochs = 52;
    ldr *ld = open_or_fail(&o);
    size_t base = 0, base_resident = 0;
    const ldr_batch *b;
    for (int epoch = 0; epoch < 52; epoch++) {
        ldr_status s;
        while ((s = ldr_next(ld, NULL, -1, &b)) == LDR_OK) ldr_release(ld, b, NULL);
        assert_int_equal(s, LDR_END);
        if (epoch == 3) {
            base = mallinfo2().uordblks;
            base_resident = resident_bytes();
        }
    }
    size_t end_resident = resident_bytes();
    size_t end = mallinfo2().uordblks;
    ldr_stats st = {.size = sizeof st};
    ldr_stats_get(ld, &st);
    uint64_t bad = 0;
    for (int i = 0; i < 16; i++) bad += st.skipped[i];
    print_message("%llu bad samples, heap grew by %lld bytes, resident memory by %lld\n",
                  (unsigned long long)bad, (long long)end - (long long)base,
                  (long long)end_resident - (long long)base_resident);
    assert_true(bad >= 1000);
    assert_true(end <= base + 65536);
    assert_true(end_resident <= base_resident + (4 << 20));
    assert_int_equal(ldr_close(&ld), LDR_OK);
    helper_remove_tree(root);
    free(root);
#endif
}

int main(void)
{
    tree = helper_tree(3, 16);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_per_batch),
        cmocka_unit_test(a_ready_batch_is_handed_over_in_microseconds),
        cmocka_unit_test(an_idle_loader_sleeps),
        cmocka_unit_test(threads_are_as_configured_and_affinity_is_left_alone),
        cmocka_unit_test(memory_stays_where_it_is),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_remove_tree(tree);
    free(tree);
    return failed;
}
