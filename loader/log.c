#include "loader/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const subsystem_names[] = {"source", "memory", "decode", "stage", "wait"};

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

/* Index of the word of n bytes among the names, or its value if it is one digit below `length`; -1.
 */
static int find(const char *word, size_t n, const char *const *names, int length)
{
    for (int i = 0; i < length; i++) {
        if (strlen(names[i]) == n && !memcmp(names[i], word, n)) return i;
    }
    int digit = n == 1 ? word[0] - '0' : -1;
    return digit >= 0 && digit < length ? digit : -1;
}

void ldri_log_init(ldri_log *l, ldr_log_fn fn, void *user, const char *debug)
{
    *l = (ldri_log){fn, user, LDR_LOG_WARN, 0};
    if (!debug || !*debug) return;
    size_t n = strcspn(debug, ",");
    int level = find(debug, n, level_names, LENGTH(level_names));
    if (level < 0) return;
    l->level = level;
    for (debug += n; *debug; debug += n) {
        debug++;
        n = strcspn(debug, ",");
        int subsystem = find(debug, n, subsystem_names, LENGTH(subsystem_names));
        if (subsystem >= 0) l->subsystems |= 1u << subsystem;
    }
    if (!l->subsystems) l->subsystems = ~0u;
}

int ldri_log_wanted(const ldri_log *l, int level, ldri_subsystem subsystem)
{
    return level <= LDR_LOG_WARN || (level <= l->level && (l->subsystems & subsystem));
}

void ldri_log_line(const ldri_log *l, int level, ldri_subsystem subsystem, const char *format, ...)
{
    if (!ldri_log_wanted(l, level, subsystem)) return;
    ldr_error line; /* its message is made printable and one line */
    char text[sizeof line.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ldri_error_set(&line, LDR_OK, 0, LDR_NO_SAMPLE, "%s", text);
    if (l->fn) {
        l->fn(l->user, level, line.message);
    } else {
        fprintf(stderr, "ldr: %s: %s\n", level_names[level], line.message);
    }
}
