/* block.h - a buffer that a decoder keeps from picture to picture. */
#ifndef LDR_BLOCK_H
#define LDR_BLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef struct ldri_block { /* zero to start with */
    uint8_t *bytes;
    size_t capacity;
} ldri_block;

/* At least n_bytes; what was in it is lost when it grows.  NULL if there is no memory: then the
 * buffer is empty. */
uint8_t *ldri_block_reserve(ldri_block *s, size_t n_bytes);

/* Frees it if it is above `keep` bytes, so that one giant picture is not paid for for ever. */
void ldri_block_trim(ldri_block *s, size_t keep);

void ldri_block_free(ldri_block *s);

#endif
