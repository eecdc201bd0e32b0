/* How many CPUs this process may use, and threads as the library starts them. */
#include "loader/cpus.h"

#include <errno.h>
#include <fenv.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/thread.h"
#include "tests/helper_cmocka.h"

/* --- affinity ------------------------------------------------------------------------------- */

static void counts_at_least_one_and_at_most_the_affinity(void **state)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    uint32_t n = ldri_cpus_allowed();
    assert_in_range(n, 1, CPU_COUNT(&set));
}

static void affinity_of_one_counts_as_one(void **state)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof set, &set) != 0) _exit(100);
        int first = 0;
        while (!CPU_ISSET(first, &set)) first++;
        CPU_ZERO(&set);
        CPU_SET(first, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) _exit(101);
        uint32_t n = ldri_cpus_allowed();
        cpu_set_t after;
        if (sched_getaffinity(0, sizeof after, &after) != 0) _exit(102);
        _exit(CPU_EQUAL(&set, &after) ? (int)n : 103);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 101) {
        print_message("this system does not let a process set its affinity\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* --- quotas, in a made-up tree --------------------------------------------------------------- */

static char root[PATH_MAX];

static int make_root(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/ldr-cpus-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int remove_root(void **state)
{
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, with the directories above it. */
static void put(const char *path, const char *text)
{
    char full[2 * PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        assert_true(mkdir(full, 0777) == 0 || errno == EEXIST);
        *s = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define MOUNTS "/proc/self/mountinfo"
#define GROUPS "/proc/self/cgroup"
#define V2     "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                         \
    "31 23 0:28 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro\n"                                   \
    "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"

static void nothing_there_is_no_quota(void **state)
{
    assert_int_equal(ldri_cpus_quota(root), 0);
    put(MOUNTS, V2);
    assert_int_equal(ldri_cpus_quota(root), 0);
    put(GROUPS, "0::/\n");
    assert_int_equal(ldri_cpus_quota(root), 0);
}

static void version_2_rounds_up(void **state)
{
    static const struct {
        const char *text;
        uint32_t cpus;
    } cases[] = {
        {"max 100000\n", 0},    {"100000 100000\n", 1},
        {"1000 100000\n", 1},   {"100001 100000\n", 2},
        {"150000 100000\n", 2}, {"200000 100000\n", 2},
        {"800000 50000\n", 16}, {"", 0},
        {"garbage\n", 0},       {"0 100000\n", 0},
        {"100000 0\n", 0},      {"-1 100000\n", 0},
        {"100000\n", 0},        {"9223372036854775807 1\n", UINT32_MAX},
    };
    put(MOUNTS, V2);
    put(GROUPS, "0::/user.slice/job\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("/sys/fs/cgroup/user.slice/job/cpu.max", cases[i].text);
        if (ldri_cpus_quota(root) != cases[i].cpus) fail_msg("%s", cases[i].text);
    }
}

static void version_2_smallest_on_the_way_up_wins(void **state)
{
    put(MOUNTS, V2);
    put(GROUPS, "0::/a/b/c\n");
    put("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "700000 100000\n");
    assert_int_equal(ldri_cpus_quota(root), 7);
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    assert_int_equal(ldri_cpus_quota(root), 3);
    put("/sys/fs/cgroup/a/b/c/cpu.max", "200000 100000\n");
    assert_int_equal(ldri_cpus_quota(root), 2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n"); /* a container's own root has one */
    assert_int_equal(ldri_cpus_quota(root), 1);
    put("/sys/fs/cgroup/a/x/cpu.max", "1 100000\n"); /* not above us */
    put("/sys/fs/cpu.max", "1 100000\n");            /* above the mount: not a group */
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_int_equal(ldri_cpus_quota(root), 2);
}

static void version_1(void **state)
{
    put(MOUNTS, V1);
    put(GROUPS, "4:cpuset:/other\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/x\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ldri_cpus_quota(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "350000\n");
    assert_int_equal(ldri_cpus_quota(root), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
    assert_int_equal(ldri_cpus_quota(root), 3);
    /* cpuset is another controller, whatever lies there */
    put("/sys/fs/cgroup/cpuset/docker/abc/cpu.cfs_quota_us", "1\n");
    put("/sys/fs/cgroup/cpuset/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ldri_cpus_quota(root), 3);
}

/* A container that sees the host's path, while its mount begins at its own group. */
static void mount_that_begins_below_the_top(void **state)
{
    put(MOUNTS, "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/sub/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu/sub/cpu.cfs_period_us", "100000\n");
    put(GROUPS, "3:cpu:/docker/abc\n");
    assert_int_equal(ldri_cpus_quota(root), 2);
    put(GROUPS, "3:cpu:/docker/abc/sub\n");
    assert_int_equal(ldri_cpus_quota(root), 1);
    put(GROUPS, "3:cpu:/docker/abcd\n"); /* somebody else's group */
    assert_int_equal(ldri_cpus_quota(root), 0);
    put(GROUPS, "3:cpu:/../elsewhere\n"); /* outside the namespace */
    assert_int_equal(ldri_cpus_quota(root), 0);
    put(MOUNTS, "33 31 0:30 /.. /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    put(GROUPS, "3:cpu:/\n"); /* the mount is above us */
    assert_int_equal(ldri_cpus_quota(root), 2);
}

static void both_versions_and_odd_names(void **state)
{
    put(MOUNTS, "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                "41 31 0:38 / /sys/fs/uni\\040fied rw a:1 b:2 - cgroup2 cgroup2 rw\n"
                "short line\n\n");
    put(GROUPS, "1:cpu:/\n0::/with:colon\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "500000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ldri_cpus_quota(root), 5);
    put("/sys/fs/uni fied/with:colon/cpu.max", "400000 100000\n");
    assert_int_equal(ldri_cpus_quota(root), 4);
}

/* --- threads -------------------------------------------------------------------------------- */

typedef struct seen {
    char name[16];
    int rounding, nice, stack_is_usable;
    sigset_t blocked;
} seen;

static void look(void *arg)
{
    seen *s = arg;
    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    s->rounding = fegetround();
    s->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    volatile char deep[1 << 19];
    memset((char *)deep, 1, sizeof deep);
    s->stack_is_usable = deep[sizeof deep / 2];
}

static void thread_starts_as_the_library_wants_it(void **state)
{
    ldri_thread t;
    seen s = {.name = ""};
    sigset_t before, after;
    int my_nice = getpriority(PRIO_PROCESS, 0);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(fesetround(FE_DOWNWARD), 0);
    ldr_status status = ldri_thread_start(&t, "ldr-a-rather-long-name", look, &s, 3);
    fesetround(FE_TONEAREST);
    assert_int_equal(status, LDR_OK);
    ldri_thread_join(&t);
    ldri_thread_join(&t); /* a second one does nothing */

    assert_string_equal(s.name, "ldr-a-rather-lo");
    assert_int_equal(s.rounding, FE_TONEAREST);
    assert_int_equal(s.nice, my_nice + 3 > 19 ? 19 : my_nice + 3);
    assert_int_equal(s.stack_is_usable, 1);
    assert_int_equal(sigismember(&s.blocked, SIGINT), 1);
    assert_int_equal(sigismember(&s.blocked, SIGTERM), 1);
    assert_int_equal(sigismember(&s.blocked, SIGUSR1), 1);
    assert_int_equal(sigismember(&s.blocked, SIGSEGV), 0);
    /* the starter's own are untouched */
    assert_int_equal(getpriority(PRIO_PROCESS, 0), my_nice);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 32; i++) {
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    }
}

static void join_of_a_zeroed_thread_does_nothing(void **state)
{
    ldri_thread t = {0};
    ldri_thread_join(&t);
}

static void stay(void *arg)
{
    for (;;) pause();
}

/* A child without room for another stack; libc may have kept some, so it takes those first. */
static void thread_that_cannot_start_says_so(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer needs its address space\n");
    skip();
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_AS, &none) != 0) _exit(100);
        static ldri_thread threads[200];
        for (int i = 0; i < 200; i++) {
            errno = 0;
            ldr_status s = ldri_thread_start(&threads[i], "stay", stay, NULL, 0);
            if (s == LDR_OK) continue;
            if (s != LDR_E_NOMEM || errno == 0) _exit(101);
            ldri_thread_join(&threads[i]);
            sigset_t blocked;
            pthread_sigmask(SIG_SETMASK, NULL, &blocked);
            _exit(sigismember(&blocked, SIGINT) ? 102 : 0);
        }
        _exit(103);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TREE(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_at_least_one_and_at_most_the_affinity),
        cmocka_unit_test(affinity_of_one_counts_as_one),
        TREE(nothing_there_is_no_quota),
        TREE(version_2_rounds_up),
        TREE(version_2_smallest_on_the_way_up_wins),
        TREE(version_1),
        TREE(mount_that_begins_below_the_top),
        TREE(both_versions_and_odd_names),
        cmocka_unit_test(thread_starts_as_the_library_wants_it),
        cmocka_unit_test(join_of_a_zeroed_thread_does_nothing),
        cmocka_unit_test(thread_that_cannot_start_says_so),
    };
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
