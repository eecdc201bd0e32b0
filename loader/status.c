#include "loader/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ldr_status_name(ldr_status s)
{
    switch (s) {
    case LDR_OK:
        return "LDR_OK";
    case LDR_END:
        return "LDR_END";
    case LDR_TIMEOUT:
        return "LDR_TIMEOUT";
    case LDR_BUSY:
        return "LDR_BUSY";
    case LDR_E_INVALID:
        return "LDR_E_INVALID";
    case LDR_E_NOMEM:
        return "LDR_E_NOMEM";
    case LDR_E_IO:
        return "LDR_E_IO";
    case LDR_E_FORMAT:
        return "LDR_E_FORMAT";
    case LDR_E_LIMIT:
        return "LDR_E_LIMIT";
    case LDR_E_UNSUPPORTED:
        return "LDR_E_UNSUPPORTED";
    case LDR_E_CUDA:
        return "LDR_E_CUDA";
    case LDR_E_CALLBACK:
        return "LDR_E_CALLBACK";
    case LDR_E_STATE:
        return "LDR_E_STATE";
    case LDR_E_ABORTED:
        return "LDR_E_ABORTED";
    case LDR_E_FORKED:
        return "LDR_E_FORKED";
    case LDR_E_INTERNAL:
        return "LDR_E_INTERNAL";
    }
    return "LDR_E_?";
}

const char *ldr_cause_name(ldr_cause c)
{
    switch (c) {
    case LDR_CAUSE_NONE:
        return "none";
    case LDR_CAUSE_MISSING:
        return "missing";
    case LDR_CAUSE_UNREADABLE:
        return "unreadable";
    case LDR_CAUSE_EMPTY:
        return "empty";
    case LDR_CAUSE_FORMAT:
        return "format";
    case LDR_CAUSE_UNSUPPORTED:
        return "unsupported";
    case LDR_CAUSE_DAMAGED:
        return "damaged";
    case LDR_CAUSE_LIMIT:
        return "limit";
    case LDR_N_CAUSES:
        break;
    }
    return "?";
}

uint32_t ldr_version(void)
{
    return LDR_VERSION_MAJOR << 16 | LDR_VERSION_MINOR << 8 | LDR_VERSION_PATCH;
}

/* Source: Unicode 15, table 3-7.  The NUL at the end of a text is no continuation byte, so nothing
 * is read beyond it. */
size_t ldri_utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    size_t n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

/* Bytes of the character at s that may be printed as they are: no C0 or C1 control, well-formed;
 * else 0. */
static size_t printable_length(const unsigned char *s)
{
    if (s[0] < 0x20 || s[0] == 0x7f) return 0;
    if (s[0] == 0xc2 && s[1] < 0xa0) return 0;
    return ldri_utf8_length(s);
}

static void make_printable(char *text)
{
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        size_t n = printable_length(s);
        if (n == 0) *s = '?';
        s += n ? n : 1;
    }
}

ldr_status ldri_failure_set(ldri_failure *f, ldr_status status, ldr_cause cause, int detail,
                            const char *format, ...)
{
    if (f) {
        f->status = status;
        f->cause = cause;
        f->detail = detail;
        va_list args;
        va_start(args, format);
        vsnprintf(f->text, sizeof f->text, format, args);
        va_end(args);
        make_printable(f->text);
    }
    return status;
}

ldr_status ldri_error_set(ldr_error *err, ldr_status status, int detail, uint64_t sample,
                          const char *format, ...)
{
    if (err) {
        err->status = status;
        err->detail = detail;
        err->sample = sample;
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        make_printable(err->message);
    }
    return status;
}

char *ldri_printable_path(char *out, size_t capacity, const char *path)
{
    /* Sizes first, from the right, to find where the part that fits begins. */
    const unsigned char *p = (const unsigned char *)path;
    size_t total = 0;
    for (const unsigned char *s = p; *s;) {
        size_t n = printable_length(s);
        total += n ? n : 4;
        s += n ? n : 1;
    }
    size_t room = capacity - 1, at = 0;
    if (total > room) {
        while (total > room - 3) {
            size_t n = printable_length(p);
            total -= n ? n : 4;
            p += n ? n : 1;
        }
        memcpy(out, "...", 3);
        at = 3;
    }
    while (*p) {
        size_t n = printable_length(p);
        if (n) {
            memcpy(out + at, p, n);
            at += n;
            p += n;
        } else {
            at += (size_t)snprintf(out + at, 5, "\\x%02X", *p);
            p++;
        }
    }
    out[at] = 0;
    return out;
}
