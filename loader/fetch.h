/* fetch.h - a sample's bytes from the caller's own storage. */
#ifndef LDR_FETCH_H
#define LDR_FETCH_H

#include "loader/read.h"

/* As ldri_read_file, through o->fetch.  What the callback may answer stands in loader.h. */
ldr_status ldri_fetch(const ldr_options *o, uint64_t sample, const char *name,
                      const ldri_admission *admission, ldri_buffer *buf, ldri_failure *why);

#endif
