#include "loader/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "loader/status.h"

static void write_string(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    putc('"', f);
    while (*s) {
        size_t n = ldri_utf8_length(s);
        if (n == 0) {
            fprintf(f, "\\udc%02x", *s++);
        } else if (*s == '"' || *s == '\\') {
            putc('\\', f);
            putc(*s++, f);
        } else if (*s < 0x20 || *s == 0x7f) {
            fprintf(f, "\\u%04x", *s++);
        } else if (*s == 0xc2 && s[1] < 0xa0) { /* C1 controls: a terminal may obey them */
            fprintf(f, "\\u%04x", s[1]);
            s += 2;
        } else {
            fwrite(s, 1, n, f);
            s += n;
        }
    }
    putc('"', f);
}

static void begin_value(ldri_json *j, const char *key)
{
    if (j->depth > 0) {
        assert((key != NULL) == (j->level[j->depth - 1].end == '}'));
        if (j->level[j->depth - 1].used) putc(',', j->file);
        j->level[j->depth - 1].used = 1;
    }
    if (key) {
        write_string(j->file, key);
        putc(':', j->file);
    }
}

void ldri_json_open(ldri_json *j, const char *key, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    assert(j->depth < LDRI_JSON_DEPTH);
    begin_value(j, key);
    putc(bracket, j->file);
    j->level[j->depth].end = bracket == '{' ? '}' : ']';
    j->level[j->depth].used = 0;
    j->depth++;
}

void ldri_json_close(ldri_json *j)
{
    assert(j->depth > 0);
    j->depth--;
    putc(j->level[j->depth].end, j->file);
    if (j->depth == 0) putc('\n', j->file);
}

void ldri_json_string(ldri_json *j, const char *key, const char *text)
{
    begin_value(j, key);
    write_string(j->file, text);
}

void ldri_json_uint(ldri_json *j, const char *key, uint64_t value)
{
    begin_value(j, key);
    fprintf(j->file, "%" PRIu64, value);
}

void ldri_json_int(ldri_json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    fprintf(j->file, "%" PRId64, value);
}

void ldri_json_real(ldri_json *j, const char *key, double value)
{
    begin_value(j, key);
    if (isfinite(value)) {
        fprintf(j->file, "%.9g", value);
    } else {
        fputs("null", j->file);
    }
}

void ldri_json_bool(ldri_json *j, const char *key, int value)
{
    begin_value(j, key);
    fputs(value ? "true" : "false", j->file);
}
