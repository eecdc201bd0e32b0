/* options.h - a caller's options, checked. */
#ifndef LDR_OPTIONS_H
#define LDR_OPTIONS_H

#include "loader/status.h"

/* Copies *in, whose `size` may be another version's: fields it lacks get their defaults, bytes that
 * this version does not know must be zero.  Checks that every field is in its range; *out then has
 * this version's size.  Strings stay the caller's.  LDR_E_INVALID, one line in *err with the field
 * and what is allowed, and *out untouched if not.  in NULL: refused likewise. */
ldr_status ldri_options_resolve(const ldr_options *in, ldr_options *out, ldr_error *err);

#endif
