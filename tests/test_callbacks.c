/* The caller's callbacks: fetch in every way it can answer, and log lines. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loader/log.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

enum { N = 12 };

static char *tree, *list; /* the pictures, and a list of their names */
static const char *list_in_tree;

typedef struct storage {
    uint8_t *bytes[N];
    size_t n[N];
    int answer; /* what sample `odd` gets instead of its bytes */
    uint64_t odd;
    size_t say; /* *len on that answer */
    unsigned pause_ms;
    _Atomic int calls, retries;
} storage;

static int fetch(void *user, uint64_t sample, const char *name, void *buf, size_t *len)
{
    storage *s = user;
    s->calls++;
    if (strncmp(name, "c00/", 4) != 0) abort();
    if (sample == s->odd && s->pause_ms) {
        struct timespec t = {s->pause_ms / 1000, s->pause_ms % 1000 * 1000000l};
        nanosleep(&t, NULL);
    }
    if (sample == s->odd && s->answer != LDR_OK) {
        if (s->say) *len = s->say;
        return s->answer;
    }
    if (sample == s->odd && s->say) {
        *len = s->say == SIZE_MAX ? 0 : s->say;
        return LDR_OK;
    }
    if (s->n[sample] > *len) {
        s->retries++;
        *len = s->n[sample];
        return LDR_E_LIMIT;
    }
    memcpy(buf, s->bytes[sample], s->n[sample]);
    *len = s->n[sample];
    return LDR_OK;
}

static void fill(storage *s)
{
    memset(s, 0, sizeof *s);
    s->odd = UINT64_MAX;
    for (int i = 0; i < N; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/c00/%03d.%s", tree, i, i % 3 == 1 ? "png" : "jpg");
        s->bytes[i] = helper_read_file(path, &s->n[i]);
    }
}

static void drop(storage *s)
{
    for (int i = 0; i < N; i++) free(s->bytes[i]);
}

static void options(ldr_options *o, storage *s)
{
    ldr_options_init(o);
    ldr_options_train(o, 40);
    o->source = list;
    o->batch = 4;
    o->threads = 3;
    o->fetch = fetch;
    o->fetch_user = s;
}

static void fetched_bytes_give_the_files_batches(void **unused)
{
    (void)unused;
    storage s;
    fill(&s);
    ldr_options o;
    options(&o, &s);
    o.epochs = 3;
    uint64_t fetched = helper_run_digest(&o);
    assert_true(s.calls >= 3 * N);
    o.fetch = NULL;
    o.source = list_in_tree;
    assert_int_equal(helper_run_digest(&o), fetched);
    drop(&s);
}

static void a_large_sample_is_asked_for_again(void **unused)
{
    (void)unused;
    storage s;
    fill(&s);
    size_t n = s.n[0], large = 3 << 20; /* bytes after the end of a JPEG do not matter */
    s.bytes[0] = realloc(s.bytes[0], large);
    memset(s.bytes[0] + n, 0, large - n);
    s.n[0] = large;
    ldr_options o;
    options(&o, &s);
    o.threads = 1;
    uint64_t digest = helper_run_digest(&o);
    assert_int_equal(s.retries, 1);
    s.n[0] = n;
    assert_int_equal(helper_run_digest(&o), digest);
    drop(&s);
}

/* Runs until it ends or fails; how sample 5 ended. */
static ldr_status run(storage *s, ldr_on_bad policy, ldr_error *err, ldr_cause *cause)
{
    ldr_options o;
    options(&o, s);
    o.on_bad = policy;
    o.max_file = 8 << 20;
    ldr *ld = NULL;
    if (ldr_open(&ld, &o, err) < 0) fail_msg("%s", err->message);
    const ldr_batch *b;
    ldr_status st;
    while ((st = ldr_next(ld, NULL, 5000, &b)) == LDR_OK) ldr_release(ld, b, NULL);
    ldr_last_error(ld, err);
    ldr_bad bad = {.cause = LDR_CAUSE_NONE};
    ldr_bad_samples(ld, &bad, 1);
    *cause = bad.cause;
    assert_int_equal(ldr_close(&ld), LDR_OK);
    return st;
}

static void every_answer_is_an_item_or_an_error(void **unused)
{
    (void)unused;
    static const struct {
        int answer;
        size_t say;
        ldr_status status; /* of the run, policy replace */
        ldr_cause cause;
        const char *text;
    } cases[] = {
        {LDR_E_IO, 0, LDR_END, LDR_CAUSE_UNREADABLE, ""},
        {LDR_OK, SIZE_MAX, LDR_END, LDR_CAUSE_EMPTY, ""},
        {LDR_E_LIMIT, 9 << 20, LDR_END, LDR_CAUSE_LIMIT, ""},
        {LDR_OK, (size_t)1 << 40, LDR_E_CALLBACK, LDR_CAUSE_NONE, "more bytes than"},
        {LDR_E_LIMIT, 1, LDR_E_CALLBACK, LDR_CAUSE_NONE, "no more room"},
        {-77, 0, LDR_E_CALLBACK, LDR_CAUSE_NONE, "-77"},
        {42, 0, LDR_E_CALLBACK, LDR_CAUSE_NONE, "42"},
    };
    storage s;
    fill(&s);
    s.odd = 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.answer = cases[i].answer;
        s.say = cases[i].say;
        ldr_error err;
        ldr_cause cause;
        assert_int_equal(run(&s, LDR_BAD_REPLACE, &err, &cause), cases[i].status);
        assert_int_equal(cause, cases[i].cause);
        if (cases[i].status < 0) {
            assert_int_equal(err.detail, cases[i].answer);
            assert_int_equal(err.sample, 5);
            assert_non_null(strstr(err.message, "c00/005.jpg"));
            if (!strstr(err.message, cases[i].text)) fail_msg("%s", err.message);
        }
        ldr_status stopped = run(&s, LDR_BAD_STOP, &err, &cause);
        assert_true(stopped < 0);
        assert_int_equal(err.sample, 5);
    }
    drop(&s);
}

static _Atomic int warned;
static char warning[600];

static void sink(void *user, int level, const char *line)
{
    if (user != &warned) abort();
    if (level == LDR_LOG_WARN && strstr(line, "waited")) {
        snprintf(warning, sizeof warning, "%s", line);
        warned++;
    }
}

static void a_long_wait_is_reported_once(void **unused)
{
    (void)unused;
    storage s;
    fill(&s);
    s.odd = 5;
    s.pause_ms = 900;
    setenv("LDR_WATCHDOG", "0.2", 1);
    ldr_options o;
    options(&o, &s);
    o.log = sink;
    o.log_user = &warned;
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) fail_msg("%s", err.message);
    const ldr_batch *b;
    while (ldr_next(ld, NULL, -1, &b) == LDR_OK) ldr_release(ld, b, NULL);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    unsetenv("LDR_WATCHDOG");
    print_message("%s\n", warning);
    assert_int_equal(warned, 1);
    assert_non_null(strstr(warning, "c00/005.jpg"));
    assert_non_null(strstr(warning, "reading"));
    assert_non_null(strstr(warning, "jobs queued"));
    drop(&s);
}

static void a_timeout_is_kept_beside_the_watchdog(void **unused)
{
    (void)unused;
    storage s;
    fill(&s);
    s.odd = 0;
    s.pause_ms = 700;
    setenv("LDR_WATCHDOG", "0.1", 1);
    ldr_options o;
    options(&o, &s);
    o.shuffle = 0;
    o.log = sink;
    o.log_user = &warned;
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) fail_msg("%s", err.message);
    unsetenv("LDR_WATCHDOG");
    const ldr_batch *b;
    assert_int_equal(ldr_next(ld, NULL, 300, &b), LDR_TIMEOUT);
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    assert_int_equal(ldr_release(ld, b, NULL), LDR_OK);
    assert_int_equal(ldr_close(&ld), LDR_OK);
    drop(&s);
}

static void levels_and_subsystems_are_let_through_as_asked(void **unused)
{
    (void)unused;
    static const struct {
        const char *debug;
        int level;
        ldri_subsystem subsystem;
        int wanted;
    } cases[] = {
        {NULL, LDR_LOG_WARN, LDRI_LOG_WAIT, 1},
        {NULL, LDR_LOG_INFO, LDRI_LOG_WAIT, 0},
        {"info", LDR_LOG_INFO, LDRI_LOG_SOURCE, 1},
        {"info", LDR_LOG_DEBUG, LDRI_LOG_SOURCE, 0},
        {"3", LDR_LOG_DEBUG, LDRI_LOG_STAGE, 1},
        {"debug,stage", LDR_LOG_DEBUG, LDRI_LOG_STAGE, 1},
        {"2,source,decode", LDR_LOG_INFO, LDRI_LOG_DECODE, 1},
        {"2,source,decode", LDR_LOG_INFO, LDRI_LOG_MEMORY, 0},
        {"debug,stage", LDR_LOG_DEBUG, LDRI_LOG_DECODE, 0},
        {"0", LDR_LOG_WARN, LDRI_LOG_DECODE, 1}, /* warnings cannot be turned off */
        {"everything", LDR_LOG_INFO, LDRI_LOG_SOURCE, 0},
        {"", LDR_LOG_INFO, LDRI_LOG_SOURCE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ldri_log l;
        ldri_log_init(&l, NULL, NULL, cases[i].debug);
        if (ldri_log_wanted(&l, cases[i].level, cases[i].subsystem) != cases[i].wanted) {
            fail_msg("case %zu: %s", i, cases[i].debug ? cases[i].debug : "(none)");
        }
    }
}

int main(void)
{
    char text[2000] = "", name[100];
    tree = helper_tree(1, N);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "c00/%03d.%s\t%d\n", i, i % 3 == 1 ? "png" : "jpg", i % 4);
        strcat(text, name);
    }
    char *elsewhere = helper_temp_dir();
    helper_write_file(elsewhere, "list", text, strlen(text));
    helper_write_file(tree, "list", text, strlen(text));
    static char a[4096], b[4096];
    snprintf(a, sizeof a, "%s/list", elsewhere);
    snprintf(b, sizeof b, "%s/list", tree);
    list = a;
    list_in_tree = b;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fetched_bytes_give_the_files_batches),
        cmocka_unit_test(a_large_sample_is_asked_for_again),
        cmocka_unit_test(every_answer_is_an_item_or_an_error),
        cmocka_unit_test(a_long_wait_is_reported_once),
        cmocka_unit_test(a_timeout_is_kept_beside_the_watchdog),
        cmocka_unit_test(levels_and_subsystems_are_let_through_as_asked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_remove_tree(tree);
    helper_remove_tree(elsewhere);
    free(tree);
    free(elsewhere);
    return failed;
}
