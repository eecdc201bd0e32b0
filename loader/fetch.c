#include "loader/fetch.h"

#include <errno.h>

#define FIRST_BYTES ((size_t)256 << 10) /* what the first call is given at least */
#define TRIES       4 /* a sample that is larger each time it is asked for is being written */

static ldr_status callback_failed(ldri_failure *why, int code, const char *what)
{
    return ldri_failure_set(why, LDR_E_CALLBACK, LDR_CAUSE_NONE, code, "fetch returned %d%s", code,
                            what);
}

/* Room for n bytes, within the limits. */
static ldr_status make_room(const ldr_options *o, size_t n, const ldri_admission *admission,
                            ldri_buffer *buf, ldri_failure *why)
{
    if (n > o->max_file) {
        return ldri_failure_set(why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                                "%zu bytes, more than max_file %zu", n, o->max_file);
    }
    ldr_status s = ldri_admit(admission, n, why);
    if (s < 0) return s;
    if (ldri_buffer_reserve(buf, n) < 0) {
        return ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, ENOMEM,
                                "out of memory for %zu bytes of a sample", n);
    }
    return LDR_OK;
}

ldr_status ldri_fetch(const ldr_options *o, uint64_t sample, const char *name,
                      const ldri_admission *admission, ldri_buffer *buf, ldri_failure *why)
{
    /* No more than a sample may have at all: then what is refused is what is too large. */
    size_t most = o->max_file < o->decode_limit ? o->max_file : o->decode_limit;
    size_t need = FIRST_BYTES < most ? FIRST_BYTES : most;
    for (int try = 0; try < TRIES; try++) {
        buf->n = 0;
        ldr_status s = make_room(o, need, admission, buf, why);
        if (s < 0) return s;
        size_t given = need, length = given; /* what was admitted, whatever the buffer has */
        int code = o->fetch(o->fetch_user, sample, name, buf->bytes, &length);
        if (code == LDR_OK && length > given) {
            return callback_failed(why, code, " with more bytes than it was given room for");
        }
        if (code == LDR_OK) {
            buf->n = length;
            if (length == 0) {
                return ldri_failure_set(why, LDR_E_FORMAT, LDR_CAUSE_EMPTY, 0, "no bytes");
            }
            return LDR_OK;
        }
        if (code == LDR_E_IO) {
            return ldri_failure_set(why, LDR_E_IO, LDR_CAUSE_UNREADABLE, code,
                                    "fetch cannot get it");
        }
        if (code != LDR_E_LIMIT) return callback_failed(why, code, "");
        if (length <= given) {
            return callback_failed(why, code, " but asked for no more room than it had");
        }
        need = length;
    }
    return callback_failed(why, LDR_E_LIMIT, " each time it was called again");
}
