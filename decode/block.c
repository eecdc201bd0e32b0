#include "decode/block.h"

#include <stdlib.h>

uint8_t *ldri_block_reserve(ldri_block *s, size_t n_bytes)
{
    if (n_bytes <= s->capacity && s->bytes) return s->bytes;
    ldri_block_free(s); /* before malloc: the old content is not needed, the memory may be */
    n_bytes += n_bytes / 4 + 65536; /* so that it need not grow again for each larger picture */
    s->bytes = malloc(n_bytes);
    if (s->bytes) s->capacity = n_bytes;
    return s->bytes;
}

void ldri_block_trim(ldri_block *s, size_t keep)
{
    if (s->capacity > keep) ldri_block_free(s);
}

void ldri_block_free(ldri_block *s)
{
    free(s->bytes);
    s->bytes = NULL;
    s->capacity = 0;
}
