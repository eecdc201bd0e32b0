/* arena.h - room in a host arena: a bump allocator with a debt.
 *
 * A batch's samples share one arena.  Each may put its crop there, whatever its size, as long as
 * the rest still holds a final picture for every sample that is not settled; else it gets exactly
 * the room of a final picture and its worker resamples into it.  So an arena of batch x final bytes
 * always suffices, and more room only saves workers' time: the result is the same.
 *
 * A sample is settled when its pixels are in place for good: one that failed in its crop's room may
 * then still take a final picture's.  One 64-bit compare-and-swap on {units used, samples not
 * settled}; no order between samples. */
#ifndef LDR_ARENA_H
#define LDR_ARENA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Places begin 16 bytes past a multiple of 32, and pitches are multiples of 32.  Where rows begin
 * on a multiple of 32, libjpeg-turbo writes them past the cache, and the resample that follows waits
 * for memory: 5 % of a decode (CONTRIBUTING.md).  A GPU reads 16 bytes at a time: that is kept. */
#define LDRI_ARENA_UNIT      32u
#define LDRI_ARENA_SKEW      16u
#define LDRI_ARENA_MAX_BYTES ((size_t)UINT32_MAX * LDRI_ARENA_UNIT) /* more is not used */

typedef struct ldri_arena {
    _Atomic uint64_t state;   /* used units << 32 | samples not settled */
    uint32_t capacity, final; /* units */
} ldri_arena;

/* capacity_bytes >= samples * final_bytes + LDRI_ARENA_SKEW for every later reset; final_bytes a
 * multiple of the unit. */
void ldri_arena_init(ldri_arena *a, size_t capacity_bytes, size_t final_bytes);
void ldri_arena_reset(ldri_arena *a, uint32_t samples); /* by the owner, no other thread inside */

/* Room for a crop: 1 and *offset in bytes, or 0 if there is none.  The sample stays unsettled. */
int ldri_arena_take_crop(ldri_arena *a, size_t bytes, size_t *offset);

/* Room for a final picture: always there, once per sample.  Settles the sample. */
size_t ldri_arena_take_final(ldri_arena *a);

/* The sample's crop is in place. */
void ldri_arena_settle(ldri_arena *a);

size_t ldri_arena_used(const ldri_arena *a); /* bytes from the start to the end of the last place */

#endif
