/* Reading: every way a file can fail to give its bytes is a cause, and none of them hangs. */
#include "loader/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/helper_cmocka.h"
#include "tests/helper_images.h"

static char *root;
static int root_fd;
static const ldri_limits limits = {100000000, 500, 4 << 20};

static ldr_status read_it(const char *name, ldri_buffer *b, ldri_failure *why)
{
    memset(why, 0xee, sizeof *why);
    return ldri_read_file(root_fd, name, &limits, NULL, b, why);
}

static void fails_with(const char *name, ldr_cause cause)
{
    ldri_buffer b = {0};
    ldri_failure why;
    ldr_status s = read_it(name, &b, &why);
    if (s >= 0) fail_msg("%s was read", name);
    assert_int_equal(why.status, s);
    if (why.cause != cause) {
        fail_msg("%s: %s, not %s: %s", name, ldr_cause_name(why.cause), ldr_cause_name(cause),
                 why.text);
    }
    assert_true(strlen(why.text) > 3);
    ldri_buffer_free(&b);
}

static char *in_root(const char *name)
{
    static char path[5000];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void bytes_come_whole_into_a_kept_buffer(void **unused)
{
    (void)unused;
    static const size_t sizes[] = {1, 3, 4096, 65537, 1000000, (1 << 20) + 1, 3000000, 5};
    ldri_buffer b = {0};
    ldri_failure why;
    size_t capacity = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *bytes = malloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (uint8_t)helper_hash(k + i);
        memcpy(bytes, "\xff\xd8\xff", sizes[i] < 3 ? sizes[i] : 3);
        helper_write_file(root, "sub/file.jpg", bytes, sizes[i]);
        assert_int_equal(read_it("sub/file.jpg", &b, &why), LDR_OK);
        assert_int_equal(b.n, sizes[i]);
        assert_memory_equal(b.bytes, bytes, sizes[i]);
        assert_true(b.capacity >= capacity);
        capacity = b.capacity;
        free(bytes);
    }
    ldri_buffer_trim(&b, b.capacity);
    assert_int_equal(b.capacity, capacity);
    ldri_buffer_trim(&b, 100);
    assert_int_equal(b.capacity, 0);
    ldri_buffer_free(&b);
}

static void what_is_not_there_is_missing(void **unused)
{
    (void)unused;
    assert_int_equal(symlink("nowhere", in_root("broken.jpg")), 0);
    assert_int_equal(symlink("loop.jpg", in_root("loop.jpg")), 0);
    helper_write_file(root, "plain", "x", 1);
    fails_with("none.jpg", LDR_CAUSE_MISSING);
    fails_with("broken.jpg", LDR_CAUSE_MISSING);
    fails_with("loop.jpg", LDR_CAUSE_MISSING);
    fails_with("plain/x.jpg", LDR_CAUSE_MISSING);
    char name[5000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    fails_with(name, LDR_CAUSE_MISSING);
    name[300] = 0;
    fails_with(name, LDR_CAUSE_MISSING);
}

static void what_is_no_file_is_unreadable_at_once(void **unused)
{
    (void)unused;
    assert_int_equal(mkfifo(in_root("fifo.jpg"), 0600), 0);
    assert_int_equal(mkdir(in_root("dir.jpg"), 0700), 0);
    assert_int_equal(symlink("/dev/zero", in_root("zero.jpg")), 0);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.100s", in_root("socket.jpg"));
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    alarm(10); /* an open that waits for a writer would end here */
    fails_with("fifo.jpg", LDR_CAUSE_UNREADABLE);
    fails_with("dir.jpg", LDR_CAUSE_UNREADABLE);
    fails_with("zero.jpg", LDR_CAUSE_UNREADABLE);
    fails_with("socket.jpg", LDR_CAUSE_UNREADABLE);
    alarm(0);
    close(s);
}

static void no_permission_is_unreadable(void **unused)
{
    (void)unused;
    if (geteuid() == 0) skip(); /* root reads everything */
    helper_write_file(root, "secret.jpg", "x", 1);
    assert_int_equal(chmod(in_root("secret.jpg"), 0), 0);
    fails_with("secret.jpg", LDR_CAUSE_UNREADABLE);
}

static void empty_and_too_large_are_named(void **unused)
{
    (void)unused;
    helper_write_file(root, "empty.jpg", "", 0);
    fails_with("empty.jpg", LDR_CAUSE_EMPTY);
    helper_write_file(root, "large.jpg", "\xff\xd8\xff", 3);
    assert_int_equal(truncate(in_root("large.jpg"), (off_t)limits.max_file), 0);
    ldri_buffer b = {0};
    ldri_failure why;
    assert_int_equal(read_it("large.jpg", &b, &why), LDR_OK);
    assert_int_equal(b.n, limits.max_file);
    ldri_buffer_free(&b);
    assert_int_equal(truncate(in_root("large.jpg"), (off_t)limits.max_file + 1), 0);
    fails_with("large.jpg", LDR_CAUSE_LIMIT);
}

static void a_large_file_of_another_kind_is_not_read(void **unused)
{
    (void)unused;
    helper_write_file(root, "zeros.jpg", "\0", 1);
    assert_int_equal(truncate(in_root("zeros.jpg"), 3 << 20), 0);
    ldri_buffer b = {0};
    ldri_failure why;
    assert_true(read_it("zeros.jpg", &b, &why) < 0);
    assert_int_equal(why.cause, LDR_CAUSE_FORMAT);
    assert_true(b.capacity < 1 << 20);
    ldri_buffer_free(&b);
}

static void no_descriptors_is_not_the_files_fault(void **unused)
{
    (void)unused;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = old;
    none.rlim_cur = 0;
    helper_write_file(root, "good.jpg", "\xff\xd8\xff", 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    ldri_buffer b = {0};
    ldri_failure why;
    ldr_status s = read_it("good.jpg", &b, &why);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(s, LDR_E_IO);
    assert_int_equal(why.cause, LDR_CAUSE_NONE);
    assert_int_equal(why.detail, EMFILE);
    assert_non_null(strstr(why.text, "ulimit -n"));
    ldri_buffer_free(&b);
}

int main(void)
{
    root = helper_temp_dir();
    root_fd = open(root, O_RDONLY | O_DIRECTORY);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_whole_into_a_kept_buffer),
        cmocka_unit_test(what_is_not_there_is_missing),
        cmocka_unit_test(what_is_no_file_is_unreadable_at_once),
        cmocka_unit_test(no_permission_is_unreadable),
        cmocka_unit_test(empty_and_too_large_are_named),
        cmocka_unit_test(a_large_file_of_another_kind_is_not_read),
        cmocka_unit_test(no_descriptors_is_not_the_files_fault),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close(root_fd);
    helper_remove_tree(root);
    free(root);
    return failed;
}
