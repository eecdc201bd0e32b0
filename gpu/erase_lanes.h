/* erase_lanes.h - erasing noise for one vector level, which defines its registers and their
 * operations and then includes this file:
 *     LANES, INLINE, TARGET, ints (LANES 32-bit values), reals (LANES floats),
 *     all(int), all_real(float), real(ints), add, bits_and, bits_xor, right(ints, n),
 *     add_real, subtract_real, times_real, bits_of(reals), reals_of(ints),
 *     count() 0, 1, 2, ..., lookup(float *, ints),
 *     products(a, b, &high): the low words of a b, and the high ones,
 *     store_blocks(float *, reals[4]): value k of lane i to 4 i + k.
 *
 * A lane is a block: LANES Philox generators side by side. */
#ifndef LDR_ERASE_LANES_H
#define LDR_ERASE_LANES_H

#include "gpu/erase.h"
#include "gpu/erase_cpu.h"
#include "loader/backend.h"

INLINE reals normal(ints w) /* ldri_normal */
{
    ints a = bits_and(w, all(0x7fffffff)), at = right(a, 21);
    reals f = times_real(real(bits_and(a, all(0x1fffff))), all_real(0x1p-21f));
    reals low = lookup(ldri_normal_quantiles, at), high = lookup(ldri_normal_quantiles + 1, at);
    reals z = add_real(low, times_real(f, subtract_real(high, low)));
    return reals_of(bits_xor(bits_of(z), bits_and(w, all(INT32_MIN))));
}

TARGET static void noise(uint64_t seed, const ldri_descriptor *d, uint32_t first, uint32_t n,
                         float *z)
{
    uint32_t keys[10][2], last = (uint32_t)(LDRI_DOMAIN_ERASE << 28) + (d->repeat << 20) + first;
    for (uint32_t k = 0; k < 10; k++) {
        keys[k][0] = (uint32_t)seed + k * 0x9E3779B9u;
        keys[k][1] = (uint32_t)(seed >> 32) + k * 0xBB67AE85u;
    }
    for (uint32_t i = 0; i < n; i += LANES) {
        ints c[4] = {all((int)(uint32_t)d->sample), all((int)(uint32_t)(d->sample >> 32)),
                     all((int)d->epoch), add(all((int)(last + i)), count())};
        for (uint32_t k = 0; k < 10; k++) { /* ldri_philox */
            ints high_0, high_1, low_0 = products(c[0], all((int)0xD2511F53u), &high_0);
            ints low_1 = products(c[2], all((int)0xCD9E8D57u), &high_1);
            c[0] = bits_xor(bits_xor(high_1, c[1]), all((int)keys[k][0]));
            c[2] = bits_xor(bits_xor(high_0, c[3]), all((int)keys[k][1]));
            c[1] = low_1;
            c[3] = low_0;
        }
        reals out[4] = {normal(c[0]), normal(c[1]), normal(c[2]), normal(c[3])};
        store_blocks(z + 4 * i, out);
    }
}

#endif
