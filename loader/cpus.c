#include "loader/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where things are: cgroups(7) and the kernel's Documentation/admin-guide/cgroup-v2.rst; the files'
 * forms: proc_pid_mountinfo(5), cgroups(7) on /proc/PID/cgroup.
 *
 * Version 2 (mount type cgroup2): cpu.max holds "QUOTA PERIOD" or "max PERIOD".  Version 1 (mount
 * type cgroup with option cpu): cpu.cfs_quota_us, -1 for none, and cpu.cfs_period_us.  A quota
 * binds everything below it, so each directory up to the mount point counts.  Both versions may be
 * mounted at once. */

/* cgroup paths may be as long as any path; a longer one is as good as absent. */
enum { PATH_CAPACITY = 8192 };

static int read_line(const char *prefix, const char *dir, const char *name, char *line,
                     size_t capacity)
{
    char path[PATH_CAPACITY];
    int n = snprintf(path, sizeof path, "%s%s/%s", prefix, dir, name);
    if (n < 0 || (size_t)n >= sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int got = fgets(line, (int)capacity, f) != NULL;
    fclose(f);
    return got;
}

/* Microseconds per period to whole CPUs; 0 for none. */
static uint32_t whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    unsigned long long cpus = (unsigned long long)(quota / period) + (quota % period != 0);
    return cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
}

static uint32_t quota_of(const char *prefix, const char *dir, int version)
{
    char line[128], period_line[128];
    long long quota, period;
    if (version == 2) {
        if (!read_line(prefix, dir, "cpu.max", line, sizeof line)) return 0;
        return sscanf(line, "%lld %lld", &quota, &period) == 2 ? whole_cpus(quota, period) : 0;
    }
    if (!read_line(prefix, dir, "cpu.cfs_quota_us", line, sizeof line) ||
        !read_line(prefix, dir, "cpu.cfs_period_us", period_line, sizeof period_line))
        return 0;
    if (sscanf(line, "%lld", &quota) != 1 || sscanf(period_line, "%lld", &period) != 1) return 0;
    return whole_cpus(quota, period);
}

static uint32_t smaller(uint32_t a, uint32_t b) /* 0 is none */
{
    return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

static int in_list(const char *list, const char *word) /* separated by commas */
{
    size_t n = strlen(word);
    for (const char *s = list; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        if (strncmp(s, word, n) == 0 && (s[n] == ',' || s[n] == 0)) return 1;
    }
    return 0;
}

/* The process's path in the hierarchy that limits the CPU; lines are "ID:CONTROLLERS:PATH", version
 * 2 has no controllers there. */
static int own_path(const char *prefix, int version, char *out, size_t capacity)
{
    char name[PATH_CAPACITY];
    int n = snprintf(name, sizeof name, "%s/proc/self/cgroup", prefix);
    if (n < 0 || (size_t)n >= sizeof name) return 0;
    FILE *f = fopen(name, "re");
    if (!f) return 0;
    int found = 0;
    char *line = NULL;
    size_t line_capacity = 0;
    while (!found && getline(&line, &line_capacity, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        strsep(&rest, ":");
        const char *controllers = strsep(&rest, ":");
        if (!rest || rest[0] != '/' || strlen(rest) >= capacity) continue;
        if (version == 2 ? controllers[0] != 0 : !in_list(controllers, "cpu")) continue;
        strcpy(out, rest);
        found = 1;
    }
    free(line);
    fclose(f);
    return found;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++, to++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *to = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to = *s;
        }
    }
    *to = 0;
}

/* Where below the mount point the process's own group is, given that the mount shows the hierarchy
 * from `root` on; NULL: this mount does not show it.  A root of "/.." is above the process's own
 * cgroup namespace: the mount point is one of its ancestors, the way down is not known. */
static const char *below_mount(const char *path, const char *root)
{
    if (strstr(path, "/..")) return NULL;
    if (strncmp(root, "/..", 3) == 0 || strcmp(root, path) == 0) return "";
    if (strcmp(root, "/") == 0) return strcmp(path, "/") == 0 ? "" : path;
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && path[n] == '/' ? path + n : NULL;
}

static uint32_t quota_up_to_mount(const char *prefix, const char *mount, const char *below,
                                  int version)
{
    char dir[PATH_CAPACITY];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, below);
    if (n < 0 || (size_t)n >= sizeof dir) return 0;
    size_t mount_length = strlen(mount);
    uint32_t least = 0;
    for (;;) {
        least = smaller(least, quota_of(prefix, dir, version));
        if (strlen(dir) <= mount_length) return least;
        *strrchr(dir + mount_length, '/') = 0; /* `below` begins with one */
    }
}

/* One line of mountinfo: "ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE
 * OPTIONS". Changes the line. */
static uint32_t quota_of_mount(const char *prefix, char *line)
{
    char *field[6], *rest = line;
    for (int i = 0; i < 6; i++) field[i] = strsep(&rest, " ");
    while (rest && strncmp(rest, "- ", 2) != 0) strsep(&rest, " ");
    if (!rest) return 0;
    strsep(&rest, " ");
    const char *type = strsep(&rest, " ");
    strsep(&rest, " ");
    const char *options = strsep(&rest, " ");
    if (!options) return 0;

    int version = strcmp(type, "cgroup2") == 0                             ? 2
                  : strcmp(type, "cgroup") == 0 && in_list(options, "cpu") ? 1
                                                                           : 0;
    char path[PATH_CAPACITY];
    if (version == 0 || !own_path(prefix, version, path, sizeof path)) return 0;
    unescape(field[3]);
    unescape(field[4]);
    const char *below = below_mount(path, field[3]);
    return below ? quota_up_to_mount(prefix, field[4], below, version) : 0;
}

uint32_t ldri_cpus_quota(const char *root_prefix)
{
    char name[PATH_CAPACITY];
    int n = snprintf(name, sizeof name, "%s/proc/self/mountinfo", root_prefix);
    if (n < 0 || (size_t)n >= sizeof name) return 0;
    FILE *f = fopen(name, "re");
    if (!f) return 0;
    uint32_t least = 0;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        least = smaller(least, quota_of_mount(root_prefix, line));
    }
    free(line);
    fclose(f);
    return least;
}

/* The kernel answers EINVAL when the set is smaller than its own, whose size it does not tell. */
static uint32_t cpus_in_affinity(void)
{
    for (int n_bits = CPU_SETSIZE; n_bits <= 1 << 22; n_bits *= 2) {
        cpu_set_t *set = CPU_ALLOC(n_bits);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE(n_bits);
        CPU_ZERO_S(bytes, set);
        int failed = sched_getaffinity(0, bytes, set) != 0;
        int error = errno;
        int n = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (n > 0) return (uint32_t)n;
        if (!failed || error != EINVAL) break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t ldri_cpus_allowed(void)
{
    return smaller(cpus_in_affinity(), ldri_cpus_quota(""));
}
