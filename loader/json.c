#include "loader/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

/* Length of the well-formed UTF-8 sequence at s, or 0.  Source: Unicode 15, table 3-7.  The NUL at
 * the end of the text is no continuation byte, so nothing is read beyond it. */
static unsigned utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    unsigned n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (unsigned i = 2; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

static void write_string(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    putc('"', f);
    while (*s) {
        unsigned n = utf8_length(s);
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
