/* json.h - writes JSON to a stream, one value after another; no tree is kept.
 *
 *     ldri_json j = {.file = stdout};
 *     ldri_json_open(&j, NULL, '{');
 *     ldri_json_uint(&j, "images", 12);
 *     ldri_json_open(&j, "bad", '[');
 *     ldri_json_string(&j, NULL, "a.jpg");           a list's members have no key
 *     ldri_json_close(&j);
 *     ldri_json_close(&j);                           the outermost ends the line
 *
 * Text is bytes: what is well-formed UTF-8 is written as it is, control characters are escaped, and
 * a byte that is not UTF-8 becomes \udc80 .. \udcff (as Python's "surrogateescape" reads and writes
 * paths), so that every path can be told and found again.  Errors of the stream are the stream's
 * (ferror). */
#ifndef LDR_JSON_H
#define LDR_JSON_H

#include <stdint.h>
#include <stdio.h>

#define LDRI_JSON_DEPTH 16

typedef struct ldri_json { /* zero but for file: at the start of a document */
    FILE *file;
    unsigned depth;
    struct {
        char end; /* '}' or ']' */
        char used;
    } level[LDRI_JSON_DEPTH];
} ldri_json;

void ldri_json_open(ldri_json *j, const char *key, char bracket); /* '{' or '[' */
void ldri_json_close(ldri_json *j);

void ldri_json_string(ldri_json *j, const char *key, const char *text);
void ldri_json_uint(ldri_json *j, const char *key, uint64_t value);
void ldri_json_int(ldri_json *j, const char *key, int64_t value);
void ldri_json_real(ldri_json *j, const char *key, double value); /* 9 digits; null if not finite */
void ldri_json_bool(ldri_json *j, const char *key, int value);

#endif
