#include "loader/plan.h"

#include <assert.h>

#include "loader/rng.h"

static uint32_t bit_length(uint64_t v)
{
    uint32_t n = 0;
    for (; v; v >>= 1) n++;
    return n;
}

ldr_status ldri_plan_init(ldri_plan *p, const ldr_options *o, uint64_t n_samples, ldr_error *err)
{
    if (n_samples == 0) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "there is no sample to plan: the source is empty");
    }
    assert(o->batch >= 1 && o->world >= 1 && o->rank >= 0 && o->rank < o->world);
    ldri_plan plan = {.n_samples = n_samples,
                      .seed = o->seed,
                      .rank = (uint32_t)o->rank,
                      .world = (uint32_t)o->world,
                      .batch = o->batch,
                      .shuffle = o->shuffle,
                      .half_bits = (bit_length(n_samples - 1) + 1) / 2};
    uint64_t share = n_samples / plan.world;
    if (o->keep_last) {
        plan.per_rank = share + (n_samples % plan.world != 0);
        plan.n_batches = plan.per_rank / plan.batch + (plan.per_rank % plan.batch != 0);
    } else {
        plan.n_batches = share / plan.batch;
        plan.per_rank = plan.n_batches * plan.batch;
    }
    if (plan.n_batches == 0) {
        return ldri_error_set(
            err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
            "no batch is full: %llu samples over %u ranks are %llu each, batch is %u: lower batch "
            "or set keep_last to 1",
            (unsigned long long)n_samples, plan.world, (unsigned long long)share, plan.batch);
    }
    *p = plan;
    return LDR_OK;
}

/* A permutation of 0 .. 2^(2 half_bits) - 1: a balanced Feistel network of 8 rounds (M. Luby, C.
 * Rackoff, "How to construct pseudorandom permutations", 1988) with Philox as round function.  The
 * left half is the high one. */
static uint64_t feistel(const ldri_plan *p, uint64_t epoch, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << p->half_bits) - 1;
    uint32_t left = (uint32_t)(x >> p->half_bits), right = (uint32_t)(x & mask);
    for (uint32_t round = 0; round < 8; round++) {
        ldri_words f = ldri_draw(p->seed, epoch, (uint64_t)round << 32 | right, LDRI_DOMAIN_SHUFFLE,
                                 0, 0); /* counter: half, round, epoch, domain */
        uint32_t next = left ^ (f.w[0] & (uint32_t)mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << p->half_bits | right;
}

uint64_t ldri_plan_order(const ldri_plan *p, uint64_t epoch, uint64_t position)
{
    assert(position < p->n_samples);
    if (!p->shuffle) return position;
    /* Walking the cycle until it is back below n_samples restricts the permutation to them; the
     * network's domain is under 4 n_samples wide, so this takes under 4 steps on average. */
    uint64_t x = position;
    do {
        x = feistel(p, epoch, x);
    } while (x >= p->n_samples);
    return x;
}

void ldri_plan_pick(const ldri_plan *p, uint64_t epoch, uint64_t batch, uint32_t index,
                    ldri_pick *out)
{
    assert(index < ldri_plan_batch_count(p, batch));
    out->position = p->rank + (batch * p->batch + index) * p->world;
    out->sample = ldri_plan_order(p, epoch, out->position % p->n_samples);
}

uint32_t ldri_plan_batch_count(const ldri_plan *p, uint64_t batch)
{
    assert(batch < p->n_batches);
    uint64_t left = p->per_rank - batch * p->batch;
    return left < p->batch ? (uint32_t)left : p->batch;
}

uint32_t ldri_plan_batch_padded(const ldri_plan *p, uint64_t batch)
{
    uint32_t count = ldri_plan_batch_count(p, batch);
    /* Only the last position of a rank can lie past the end: the one before is world less, and
     * per_rank is as small as covers all samples. */
    uint64_t last = batch * p->batch + count - 1;
    return p->rank + last * p->world >= p->n_samples;
}

uint64_t ldri_plan_replacement(const ldri_plan *p, uint64_t epoch, uint64_t sample, uint32_t j)
{
    assert(j < 16);
    uint64_t w = ldri_draw(p->seed, epoch, sample, LDRI_DOMAIN_REPLACEMENT, 0, j).w[0];
    /* floor(w n / 2^32), as ldri_choice, for an n of more than 32 bits too. */
    return w * (p->n_samples >> 32) + (w * (p->n_samples & 0xffffffffu) >> 32);
}
