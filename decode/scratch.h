/* scratch.h - a buffer that a decoder keeps from picture to picture. */
#ifndef LDR_SCRATCH_H
#define LDR_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct ldri_scratch { /* zero to start with */
    uint8_t *bytes;
    size_t capacity;
} ldri_scratch;

/* At least n_bytes; what was in it is lost when it grows.  NULL if there is no memory: then the
 * buffer is empty. */
uint8_t *ldri_scratch_reserve(ldri_scratch *s, size_t n_bytes);

/* Frees it if it is above `keep` bytes, so that one giant picture is not paid for for ever. */
void ldri_scratch_trim(ldri_scratch *s, size_t keep);

void ldri_scratch_free(ldri_scratch *s);

#endif
