#include "decode/scratch.h"

#include <stdlib.h>

uint8_t *ldri_scratch_reserve(ldri_scratch *s, size_t n_bytes)
{
    if (n_bytes <= s->capacity && s->bytes) return s->bytes;
    ldri_scratch_free(s); /* before malloc: the old content is not needed, the memory may be */
    s->bytes = malloc(n_bytes ? n_bytes : 1);
    if (s->bytes) s->capacity = n_bytes;
    return s->bytes;
}

void ldri_scratch_trim(ldri_scratch *s, size_t keep)
{
    if (s->capacity > keep) ldri_scratch_free(s);
}

void ldri_scratch_free(ldri_scratch *s)
{
    free(s->bytes);
    s->bytes = NULL;
    s->capacity = 0;
}
