/* status.h - how failures travel inside the library.
 *
 * Two kinds.  A *failure of a sample* (struct ldri_failure) says what was wrong with one file,
 * without its path; cause tells whether the bytes are at fault (cause != LDR_CAUSE_NONE: a bad
 * sample, handled by on_bad) or a resource is (cause == NONE: it fails the batch).  An ldr_error is
 * what the caller sees: one line with the path and the remedy. */
#ifndef LDR_STATUS_H
#define LDR_STATUS_H

#include "loader/loader.h"

typedef struct ldri_failure {
    ldr_status status;
    ldr_cause cause;
    int detail;     /* errno or a library's code; else 0 */
    char text[240]; /* lower case, one line, no path, no full stop */
} ldri_failure;

/* Limits on a picture, taken from the options; checked before memory or time is spent. */
typedef struct ldri_limits {
    uint64_t max_pixels;
    uint32_t max_scans;
    size_t max_file;
} ldri_limits;

/* Fills *f (may be NULL) and returns status, so that `return ldri_failure_set(...)` reads well. */
ldr_status ldri_failure_set(ldri_failure *f, ldr_status status, ldr_cause cause, int detail,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Fills *err (may be NULL) and returns status.  Control bytes and invalid UTF-8 in the result are
 * replaced by '?', newlines included: the message is always one printable line. */
ldr_status ldri_error_set(ldr_error *err, ldr_status status, int detail, uint64_t sample,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Length of the well-formed UTF-8 sequence at s, a NUL-terminated text; 0 if there is none. */
size_t ldri_utf8_length(const unsigned char *s);

/* Copies a path for use in a message: printable (bytes that are not UTF-8 and control bytes as
 * \xNN), shortened from the left with
 * "..." to fit capacity.  Returns out. */
char *ldri_printable_path(char *out, size_t capacity, const char *path);

#endif
