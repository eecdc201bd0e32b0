/* rng.h - counter-based random numbers: Philox4x32-10, and what its words mean.  C and CUDA.
 *
 * Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * Every quantity has a fixed place (key = seed, counter = what it is for): nothing is "the next
 * number of a stream". */
#ifndef LDR_RNG_H
#define LDR_RNG_H

#include <stdint.h>

#ifdef __CUDACC__
#define LDRI_HD __host__ __device__
#else
#define LDRI_HD
#endif

typedef struct ldri_words {
    uint32_t w[4];
} ldri_words;

static LDRI_HD inline ldri_words ldri_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                             uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ldri_words out = {{c0, c1, c2, c3}};
    return out;
}

typedef enum ldri_domain { /* high 4 bits of the counter's last word */
                           LDRI_DOMAIN_SAMPLE =
                               0, /* c0, c1 sample; c2 epoch: parameters of a sample */
                           LDRI_DOMAIN_MIX = 1, /* c0 batch, c1 rank; c2 epoch: mixup, cutmix */
                           LDRI_DOMAIN_ERASE =
                               2, /* c0, c1 sample; c2 epoch; block = 4 values: erasing noise */
                           LDRI_DOMAIN_SHUFFLE = 3, /* c0 half, c1 round; c2 epoch */
                           LDRI_DOMAIN_REPLACEMENT =
                               4 /* c0, c1 sample; c2 epoch; block = candidate */
} ldri_domain;

/* Words of block `block` of a domain for (seed, epoch, index).  repeat: copy number, 0 .. 255. */
static LDRI_HD inline ldri_words ldri_draw(uint64_t seed, uint64_t epoch, uint64_t index,
                                           uint32_t domain, uint32_t repeat, uint32_t block)
{
    uint32_t c3 = (domain << 28) + (repeat << 20) + block;
    return ldri_philox((uint32_t)index, (uint32_t)(index >> 32), (uint32_t)epoch, c3,
                       (uint32_t)seed, (uint32_t)(seed >> 32));
}

static LDRI_HD inline double ldri_unit(uint32_t w) /* [0, 1), exact */
{
    return w * 0x1p-32;
}

static LDRI_HD inline double ldri_uniform(uint32_t w, double a, double b) /* [a, b) */
{
    return a + (b - a) * ldri_unit(w);
}

static LDRI_HD inline uint32_t ldri_choice(uint32_t w, uint32_t k) /* 0 .. k-1 */
{
    return (uint32_t)(((uint64_t)w * k) >> 32);
}

/* 1 with probability p.  p >= 1: always, p <= 0: never. */
static LDRI_HD inline int ldri_gate(uint32_t w, double p)
{
    if (p >= 1.0) return 1;
    if (!(p > 0.0)) return 0;
    return w < (uint64_t)(p * 0x1p32); /* the cast is floor: p is positive */
}

#define LDRI_NORMAL_STEPS 1024u /* of a table of quantiles, which has one entry more */

/* N(0,1) from -3.8 to 3.8.  31 bits choose a place between two quantiles of the positive half, the
 * top bit the sign. */
static LDRI_HD inline float ldri_normal(uint32_t w, const float *quantiles)
{
    uint32_t a = w & 0x7fffffffu, at = a >> 21;
    float f = (float)(a & 0x1fffffu) * 0x1p-21f;
    float low = quantiles[at], high = quantiles[at + 1];
    float z = low + f * (high - low);
    return w >> 31 ? -z : z;
}

#endif
