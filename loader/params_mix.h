/* params_mix.h - what is drawn for a batch: mixup and cutmix.  A pure function of (options, seed,
 * epoch, rank, batch, count of images in the batch). */
#ifndef LDR_PARAMS_MIX_H
#define LDR_PARAMS_MIX_H

#include "loader/descriptor.h"
#include "loader/status.h"

typedef struct ldri_mix_params { /* of one image */
    ldri_mix mix;
    uint32_t partner;   /* place in the batch */
    float lambda, rest; /* mixup: weights of the two images */
    float label_weight; /* of the own label: mixup: lambda; cutmix: the share that is left */
    uint32_t top, left, bottom, right; /* cutmix: the partner's part */
} ldri_mix_params;

static inline int ldri_mixes(const ldr_options *o)
{
    return o->mixup_alpha > 0.0f || o->cutmix_alpha > 0.0f;
}

/* For image i of `count`; partners have the same draw. */
void ldri_mix_draw(const ldr_options *o, uint64_t epoch, uint64_t batch, uint32_t count, uint32_t i,
                   ldri_mix_params *out);

void ldri_mix_describe(const ldri_mix_params *p, ldri_descriptor *d);

/* What a callback may draw from, for one batch. */
uint64_t ldri_batch_seed(const ldr_options *o, uint64_t epoch, uint64_t batch);

#endif
