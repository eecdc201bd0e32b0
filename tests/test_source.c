/* Listing: what is a sample, what is a class, and in which order; in trees made here.
 *
 * test_source --list DIR   lists DIR and prints seconds, samples and bytes (for check_listing.sh)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "loader/source_table.h"

static char root[4096]; /* of the tree of the test that runs */

static void remove_below(int parent, const char *name)
{
    unlinkat(parent, name, 0);
    if (fchmodat(parent, name, 0700, 0) < 0) errno = 0; /* removal will tell */
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0) return;
    DIR *dir = fdopendir(fd);
    struct dirent *d;
    while (dir && (d = readdir(dir))) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            remove_below(dirfd(dir), d->d_name);
        }
    }
    if (dir) closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Stands before libc's, so that opening a folder can be made to fail: the folder whose path ends
 * in fail_ending, with fail_errno. */
static const char *fail_ending;
static int fail_errno;

int __openat_2(int parent, const char *path, int flags);

int openat(int parent, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    size_t n = strlen(path), tail = fail_ending ? strlen(fail_ending) : 0;
    if (fail_ending && n >= tail && strcmp(path + n - tail, fail_ending) == 0) {
        errno = fail_errno;
        return -1;
    }
    return (int)syscall(SYS_openat, parent, path, flags, mode);
}

int __openat_2(int parent, const char *path, int flags) /* what FORTIFY_SOURCE makes of it */
{
    return openat(parent, path, flags);
}

static int make_root(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/ldr_source_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root)) return -1;
    return chmod(root, 0755);
}

static int remove_root(void **state)
{
    remove_below(AT_FDCWD, root);
    return 0;
}

static const char *in_root(const char *path)
{
    static char full[8192];
    snprintf(full, sizeof full, "%s/%s", root, path);
    return full;
}

static void folder(const char *path)
{
    if (mkdir(in_root(path), 0755) < 0) fail_msg("mkdir %s: %s", path, strerror(errno));
}

static void file(const char *path)
{
    int fd = open(in_root(path), O_WRONLY | O_CREAT, 0644);
    if (fd < 0) fail_msg("create %s: %s", path, strerror(errno));
    close(fd);
}

static void link_to(const char *target, const char *path)
{
    if (symlink(target, in_root(path)) < 0) fail_msg("symlink %s: %s", path, strerror(errno));
}

static void special(const char *path, mode_t mode)
{
    if (mknod(in_root(path), mode | 0644, 0) < 0) fail_msg("mknod %s: %s", path, strerror(errno));
}

static ldr_options options(const char *source)
{
    ldr_options o;
    ldr_options_init(&o);
    o.source = source;
    return o;
}

static ldri_source *list_with(const ldr_options *o)
{
    ldri_source *s = NULL;
    ldr_error err = {0};
    if (ldri_source_open(&s, o, &err) != LDR_OK) fail_msg("not listed: %s", err.message);
    return s;
}

static ldri_source *list(void)
{
    ldr_options o = options(root);
    return list_with(&o);
}

/* want: names, then NULL. */
static void names_are(const ldri_source *s, const char *const *want)
{
    uint64_t n = 0;
    for (; want[n]; n++) {
        if (n >= ldri_source_count(s)) fail_msg("%s is missing", want[n]);
        if (strcmp(ldri_source_name(s, n), want[n]) != 0) {
            fail_msg("sample %d is %s, not %s", (int)n, ldri_source_name(s, n), want[n]);
        }
    }
    if (n != ldri_source_count(s)) fail_msg("%s is too much", ldri_source_name(s, n));
}

static void classes_are(const ldri_source *s, const char *const *want)
{
    uint32_t n = 0;
    for (; want[n]; n++) {
        assert_true(n < ldri_source_class_count(s));
        assert_string_equal(ldri_source_class_name(s, n), want[n]);
    }
    assert_int_equal(ldri_source_class_count(s), n);
    for (uint64_t i = 0; i < ldri_source_count(s); i++) {
        uint32_t c = ldri_source_class(s, i);
        assert_true(c < n);
        size_t length = strlen(want[c]); /* the path begins with its class */
        const char *name = ldri_source_name(s, i);
        if (strncmp(name, want[c], length) != 0 || name[length] != '/') {
            fail_msg("%s has class %s", name, want[c]);
        }
    }
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void class_folders_and_their_pictures(void **state)
{
    folder("dog");
    folder("cat");
    folder("cat/more");
    folder("cat/more/deeper");
    file("dog/1.jpg");
    file("dog/2.JPEG");
    file("dog/3.Png");
    file("dog/4.jpe");
    file("dog/5.JFIF");
    file("dog/6.gif");
    file("dog/7.jpg~");
    file("dog/8.jpg ");
    file("dog/9jpg");
    file("dog/10.jpeg2");
    file("dog/readme");
    file("cat/more/deeper/x.jpg");
    file("cat/a.jpg");
    file("cat/z.jpg");
    file("classes.txt");
    ldri_source *s = list();
    names_are(s, NAMES("cat/a.jpg", "cat/more/deeper/x.jpg", "cat/z.jpg", "dog/1.jpg", "dog/2.JPEG",
                       "dog/3.Png", "dog/4.jpe", "dog/5.JFIF"));
    classes_are(s, NAMES("cat", "dog"));
    assert_int_equal(ldri_source_passed_over(s)->other, 7);
    assert_int_equal(ldri_source_passed_over(s)->outside, 0);
    char shown[4200], want[4200];
    snprintf(want, sizeof want, "%s/dog/1.jpg", root);
    assert_string_equal(ldri_source_shown_path(s, 3, shown, sizeof shown), want);
    struct stat st;
    assert_int_equal(fstatat(ldri_source_root_fd(s), ldri_source_name(s, 1), &st, 0), 0);
    assert_int_equal(fcntl(ldri_source_root_fd(s), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ldri_source_close(&s);
    assert_null(s);
    ldri_source_close(&s);
    ldri_source_close(NULL);
}

static void order_is_strcmp_of_the_whole_path(void **state)
{
    /* '-' and '.' are below '/', '0' above: folders do not sort as their names alone. */
    const char *folders[] = {"a",    "a-b",  "a.jpg", "a0",          "B",       "10",       "2",
                             "01",   "1",    "Dog",   "dog",         "-dash",   "a b",      "a/x",
                             "a/x-", "a/x.", "a/x0",  "caf\xc3\xa9", "bad\xff", "new\nline"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[64];
        folder(folders[i]);
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "%s/%s", folders[i],
                     k == 0   ? "p.jpg"
                     : k == 1 ? "common_prefix_longer_than_8_a.jpg"
                              : "common_prefix_longer_than_8_a-.jpg");
            file(path);
        }
    }
    file("a/x.jpg");
    ldri_source *s = list();
    assert_int_equal(ldri_source_count(s), 3 * sizeof folders / sizeof *folders + 1);
    for (uint64_t i = 1; i < ldri_source_count(s); i++) {
        assert_true(strcmp(ldri_source_name(s, i - 1), ldri_source_name(s, i)) < 0);
    }
    classes_are(s, NAMES("-dash", "01", "1", "10", "2", "B", "Dog", "a", "a b", "a-b", "a.jpg",
                         "a0", "bad\xff", "caf\xc3\xa9", "dog", "new\nline"));
    ldri_source_close(&s);
}

/* Many names with every kind of shared beginning, against qsort with strcmp. */
static void sorting_is_right_for_many_names(void **state)
{
    folder("c");
    uint32_t h = 1;
    for (int i = 0; i < 3000; i++) {
        char path[64], name[32];
        int n = 1 + i % 20;
        for (int k = 0; k < n; k++) {
            h = h * 1664525u + 1013904223u;
            name[k] = "ab-\x01\xff"[h >> 24 & 3];
        }
        name[n] = 0;
        snprintf(path, sizeof path, "c/%s.jpg", name);
        file(path); /* the short ones repeat */
    }
    ldri_source *s = list();
    assert_true(ldri_source_count(s) > 2000);
    for (uint64_t i = 1; i < ldri_source_count(s); i++) {
        assert_true(strcmp(ldri_source_name(s, i - 1), ldri_source_name(s, i)) < 0);
    }
    ldri_source_close(&s);
}

static void natural_order_is_timms(void **state)
{
    const char *folders[] = {"c10", "c2", "C3", "c02", "b"};
    for (int i = 0; i < 5; i++) folder(folders[i]);
    file("b/x10.jpg");
    file("b/x9.jpg");
    file("b/X8.jpg");
    file("b/x99999999999999999999999.jpg");
    file("b/x100000000000000000000000.jpg");
    file("b/x.jpg");
    file("b/x010.jpg");
    file("c10/1.jpg");
    file("c2/2.jpg");
    file("c02/1.jpg");
    file("C3/1.jpg");
    ldr_options o = options(root);
    o.class_order = LDR_ORDER_NATURAL;
    ldri_source *s = list_with(&o);
    names_are(s, NAMES("b/X8.jpg", "b/x9.jpg", "b/x010.jpg", "b/x10.jpg",
                       "b/x99999999999999999999999.jpg", "b/x100000000000000000000000.jpg",
                       "b/x.jpg", "c02/1.jpg", "c2/2.jpg", "C3/1.jpg", "c10/1.jpg"));
    classes_are(s, NAMES("b", "c02", "c2", "C3", "c10"));
    ldri_source_close(&s);
    /* Signs only; the middle column by timm's natural_key in Python. */
    const struct {
        const char *a, *b;
        int sign;
    } pairs[] = {{"a", "a", 0},    {"a", "b", -1},     {"a1", "a/", -1}, {"a1", "a", 1},
                 {"A1", "a2", -1}, {"2", "a", -1},     {"a1b", "a1", 1}, {"a01b", "a1a", 1},
                 {"1", "01", 1},   {"x9z", "x10", -1}, {"", "0", -1},    {"B", "a", 1}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int x = ldri_natural_compare(pairs[i].a, pairs[i].b);
        int y = ldri_natural_compare(pairs[i].b, pairs[i].a);
        if ((x > 0) - (x < 0) != pairs[i].sign || (y > 0) - (y < 0) != -pairs[i].sign) {
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
        }
    }
}

static void pictures_alone_are_one_class(void **state)
{
    file("b.jpg");
    file("a.png");
    file("c.txt");
    folder("empty");
    folder("notes");
    file("notes/t.txt");
    ldri_source *s = list();
    names_are(s, NAMES("a.png", "b.jpg"));
    assert_int_equal(ldri_source_class_count(s), 1);
    assert_string_equal(ldri_source_class_name(s, 0), strrchr(root, '/') + 1);
    assert_int_equal(ldri_source_class(s, 1), 0);
    assert_int_equal(ldri_source_passed_over(s)->outside, 0);
    assert_int_equal(ldri_source_passed_over(s)->empty_classes, 2);
    ldri_source_close(&s);

    char with_slashes[4200], name[256];
    snprintf(with_slashes, sizeof with_slashes, "%s///", root);
    ldr_options o = options(with_slashes);
    s = list_with(&o);
    assert_string_equal(ldri_source_class_name(s, 0), strrchr(root, '/') + 1);
    ldri_source_close(&s);

    snprintf(name, sizeof name, "%s", strrchr(root, '/') + 1);
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(here >= 0 && chdir(root) == 0);
    o = options(".");
    s = list_with(&o);
    assert_true(fchdir(here) == 0);
    close(here);
    assert_string_equal(ldri_source_class_name(s, 0), name);
    ldri_source_close(&s);
}

static void empty_classes_have_no_number(void **state)
{
    folder("a");
    folder("b");
    folder("b/sub");
    folder("c");
    file("b/sub/notes.txt");
    file("c/x.jpg");
    file("top.jpg");
    file("top2.jpg");
    ldri_source *s = list();
    names_are(s, NAMES("c/x.jpg"));
    classes_are(s, NAMES("c"));
    assert_int_equal(ldri_source_passed_over(s)->empty_classes, 2);
    assert_int_equal(ldri_source_passed_over(s)->outside, 2);
    ldri_source_close(&s);
}

static void hidden_names_are_passed_over(void **state)
{
    folder("c");
    folder(".git");
    folder("c/.ipynb_checkpoints");
    file(".git/x.jpg");
    file("c/.ipynb_checkpoints/x.jpg");
    file("c/.jpg");
    file("c/._x.jpg");
    file("c/..x.jpg");
    file("c/x.jpg");
    link_to("c", ".link");
    ldri_source *s = list();
    names_are(s, NAMES("c/x.jpg"));
    assert_int_equal(ldri_source_passed_over(s)->hidden, 6);
    assert_int_equal(ldri_source_passed_over(s)->directory_links, 0);
    ldri_source_close(&s);
}

static void strange_names_are_kept_byte_for_byte(void **state)
{
    char l255[260], path[512];
    memset(l255, 'L', 251);
    strcpy(l255 + 251, ".jpg");
    const char *names[] = {
        " lead.jpg",        "\x1b[31m.jpg", "\xff\xfe.jpg", "new\nline.jpg", "tab\t.jpg",
        "%n%s.jpg",         "*.jpg",        "-rf.jpg",      "#hash.jpg",     "back\\.jpg",
        "\xe6\x97\xa5.jpg", "a..jpg",       "\xc3\xa9.jpg", "e\xcc\x81.jpg", l255};
    folder("c");
    folder("c/directory.jpg");
    file("c/directory.jpg/inside.jpg");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "c/%s", names[i]);
        file(path);
    }
    ldri_source *s = list();
    assert_int_equal(ldri_source_count(s), sizeof names / sizeof *names + 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int found = 0;
        snprintf(path, sizeof path, "c/%s", names[i]);
        for (uint64_t k = 0; k < ldri_source_count(s); k++) {
            found += strcmp(ldri_source_name(s, k), path) == 0;
        }
        assert_int_equal(found, 1);
    }
    ldri_source_close(&s);
}

static void special_files_are_never_listed(void **state)
{
    folder("c");
    file("c/x.jpg");
    special("c/fifo.jpg", S_IFIFO);
    special("c/fifo", S_IFIFO);
    special("c/socket.png", S_IFSOCK);
    special("fifo_class", S_IFIFO);
    special("fifo.jpg", S_IFIFO);
    link_to("fifo.jpg", "c/fifolink.jpg");
    link_to("/dev/zero", "c/zero.jpg");
    link_to("/dev/null", "c/null");
    ldri_source *s = list();
    names_are(s, NAMES("c/x.jpg"));
    assert_int_equal(ldri_source_passed_over(s)->special, 5);
    assert_int_equal(ldri_source_passed_over(s)->other, 3);
    ldri_source_close(&s);
}

static void make_links(void)
{
    folder("a");
    folder("a/sub");
    folder("b");
    folder("b/deep");
    file("a/1.jpg");
    file("a/sub/2.jpg");
    file("b/3.jpg");
    file("b/deep/4.jpg");
    link_to("../b/3.jpg", "a/file.jpg");
    link_to("../b/3.jpg", "a/file.txt");
    link_to("nowhere.jpg", "a/broken.jpg");
    link_to("nowhere", "a/broken");
    link_to("loop.jpg", "a/loop.jpg");
    link_to("..", "a/parent");
    link_to(".", "a/self");
    link_to("/", "a/machine");
    link_to("../b", "a/sibling.jpg");
    link_to("nowhere", "broken_class");
    link_to("self_class", "self_class");
    link_to(".", "source_class");
    link_to("..", "above_class");
    link_to("a/sub", "c"); /* a class by a link */
}

static void links_stand_for_files_and_classes(void **state)
{
    make_links();
    ldri_source *s = list();
    names_are(s, NAMES("a/1.jpg", "a/broken.jpg", "a/file.jpg", "a/loop.jpg", "a/sub/2.jpg",
                       "b/3.jpg", "b/deep/4.jpg", "c/2.jpg"));
    classes_are(s, NAMES("a", "b", "c"));
    const ldri_source_counts *c = ldri_source_passed_over(s);
    assert_int_equal(c->directory_links, 6); /* four in a, source_class, above_class */
    assert_true(c->first_directory_link[0] != 0);
    assert_int_equal(c->other, 4); /* file.txt, broken, broken_class, self_class */
    assert_int_equal(c->unlistable, 0);
    ldri_source_close(&s);
}

static void followed_links_list_each_directory_once(void **state)
{
    make_links();
    char outside[4200];
    snprintf(outside, sizeof outside, "%s_outside", root);
    assert_int_equal(mkdir(outside, 0755), 0);
    char path[4400];
    snprintf(path, sizeof path, "%s/o.jpg", outside);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    snprintf(path, sizeof path, "%s/back", outside); /* a loop outside, and back in */
    assert_int_equal(symlink(outside, path), 0);
    snprintf(path, sizeof path, "%s/in", outside);
    assert_int_equal(symlink(root, path), 0);
    link_to(outside, "b/a_far");
    link_to(outside, "b/z_far");
    link_to(outside, "a/z_far");
    ldr_options o = options(root);
    o.follow_links = 1;
    for (int natural = 0; natural < 2; natural++) {
        o.class_order = natural ? LDR_ORDER_NATURAL : LDR_ORDER_BYTES;
        ldri_source *s = list_with(&o);
        names_are(s, NAMES("a/1.jpg", "a/broken.jpg", "a/file.jpg", "a/loop.jpg", "a/sub/2.jpg",
                           "a/z_far/o.jpg", "b/3.jpg", "b/deep/4.jpg", "c/2.jpg"));
        classes_are(s, NAMES("a", "b", "c"));
        /* As before, b's two links, and the two outside. */
        assert_int_equal(ldri_source_passed_over(s)->directory_links, 10);
        ldri_source_close(&s);
    }
    o.follow_links = 0;
    ldri_source *s = list_with(&o);
    assert_int_equal(ldri_source_count(s), 8);
    assert_int_equal(ldri_source_passed_over(s)->directory_links, 9);
    ldri_source_close(&s);
    remove_below(AT_FDCWD, outside);
}

/* A class whose pictures all come through a link. */
static void followed_links_make_classes_too(void **state)
{
    folder("a");
    folder("b");
    char outside[4200], path[4400];
    snprintf(outside, sizeof outside, "%s_outside", root);
    snprintf(path, sizeof path, "%s/o.jpg", outside);
    assert_int_equal(mkdir(outside, 0755), 0);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    link_to(outside, "b/far");
    file("top.jpg");
    ldr_options o = options(root);
    ldri_source *s = list_with(&o);
    names_are(s, NAMES("top.jpg"));
    ldri_source_close(&s);
    o.follow_links = 1;
    s = list_with(&o);
    names_are(s, NAMES("b/far/o.jpg"));
    classes_are(s, NAMES("b"));
    assert_int_equal(ldri_source_passed_over(s)->empty_classes, 1);
    assert_int_equal(ldri_source_passed_over(s)->outside, 1);
    ldri_source_close(&s);
    remove_below(AT_FDCWD, outside);
}

/* Makes nested folders without ever naming a long path, and a picture at the end of each. */
static void nest(const char *class_name, const char *name, int levels, const char *picture)
{
    folder(class_name);
    int fd = open(in_root(class_name), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < levels; i++) {
        assert_int_equal(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
        assert_true(fd >= 0);
        int f = openat(fd, picture, O_WRONLY | O_CREAT, 0644);
        assert_true(f >= 0);
        close(f);
    }
    close(fd);
}

static void deep_trees_are_listed(void **state)
{
    nest("deep", "d", 300, "x.jpg");
    int before = open("/dev/null", O_RDONLY);
    ldri_source *s = list();
    assert_int_equal(ldri_source_count(s), 300);
    assert_int_equal(strlen(ldri_source_name(s, 0)), strlen("deep/") + 300 * 2 + 5);
    assert_int_equal(ldri_source_passed_over(s)->too_long, 0);
    ldri_source_close(&s);
    int after = open("/dev/null", O_RDONLY); /* no descriptor is lost */
    assert_int_equal(after, before + 1);
    close(before);
    close(after);
}

static void paths_beyond_the_limit_are_counted(void **state)
{
    char name[201];
    memset(name, 'p', 200);
    name[200] = 0;
    nest("long", name, 24, "x.jpg");
    folder("ok");
    file("ok/x.jpg");
    ldri_source *s = list();
    /* long/ and 20 levels of 201 bytes are 4,025; the 21st would pass 4,095. */
    assert_int_equal(ldri_source_count(s), 20 + 1);
    assert_int_equal(ldri_source_passed_over(s)->too_long, 1);
    for (uint64_t i = 0; i < ldri_source_count(s); i++) {
        struct stat st;
        assert_int_equal(fstatat(ldri_source_root_fd(s), ldri_source_name(s, i), &st, 0), 0);
    }
    ldri_source_close(&s);
    /* A picture whose path has exactly 4,095 bytes is listed, one of 4,096 is not. */
    char in[4200] = "long";
    for (int i = 0; i < 20; i++) {
        strcat(in, "/");
        strcat(in, name);
    }
    char picture[128];
    memset(picture, 'q', sizeof picture);
    size_t room = 4095 - strlen(in) - 1;
    strcpy(picture + room - 4, ".jpg");
    int root_fd = open(root, O_RDONLY | O_DIRECTORY);
    int dir = openat(root_fd, in, O_RDONLY | O_DIRECTORY);
    assert_true(root_fd >= 0 && dir >= 0);
    int fd = openat(dir, picture, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    memmove(picture + 1, picture, room + 1);
    fd = openat(dir, picture, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    close(dir);
    close(root_fd);
    s = list();
    assert_int_equal(ldri_source_count(s), 22);
    assert_int_equal(ldri_source_passed_over(s)->too_long, 2);
    ldri_source_close(&s);
}

static void failure_is(const char *source, ldr_status status, int detail, const char *text)
{
    ldr_options o = options(source);
    ldri_source *s = (ldri_source *)&o, *before = s;
    ldr_error err = {0};
    assert_int_equal(ldri_source_open(&s, &o, &err), status);
    assert_ptr_equal(s, before);
    assert_int_equal(err.status, status);
    assert_int_equal(err.detail, detail);
    assert_int_equal(err.sample, LDR_NO_SAMPLE);
    if (!strstr(err.message, text) || strchr(err.message, '\n')) {
        fail_msg("%s: message is: %s", source, err.message);
    }
    assert_int_equal(ldri_source_open(&s, &o, NULL), status);
}

static void sources_that_cannot_be_read_say_why(void **state)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/nowhere", root);
    failure_is(path, LDR_E_IO, ENOENT, "nowhere: no such directory or list: check the path");
    file("list.txt");
    snprintf(path, sizeof path, "%s/list.txt", root);
    failure_is(path, LDR_E_IO, 0, "list.txt: no sample in this list");
    failure_is("/dev/null", LDR_E_IO, ENOTDIR, "null: not a directory");
    link_to("loop", "loop");
    snprintf(path, sizeof path, "%s/loop", root);
    failure_is(path, LDR_E_IO, ELOOP, "loop: cannot be opened: ");
    special("fifo", S_IFIFO);
    snprintf(path, sizeof path, "%s/fifo", root);
    failure_is(path, LDR_E_IO, ENOTDIR, "not a directory");
    folder("new\nline");
    snprintf(path, sizeof path, "%s/new\nline", root);
    failure_is(path, LDR_E_IO, 0, "new\\x0Aline: no picture found (0 other files, 0 hidden names)");
    folder("empty");
    file("empty/.x.jpg");
    snprintf(path, sizeof path, "%s/empty", root);
    failure_is(path, LDR_E_IO, 0, "no picture found (0 other files, 1 hidden names): give a");
    folder("empty/c");
    link_to("/", "empty/c/link");
    failure_is(path, LDR_E_IO, 0, "(first: c/link): set follow_links");
    failure_is("/dev/null", LDR_E_IO, ENOTDIR, "/dev/null: not a directory");
}

static void the_source_may_be_a_link(void **state)
{
    folder("real");
    folder("real/c");
    file("real/c/x.jpg");
    link_to("real", "link");
    char path[4200];
    snprintf(path, sizeof path, "%s/link", root);
    ldr_options o = options(path);
    ldri_source *s = list_with(&o);
    names_are(s, NAMES("c/x.jpg"));
    ldri_source_close(&s);
}

static void permissions_are_reported(void **state)
{
    folder("open");
    file("open/x.jpg");
    folder("shut");
    file("shut/x.jpg");
    folder("listed");
    file("listed/x.jpg");
    folder("open/shut");
    folder("source");
    folder("unsearchable");
    file("source/x.jpg");
    file("unsearchable/x.jpg");
    assert_int_equal(chmod(in_root("shut"), 0), 0);
    assert_int_equal(chmod(in_root("open/shut"), 0), 0);
    assert_int_equal(chmod(in_root("listed"), 0444), 0);
    assert_int_equal(chmod(in_root("source"), 0), 0);
    assert_int_equal(chmod(in_root("unsearchable"), 0444), 0);
    int is_root = geteuid() == 0;
    if (is_root && seteuid(65534) < 0) skip(); /* root may do everything */
    ldr_options o = options(root);
    ldri_source *s = NULL;
    ldr_error err = {0}, shut = {0}, unsearchable = {0};
    int reachable = access(root, R_OK) == 0 || faccessat(AT_FDCWD, root, R_OK, AT_EACCESS) == 0;
    ldr_status status = ldri_source_open(&s, &o, &err);
    char path[4200];
    snprintf(path, sizeof path, "%s/source", root);
    o.source = path;
    ldri_source *none = NULL;
    ldr_status shut_status = ldri_source_open(&none, &o, &shut);
    snprintf(path, sizeof path, "%s/unsearchable", root);
    ldr_status unsearchable_status = ldri_source_open(&none, &o, &unsearchable);
    if (is_root) assert_int_equal(seteuid(0), 0);
    if (!reachable) skip(); /* a TMPDIR that others may not enter */
    if (status != LDR_OK) fail_msg("%s", err.message);
    /* In a folder that may be listed but not entered the files are there, and will be bad samples.
     */
    names_are(s, NAMES("listed/x.jpg", "open/x.jpg", "unsearchable/x.jpg"));
    assert_int_equal(ldri_source_passed_over(s)->unlistable, 3);
    assert_string_equal(ldri_source_passed_over(s)->first_unlistable, "open/shut");
    assert_int_equal(ldri_source_passed_over(s)->empty_classes, 0);
    ldri_source_close(&s);
    assert_int_equal(shut_status, LDR_E_IO);
    assert_non_null(strstr(shut.message, "/source: permission denied: the directory must be "));
    assert_int_equal(unsearchable_status, LDR_E_IO);
    assert_non_null(strstr(unsearchable.message, ": permission denied: "));
    assert_null(none);
}

/* Running out of descriptors fails the listing; it must not shorten it. */
static void lack_of_descriptors_is_a_failure(void **state)
{
    folder("c");
    file("c/x.jpg");
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    int lowest = dup(0);
    assert_true(lowest >= 0);
    close(lowest);
    few = all;
    few.rlim_cur = (rlim_t)lowest + 1; /* one is left: for the source itself */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    ldr_options o = options(root);
    ldri_source *s = NULL;
    ldr_error err = {0};
    ldr_status status = ldri_source_open(&s, &o, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    assert_int_equal(status, LDR_E_IO);
    assert_int_equal(err.detail, EMFILE);
    assert_null(s);
}

/* Only what the tree itself explains may shorten the list. */
static void failures_below_the_source_are_told_apart(void **state)
{
    const struct {
        int code;
        ldr_status status;
    } v[] = {{EMFILE, LDR_E_IO},    {ENFILE, LDR_E_IO}, {EIO, LDR_E_IO},
             {ENOMEM, LDR_E_NOMEM}, {EACCES, LDR_OK},   {EPERM, LDR_OK},
             {ENOENT, LDR_OK},      {ENOTDIR, LDR_OK},  {ELOOP, LDR_OK}};
    folder("c");
    folder("c/sub");
    file("c/x.jpg");
    file("c/sub/x.jpg");
    ldr_options o = options(root);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ldri_source *s = NULL;
        ldr_error err = {0};
        fail_ending = "c/sub";
        fail_errno = v[i].code;
        ldr_status status = ldri_source_open(&s, &o, &err);
        fail_ending = NULL;
        assert_int_equal(status, v[i].status);
        if (status < 0) {
            assert_int_equal(err.detail, v[i].code);
            assert_non_null(strstr(err.message, "/c/sub/: "));
            assert_null(s);
        } else {
            names_are(s, NAMES("c/x.jpg"));
            assert_int_equal(ldri_source_passed_over(s)->unlistable, 1);
            assert_string_equal(ldri_source_passed_over(s)->first_unlistable, "c/sub");
            ldri_source_close(&s);
        }
    }
}

static void memory_is_the_paths_and_a_little(void **state)
{
    folder("n01440764");
    size_t paths = 0;
    for (int i = 0; i < 5000; i++) {
        char path[64];
        paths += 1 + (size_t)snprintf(path, sizeof path, "n01440764/n01440764_%d.JPEG", i);
        file(path);
    }
    ldri_source *s = list();
    assert_int_equal(ldri_source_count(s), 5000);
    assert_true(ldri_source_bytes(s) >= paths + 5000 * 12);
    assert_true(ldri_source_bytes(s) < paths + 5000 * 12 + 2000);
    ldri_source_close(&s);
}

static int list_and_report(const char *dir)
{
    struct timespec a, b;
    ldr_options o = options(dir);
    ldri_source *s;
    ldr_error err;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (ldri_source_open(&s, &o, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.4f s, %llu samples, %u classes, %zu bytes\n",
           (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9,
           (unsigned long long)ldri_source_count(s), ldri_source_class_count(s),
           ldri_source_bytes(s));
    ldri_source_close(&s);
    return 0;
}

#define IN_TREE(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--list") == 0) return list_and_report(argv[2]);
    const struct CMUnitTest tests[] = {
        IN_TREE(class_folders_and_their_pictures),
        IN_TREE(order_is_strcmp_of_the_whole_path),
        IN_TREE(sorting_is_right_for_many_names),
        IN_TREE(natural_order_is_timms),
        IN_TREE(pictures_alone_are_one_class),
        IN_TREE(empty_classes_have_no_number),
        IN_TREE(hidden_names_are_passed_over),
        IN_TREE(strange_names_are_kept_byte_for_byte),
        IN_TREE(special_files_are_never_listed),
        IN_TREE(links_stand_for_files_and_classes),
        IN_TREE(followed_links_list_each_directory_once),
        IN_TREE(followed_links_make_classes_too),
        IN_TREE(deep_trees_are_listed),
        IN_TREE(paths_beyond_the_limit_are_counted),
        IN_TREE(sources_that_cannot_be_read_say_why),
        IN_TREE(the_source_may_be_a_link),
        IN_TREE(permissions_are_reported),
        IN_TREE(lack_of_descriptors_is_a_failure),
        IN_TREE(failures_below_the_source_are_told_apart),
        IN_TREE(memory_is_the_paths_and_a_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
