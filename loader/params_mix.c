#include "loader/params_mix.h"

#include <assert.h>
#include <math.h>

#include "loader/exact_math.h"
#include "loader/rng.h"

enum { /* blocks of four words: 16 for each pair of images, the last of all for callbacks */
       PAIR_BLOCKS = 16,
       BLOCK_BATCH_SEED = 0xfffff
};

static ldri_words draw(const ldr_options *o, uint64_t epoch, uint64_t batch, uint32_t block)
{
    uint64_t index = (uint64_t)(uint32_t)o->rank << 32 | (uint32_t)batch;
    return ldri_draw(o->seed, epoch, index, LDRI_DOMAIN_MIX, 0, block);
}

static double power(double base, double exponent) /* base in [0, 1], exponent above 0 */
{
    return base > 0.0 ? ldri_exp(exponent * ldri_log(base)) : 0.0;
}

/* Beta(alpha, alpha) from two uniform numbers, or -1: refused.  Sources: M. D. Joehnk, 1964, for
 * alpha < 1; above, rejection under the density's maximum, which is at 1/2. */
static double beta_of(double alpha, double u, double v)
{
    if (alpha == 1.0) return u;
    if (alpha > 1.0) return v <= power(4.0 * u * (1.0 - u), alpha - 1.0) ? u : -1.0;
    double x = power(u, 1.0 / alpha), y = power(v, 1.0 / alpha);
    return x + y > 0.0 && x + y <= 1.0 ? x / (x + y) : -1.0;
}

static double draw_beta(const ldr_options *o, uint64_t epoch, uint64_t batch, uint32_t first,
                        double alpha)
{
    for (uint32_t j = 1; j < PAIR_BLOCKS; j++) {
        ldri_words w = draw(o, epoch, batch, first + j);
        for (int k = 0; k < 4; k += 2) {
            double v = beta_of(alpha, ldri_unit(w.w[k]), ldri_unit(w.w[k + 1]));
            if (v >= 0.0) return v;
        }
    }
    return 0.5;
}

/* [*low, *high): `length` around the centre, its odd pixel dropped, cut to the side. */
static void clip(uint32_t centre, uint32_t length, uint32_t side, uint32_t *low, uint32_t *high)
{
    uint32_t half = length / 2;
    *low = centre > half ? centre - half : 0;
    *high = centre + half < side ? centre + half : side;
}

/* Source: timm, mixup.py (rand_bbox, cutmix_bbox_and_lam). */
static void cut(const ldr_options *o, double lambda, const ldri_words *w, ldri_mix_params *out)
{
    double side = sqrt(1.0 - lambda);
    uint32_t height = (uint32_t)((double)o->height * side);
    uint32_t width = (uint32_t)((double)o->width * side);
    clip(ldri_choice(w->w[2], o->height), height, o->height, &out->top, &out->bottom);
    clip(ldri_choice(w->w[3], o->width), width, o->width, &out->left, &out->right);
    double area = (double)(out->bottom - out->top) * (double)(out->right - out->left);
    out->label_weight = (float)(1.0 - area / ((double)o->height * (double)o->width));
}

void ldri_mix_draw(const ldr_options *o, uint64_t epoch, uint64_t batch, uint32_t count, uint32_t i,
                   ldri_mix_params *out)
{
    assert(i < count);
    uint32_t partner = count - 1 - i;
    *out = (ldri_mix_params){.mix = LDRI_MIX_NONE, .partner = partner, .label_weight = 1.0f};
    if (!ldri_mixes(o)) return;
    uint32_t pair = !o->mix_pair ? 0 : i < partner ? i : partner;
    ldri_words w = draw(o, epoch, batch, PAIR_BLOCKS * pair);
    if (!ldri_gate(w.w[0], (double)o->mix_prob)) return;
    int cuts = o->cutmix_alpha > 0.0f &&
               (!(o->mixup_alpha > 0.0f) || ldri_gate(w.w[1], (double)o->mix_switch_prob));
    double alpha = (double)(cuts ? o->cutmix_alpha : o->mixup_alpha);
    double lambda = draw_beta(o, epoch, batch, PAIR_BLOCKS * pair, alpha);
    if (cuts) {
        out->mix = LDRI_CUTMIX;
        cut(o, lambda, &w, out);
    } else {
        out->mix = LDRI_MIXUP;
        out->lambda = out->label_weight = (float)lambda;
        out->rest = (float)(1.0 - lambda);
    }
}

void ldri_mix_describe(const ldri_mix_params *p, ldri_descriptor *d)
{
    d->mix = (uint32_t)p->mix;
    d->partner = p->partner;
    d->lambda = p->lambda;
    d->rest = p->rest;
    d->mix_top = p->top;
    d->mix_left = p->left;
    d->mix_bottom = p->bottom;
    d->mix_right = p->right;
}

uint64_t ldri_batch_seed(const ldr_options *o, uint64_t epoch, uint64_t batch)
{
    ldri_words w = draw(o, epoch, batch, BLOCK_BATCH_SEED);
    return (uint64_t)w.w[1] << 32 | w.w[0];
}
