/* CPUs, GPU, memory and limits, as /proc, /sys and the system calls tell them.  What cannot be read
 * is passed over: containers hide parts of both. */
#include "loader/cmd_doctor.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loader/cpus.h"
#include "loader/status.h"

/* The first line of a file, without its end.  0: it cannot be read. */
static int first_line(const char *path, char *line, size_t capacity)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int got = fgets(line, (int)capacity, f) != NULL;
    fclose(f);
    if (got) line[strcspn(line, "\n")] = 0;
    return got;
}

/* --- CPUs ------------------------------------------------------------------------------------ */

static long cpus_in_affinity(void)
{
    cpu_set_t set; /* 1,024 CPUs; on a larger machine the call fails, and nothing is told */
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

static void tell_cpus(ldri_doctor *d)
{
    char model[256] = "", affinity[64] = "", quota[64] = "", line[64];
    long online = sysconf(_SC_NPROCESSORS_ONLN), bound = cpus_in_affinity();
    uint32_t limit = ldri_cpus_quota(""), allowed = ldri_cpus_allowed();
    FILE *f = fopen("/proc/cpuinfo", "re");
    char text[512];
    while (f && !model[0] && fgets(text, sizeof text, f)) {
        char *colon = strchr(text, ':');
        if (strncmp(text, "model name", 10) == 0 && colon && colon[1]) {
            snprintf(model, sizeof model, ", %.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        }
    }
    if (f) fclose(f);
    if (bound > 0 && bound < online) snprintf(affinity, sizeof affinity, ", affinity %ld", bound);
    if (limit > 0) snprintf(quota, sizeof quota, ", control group's quota %u", limit);
    int all = allowed >= (uint32_t)(online > 0 ? online : 1);
    ldri_doctor_tell(d, all ? LDRI_FINE : LDRI_NOTE, "cpus",
                     all ? NULL : "more workers than these CPUs do not help",
                     "%u to use of %ld online%s%s%s", allowed, online, affinity, quota, model);

    double load;
    if (!first_line("/proc/loadavg", line, sizeof line) || sscanf(line, "%lf", &load) != 1) return;
    int busy = load > 0.5 * (double)(online > 0 ? online : 1);
    ldri_doctor_tell(d, busy ? LDRI_NOTE : LDRI_FINE, "load",
                     busy ? "other work takes CPUs: measure when it is done" : NULL,
                     "%.2f in the last minute", load);
}

/* --- GPU ------------------------------------------------------------------------------------- */

static unsigned count_gpus(void) /* /dev/nvidia0, ... */
{
    unsigned n = 0;
    DIR *dir = opendir("/dev");
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, "nvidia", 6) != 0) continue;
        const char *number = e->d_name + 6;
        n += number[0] != 0 && number[strspn(number, "0123456789")] == 0;
    }
    if (dir) closedir(dir);
    return n;
}

static void tell_gpu(ldri_doctor *d)
{
    char version[256];
    unsigned n = count_gpus();
    int driver = first_line("/proc/driver/nvidia/version", version, sizeof version);
    if (driver || n > 0) {
        ldri_doctor_tell(
            d, LDRI_NOTE, "gpu", "this build has no CUDA back end: images are made on the CPU",
            "%u device%s, driver %s", n, n == 1 ? "" : "s", driver ? version : "not visible");
    } else {
        ldri_doctor_tell(d, LDRI_FINE, "gpu", NULL,
                         "no NVIDIA driver or device found; this build has no CUDA back end, "
                         "images are made on the CPU");
    }
}

/* --- memory ---------------------------------------------------------------------------------- */

/* A line "NAME:   12345 kB" of /proc/meminfo, in bytes; 0: not there. */
static double meminfo(const char *name)
{
    char line[256];
    double kilobytes = 0;
    size_t n = strlen(name);
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            kilobytes = strtod(line + n + 1, NULL);
            break;
        }
    }
    if (f) fclose(f);
    return kilobytes * 1024;
}

static double number_in(const char *directory, const char *name)
{
    char path[4096 + 64], line[64], *end;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!first_line(path, line, sizeof line)) return -1;
    double value = strtod(line, &end);
    return end != line && *end == 0 ? value : -1; /* "max": no limit */
}

typedef struct group_limit { /* of the control group that leaves least */
    double limit, used;      /* limit 0: none */
} group_limit;

/* The limits of a group and of those above it, up to where the hierarchy is mounted. */
static void look_upwards(const char *mount, const char *group, const char *limit_name,
                         const char *used_name, group_limit *out)
{
    char directory[4096];
    size_t mount_length = strlen(mount);
    int n = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof directory) return;
    for (;;) {
        double limit = number_in(directory, limit_name), used = number_in(directory, used_name);
        /* Version 1 says "none" with a number near 2^63. */
        if (limit > 0 && limit < 0x1p60 && used >= 0 &&
            (out->limit == 0 || limit - used < out->limit - out->used)) {
            *out = (group_limit){limit, used};
        }
        char *slash = strrchr(directory + mount_length, '/');
        if (!slash) return;
        *slash = 0;
    }
}

/* Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst (memory.max) and
 * cgroup-v1/memory.rst (memory.limit_in_bytes).  The usual mount points are taken for granted. */
static group_limit memory_of_group(void)
{
    group_limit out = {0, 0};
    char line[4096];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        if (!rest || rest[0] != '/') continue;
        if (controllers[0] == 0) {
            look_upwards("/sys/fs/cgroup", rest, "memory.max", "memory.current", &out);
        } else if (strcmp(controllers, "memory") == 0) {
            look_upwards("/sys/fs/cgroup/memory", rest, "memory.limit_in_bytes",
                         "memory.usage_in_bytes", &out);
        }
    }
    if (f) fclose(f);
    return out;
}

double ldri_doctor_available_bytes(void)
{
    double available = meminfo("MemAvailable");
    group_limit g = memory_of_group();
    double left = g.limit - g.used;
    return g.limit > 0 && left < available ? left : available;
}

static void tell_memory(ldri_doctor *d)
{
    char a[32], b[32];
    double total = meminfo("MemTotal"), available = meminfo("MemAvailable");
    group_limit g = memory_of_group();
    if (total > 0) {
        int little = available < 1e9;
        ldri_doctor_tell(d, little ? LDRI_NOTE : LDRI_FINE, "memory",
                         little ? "lower batch, depth or threads if ldr runs out of it" : NULL,
                         "%s available of %s", ldri_doctor_bytes(a, sizeof a, available),
                         ldri_doctor_bytes(b, sizeof b, total));
        ldri_doctor_tell(d, LDRI_FINE, "page cache", NULL, "%s of files in memory",
                         ldri_doctor_bytes(a, sizeof a, meminfo("Cached")));
    }
    if (g.limit > 0) {
        int little = g.limit - g.used < 1e9;
        ldri_doctor_tell(d, little ? LDRI_NOTE : LDRI_FINE, "memory limit",
                         little ? "the control group leaves little: a larger limit" : NULL,
                         "control group: %s, %s used (cached files count)",
                         ldri_doctor_bytes(a, sizeof a, g.limit),
                         ldri_doctor_bytes(b, sizeof b, g.used));
    }
}

/* --- limits ---------------------------------------------------------------------------------- */

static const char *limit_text(rlim_t value, int bytes, char *out, size_t capacity)
{
    if (value == RLIM_INFINITY) return "unlimited";
    if (bytes) return ldri_doctor_bytes(out, capacity, (double)value);
    snprintf(out, capacity, "%llu", (unsigned long long)value);
    return out;
}

static void tell_limits(ldri_doctor *d)
{
    struct rlimit l;
    char soft[32], hard[32];
    if (getrlimit(RLIMIT_MEMLOCK, &l) == 0) {
        ldri_doctor_tell(d, LDRI_FINE, "locked memory", NULL, "%s; the CPU back end locks none",
                         limit_text(l.rlim_cur, 1, soft, sizeof soft));
    }
    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        /* A worker has one file open at a time, listing one directory a level. */
        int few = l.rlim_cur != RLIM_INFINITY && l.rlim_cur < 64 + ldri_cpus_allowed();
        ldri_doctor_tell(d, few ? LDRI_WARN : LDRI_FINE, "open files",
                         few ? "raise it with ulimit -n" : NULL, "%s, at most %s",
                         limit_text(l.rlim_cur, 0, soft, sizeof soft),
                         limit_text(l.rlim_max, 0, hard, sizeof hard));
    }
}

void ldri_doctor_machine(ldri_doctor *d)
{
    tell_cpus(d);
    tell_gpu(d);
    tell_memory(d);
    tell_limits(d);
}
