/* List files: path<TAB>label lines, and errors that name file and line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/options.h"
#include "loader/source.h"
#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"
#include "tests/helper_tree.h"

static char *root;

static ldr_status open_list(const char *text, size_t n, ldri_source **s, ldr_error *err)
{
    static char path[4096];
    helper_write_file(root, "lists/list.txt", text, n);
    snprintf(path, sizeof path, "%s/lists/list.txt", root);
    ldr_options o;
    ldr_options_init(&o);
    o.source = path;
    return ldri_source_open(s, &o, err);
}

static ldri_source *open_good(const char *text)
{
    ldri_source *s = NULL;
    ldr_error err;
    if (open_list(text, strlen(text), &s, &err) < 0) fail_msg("%s", err.message);
    return s;
}

static void refused(const char *text, size_t n, ldr_status status, const char *where,
                    const char *what)
{
    ldri_source *s = NULL;
    ldr_error err;
    assert_int_equal(open_list(text, n, &s, &err), status);
    assert_null(s);
    if (!strstr(err.message, where) || !strstr(err.message, what)) fail_msg("%s", err.message);
    assert_null(strchr(err.message, '\n'));
}

static void names_become_classes_in_order(void **unused)
{
    (void)unused;
    ldri_source *s = open_good("b/2.jpg\tzebra\n# a comment\n\na/1.jpg\tant\r\nlast\tzebra");
    assert_int_equal(ldri_source_count(s), 3);
    assert_string_equal(ldri_source_name(s, 0), "b/2.jpg");
    assert_string_equal(ldri_source_name(s, 1), "a/1.jpg");
    assert_string_equal(ldri_source_name(s, 2), "last");
    assert_int_equal(ldri_source_class_count(s), 2);
    assert_string_equal(ldri_source_class_name(s, 0), "ant");
    assert_string_equal(ldri_source_class_name(s, 1), "zebra");
    assert_int_equal(ldri_source_class(s, 0), 1);
    assert_int_equal(ldri_source_class(s, 1), 0);
    assert_int_equal(ldri_source_class(s, 2), 1);
    ldri_source_close(&s);
}

static void numbers_are_the_classes(void **unused)
{
    (void)unused;
    ldri_source *s = open_good("\xef\xbb\xbfx.jpg\t5\ny.jpg\t0\nwith\ttab.jpg\t05\n");
    assert_int_equal(ldri_source_class_count(s), 6);
    assert_int_equal(ldri_source_class(s, 0), 5);
    assert_int_equal(ldri_source_class(s, 1), 0);
    assert_int_equal(ldri_source_class(s, 2), 5);
    assert_string_equal(ldri_source_name(s, 0), "x.jpg");
    assert_string_equal(ldri_source_name(s, 2), "with\ttab.jpg"); /* the last tab divides */
    assert_string_equal(ldri_source_class_name(s, 3), "3");
    ldri_source_close(&s);
    s = open_good("x.jpg\t5\ny.jpg\tfive\n"); /* one name makes all of them names */
    assert_int_equal(ldri_source_class_count(s), 2);
    assert_string_equal(ldri_source_class_name(s, 0), "5");
    ldri_source_close(&s);
}

static void wrong_lines_are_named(void **unused)
{
    (void)unused;
    static const char zero[] = "a.jpg\t1\nb\0.jpg\t1\n";
    refused("a.jpg\t1\nb.jpg 2\n", 16, LDR_E_FORMAT, "list.txt:2:", "no tab");
    refused("a.jpg\t1\n\n\t2\n", 12, LDR_E_FORMAT, "list.txt:3:", "no path");
    refused("a.jpg\t\n", 7, LDR_E_FORMAT, "list.txt:1:", "no label");
    refused(zero, sizeof zero - 1, LDR_E_FORMAT, "list.txt:2:", "not text");
    refused("a\t10000000\n", 11, LDR_E_LIMIT, "list.txt", "10000000");
    refused("a\t4294967296\n", 13, LDR_E_LIMIT, "list.txt", "4294967296");
    refused("# nothing\n", 10, LDR_E_IO, "list.txt", "no sample");
    refused("", 0, LDR_E_IO, "list.txt", "no sample");
    char *line = malloc(5000);
    memset(line, 'p', 5000);
    memcpy(line + 4096, "\t1\n", 3);
    refused(line, 4099, LDR_E_FORMAT, "list.txt:1:", "4095");
    memcpy(line + 4095, "\t1\n", 3);
    ldri_source *s = NULL;
    ldr_error err;
    assert_int_equal(open_list(line, 4098, &s, &err), LDR_OK);
    ldri_source_close(&s);
    free(line);
}

static void many_classes_and_lines(void **unused)
{
    (void)unused;
    enum { N = 50000, CLASSES = 20000 };
    char *text = malloc(N * 40), *at = text;
    for (int i = 0; i < N; i++) at += sprintf(at, "d/%d.jpg\tclass%05d\n", i, i * 7919 % CLASSES);
    ldri_source *s = open_good(text);
    assert_int_equal(ldri_source_count(s), N);
    assert_int_equal(ldri_source_class_count(s), CLASSES);
    for (int i = 0; i < N; i += 101) assert_int_equal(ldri_source_class(s, i), i * 7919 % CLASSES);
    ldri_source_close(&s);
    free(text);
}

static void relative_and_absolute_paths_load(void **unused)
{
    (void)unused;
    char *tree = helper_tree(1, 4);
    char text[8192];
    snprintf(text, sizeof text,
             "c00/000.jpg\t1\n%s/c00/001.png\t0\n./c00/../c00/002.jpg\t1\nc00/none.jpg\t0\n", tree);
    helper_write_file(tree, "list", text, strlen(text));
    char path[4096];
    snprintf(path, sizeof path, "%s/list", tree);
    ldr_options o;
    ldr_options_init(&o);
    ldr_options_eval(&o, 32);
    o.source = path;
    o.on_bad = LDR_BAD_MARK;
    ldr *ld = NULL;
    ldr_error err;
    if (ldr_open(&ld, &o, &err) < 0) fail_msg("%s", err.message);
    const ldr_batch *b;
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    assert_int_equal(b->count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b->ok_host[i], i < 3);
        assert_int_equal(b->labels[i], i % 2 == 0);
    }
    ldr_release(ld, b, NULL);
    ldr_close(&ld);
    /* A bare name means a list in the current folder. */
    char *here = getcwd(NULL, 0);
    assert_int_equal(chdir(tree), 0);
    o.source = "list";
    if (ldr_open(&ld, &o, &err) < 0) fail_msg("%s", err.message);
    assert_int_equal(ldr_next(ld, NULL, -1, &b), LDR_OK);
    assert_int_equal(b->ok_host[0], 1);
    ldr_release(ld, b, NULL);
    ldr_close(&ld);
    assert_int_equal(chdir(here), 0);
    free(here);
    helper_remove_tree(tree);
    free(tree);
}

int main(void)
{
    root = helper_temp_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_classes_in_order),
        cmocka_unit_test(numbers_are_the_classes),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(many_classes_and_lines),
        cmocka_unit_test(relative_and_absolute_paths_load),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_remove_tree(root);
    free(root);
    return failed;
}
