/* plan.h - which sample stands where: a pure function of (options, number of samples, seed, epoch,
 * position).
 *
 * The order of an epoch is one permutation of 0 .. N-1 (or the list order), without a table.  Rank
 * r of W takes positions r, r + W, r + 2W, ...  A sample's place in its rank's sequence is q =
 * batch * batch_size + index; its position is r + q * W. */
#ifndef LDR_PLAN_H
#define LDR_PLAN_H

#include "loader/status.h"

typedef struct ldri_plan {
    uint64_t n_samples, seed;
    uint32_t rank, world, batch;
    uint32_t shuffle;
    uint64_t per_rank;  /* samples of a rank in an epoch, repeats at the end included */
    uint64_t n_batches; /* of a rank in an epoch */
    uint32_t half_bits; /* of the Feistel network */
} ldri_plan;

typedef struct ldri_pick {
    uint64_t position; /* in the epoch's order; >= n_samples for a padding repeat */
    uint64_t sample;   /* list index */
} ldri_pick;

/* LDR_E_INVALID if an epoch of a rank has no batch (keep_last 0 and too few samples), with the
 * remedy in *err. */
ldr_status ldri_plan_init(ldri_plan *p, const ldr_options *o, uint64_t n_samples, ldr_error *err);
uint64_t ldri_plan_order(const ldri_plan *p, uint64_t epoch,
                         uint64_t position); /* position < n_samples -> sample */
void ldri_plan_pick(const ldri_plan *p, uint64_t epoch, uint64_t batch, uint32_t index,
                    ldri_pick *out);
uint32_t ldri_plan_batch_count(const ldri_plan *p, uint64_t batch); /* images in a batch */
uint32_t ldri_plan_batch_padded(const ldri_plan *p,
                                uint64_t batch); /* of those, repeats at the end */
/* Candidate j = 0 .. 15 to stand in for bad `sample`. */
uint64_t ldri_plan_replacement(const ldri_plan *p, uint64_t epoch, uint64_t sample, uint32_t j);

#endif
