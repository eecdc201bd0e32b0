#include "loader/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "loader/status.h"

void ldri_cmd_say(const char *format, ...)
{
    va_list args;
    char line[1024];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "ldr: %s\n", line); /* one call: lines of several processes stay whole */
}

void ldri_cmd_add_count(char *out, size_t capacity, uint64_t n, const char *what)
{
    size_t at = strlen(out);
    if (n > 0) snprintf(out + at, capacity - at, "%s%" PRIu64 " %s", at > 0 ? ", " : "", n, what);
}

int ldri_cmd_failed(const ldr_error *err)
{
    ldri_cmd_say("%s", err->message);
    return err->status == LDR_E_INVALID ? 2 : 1;
}

int ldri_cmd_stdout_works(int flush)
{
    static int said;
    int error = errno;
    int failed = ferror(stdout);
    if (!failed && flush && fflush(stdout) != 0) {
        failed = 1;
        error = errno;
    }
    if (failed && !said) {
        said = 1;
        ldri_cmd_say("cannot write to standard output: %s",
                     error ? strerror(error) : "write error");
    }
    return !failed;
}

ldr_status ldri_cmd_open(ldr **out, const ldr_options *o, ldr_error *err)
{
    ldr_status s = ldr_open(out, o, err);
    if (s >= 0) ldri_cmd_guard(*out);
    return s;
}

void ldri_cmd_close(ldr **ld)
{
    ldri_cmd_guard(NULL);
    ldr_close(ld); /* nothing is held and no call is inside: it cannot be refused */
}

int ldri_cmd_outcome(const ldr *ld, ldr_status s)
{
    int number = ldri_cmd_stopped();
    if (number) {
        ldri_cmd_say("stopped by %s", number == SIGINT ? "SIGINT" : "SIGTERM");
        return 128 + number;
    }
    if (s < 0) {
        ldr_error err;
        ldr_last_error(ld, &err);
        if (err.status == LDR_OK) {
            ldri_error_set(&err, s, 0, LDR_NO_SAMPLE, "%s", ldr_status_name(s));
        }
        return ldri_cmd_failed(&err);
    }
    return 0;
}

void ldri_cmd_list_bad(FILE *f, const char *prefix, const ldr *ld, size_t max)
{
    size_t n = ldr_bad_samples(ld, NULL, 0);
    if (n < max) max = n;
    if (max == 0) return;
    ldr_bad *bad = calloc(max, sizeof *bad);
    if (!bad) return;
    ldr_bad_samples(ld, bad, max);
    for (size_t i = 0; i < max; i++) {
        char path[256];
        fprintf(f, "%s%s: %s: %s\n", prefix,
                ldri_printable_path(path, sizeof path, ldr_sample_name(ld, bad[i].sample)),
                ldr_cause_name(bad[i].cause), bad[i].message);
    }
    if (n > max) fprintf(f, "%sand %zu more\n", prefix, n - max);
    free(bad);
}
