/* colour_lanes.h - the colour operators for one vector level, which defines its registers and their
 * operations and then includes this file:
 *     LANES, INLINE, TARGET, ints (LANES 32-bit values), reals (LANES floats),
 *     all(int), all_real(float), real(ints), whole(reals) towards zero,
 *     add, subtract, min, max, absolute, times (of values that 16 bits hold), add_real, times_real,
 *     divide_real, fused (a b + c, rounded once),
 *     choose(a, b, x, y): b where x == y, else a; add_where_negative(n, a): n + a where n < 0;
 *     falls_short(h, p, n): h - 1 where p == n and the bit h of ldri_hue_falls_short is set,
 *     load(rgb, &r, &g, &b), store(rgb, r, g, b) of LANES pixels, sum_of(ints).
 *
 * A channel of LANES pixels is a register of 32-bit values from the load to the store; what has
 * fractions is computed in floats and truncated.  Products and sums of whole numbers below 2^24 are
 * exact in floats, in any order and fused or not; a blend's two roundings are those of colour.h.
 * Pixels go through the steps in tiles, which fit the first cache, so that a step's constants stay
 * in registers. */
#ifndef LDR_COLOUR_LANES_H
#define LDR_COLOUR_LANES_H

#include <string.h>

#include "gpu/colour.h"
#include "gpu/colour_cpu.h"

#define TILE        8 /* registers of a channel */
#define TILE_PIXELS (TILE * LANES)

typedef struct tile {
    ints r[TILE], g[TILE], b[TILE];
} tile;

#define EACH _Pragma("GCC unroll 2") for (int i = 0; i < TILE; i++)

/* Shares of 2^-16: each sum has 24 bits at most. */
INLINE ints luma(ints r, ints g, ints b)
{
    reals sum = fused(real(r), all_real(19595 / 65536.0f), all_real(0.5f));
    sum = fused(real(g), all_real(38470 / 65536.0f), sum);
    sum = fused(real(b), all_real(7471 / 65536.0f), sum);
    return whole(sum);
}

INLINE ints bounded(ints v, const int bounds)
{
    return bounds ? min(max(v, all(0)), all(255)) : v;
}

INLINE ints blend(ints from, ints x, reals factor, const int bounds)
{
    reals t = times_real(factor, real(subtract(x, from)));
    return bounded(whole(add_real(real(from), t)), bounds);
}

INLINE void scale_tile(tile *t, float factor, const int bounds) /* blend from 0 */
{
    reals f = all_real(factor);
    EACH
    {
        t->r[i] = bounded(whole(times_real(f, real(t->r[i]))), bounds);
        t->g[i] = bounded(whole(times_real(f, real(t->g[i]))), bounds);
        t->b[i] = bounded(whole(times_real(f, real(t->b[i]))), bounds);
    }
}

INLINE void blend_tile(tile *t, int from, float factor, const int bounds)
{
    reals f = all_real(factor);
    EACH
    {
        t->r[i] = blend(all(from), t->r[i], f, bounds);
        t->g[i] = blend(all(from), t->g[i], f, bounds);
        t->b[i] = blend(all(from), t->b[i], f, bounds);
    }
}

INLINE void saturate_tile(tile *t, float factor, const int bounds)
{
    reals f = all_real(factor);
    EACH
    {
        ints l = luma(t->r[i], t->g[i], t->b[i]);
        t->r[i] = blend(l, t->r[i], f, bounds);
        t->g[i] = blend(l, t->g[i], f, bounds);
        t->b[i] = blend(l, t->b[i], f, bounds);
    }
}

INLINE void grey_tile(tile *t)
{
    EACH t->r[i] = t->g[i] = t->b[i] = luma(t->r[i], t->g[i], t->b[i]);
}

/* n / d for n < 2^24: a quotient that is not whole is farther below the next whole number than the
 * division's rounding can take it. */
INLINE ints quotient(ints n, ints d)
{
    return whole(divide_real(real(n), real(d)));
}

/* v - (v s w + 32512) / 65025 in integers.  That the float product, rounded once, falls on the
 * right side of every whole number was tried out for all v s and w; tests do it again. */
INLINE ints channel(ints v, reals vs, ints w)
{
    reals x = times_real(vs, real(bounded(w, 1)));
    return subtract(v, whole(fused(x, all_real(1.0f / 65025.0f), all_real(0.5f))));
}

/* In three passes, because in one the chain of dependent operations is so long that too few of the
 * tile's registers are at work at once. */
INLINE void hue_tile(tile *t, int shift)
{
    const ints full = all(255), one = all(1);
    ints v[TILE], vs[TILE], n[TILE], c6[TILE];
    EACH
    {
        ints r = t->r[i], g = t->g[i], b = t->b[i];
        v[i] = max(max(r, g), b);
        ints c = subtract(v[i], min(min(r, g), b));
        vs[i] = times(v[i], quotient(times(c, full), max(v[i], one)));
        ints c2 = add(c, c), c4 = add(c2, c2);
        c6[i] = add(c2, c4);
        n[i] = choose(add(c4, subtract(r, g)), add(c2, subtract(b, r)), v[i], g);
        n[i] = times(add_where_negative(choose(n[i], subtract(g, b), v[i], r), c6[i]), full);
    }
    EACH
    {
        ints h = quotient(n[i], max(c6[i], one));
        h = modulo_256(add(falls_short(h, times(h, c6[i]), n[i]), all(shift)));
        n[i] = times(h, all(6));
    }
    EACH
    {
        ints red = absolute(subtract(n[i], all(765)));
        ints green = absolute(subtract(n[i], all(510)));
        ints blue = absolute(subtract(n[i], all(1020)));
        t->r[i] = channel(v[i], real(vs[i]), subtract(all(510), red));
        t->g[i] = channel(v[i], real(vs[i]), subtract(green, full));
        t->b[i] = channel(v[i], real(vs[i]), subtract(blue, full));
    }
}

INLINE void step_tile(tile *t, const ldri_colour_step *s)
{
    int bounds = !(s->factor <= 1.0f); /* a factor up to 1 does not leave 0 .. 255 */
    switch (s->kind) {
    case LDRI_STEP_BLEND:
        if (s->from == 0 && bounds)
            scale_tile(t, s->factor, 1);
        else if (s->from == 0)
            scale_tile(t, s->factor, 0);
        else if (bounds)
            blend_tile(t, s->from, s->factor, 1);
        else
            blend_tile(t, s->from, s->factor, 0);
        break;
    case LDRI_STEP_SATURATION:
        if (bounds)
            saturate_tile(t, s->factor, 1);
        else
            saturate_tile(t, s->factor, 0);
        break;
    case LDRI_STEP_HUE:
        hue_tile(t, s->hue);
        break;
    case LDRI_STEP_GREY:
        grey_tile(t);
        break;
    }
}

INLINE void load_tile(tile *t, const uint8_t *rgb)
{
    EACH load(rgb + i * 3 * LANES, &t->r[i], &t->g[i], &t->b[i]);
}

INLINE void store_tile(const tile *t, uint8_t *rgb)
{
    EACH store(rgb + i * 3 * LANES, t->r[i], t->g[i], t->b[i]);
}

TARGET static uint64_t run(const ldri_colour_step *steps, uint32_t n_steps, uint8_t *rgb, size_t n,
                           int wants_luma)
{
    tile t;
    ints sums = all(0); /* LDRI_COLOUR_SPAN keeps them below 2^32 */
    for (; n >= TILE_PIXELS; n -= TILE_PIXELS, rgb += 3 * TILE_PIXELS) {
        load_tile(&t, rgb);
        for (uint32_t k = 0; k < n_steps; k++) step_tile(&t, &steps[k]);
        if (wants_luma) EACH sums = add(sums, luma(t.r[i], t.g[i], t.b[i]));
        if (n_steps > 0) store_tile(&t, rgb);
    }
    uint64_t sum = sum_of(sums);
    if (n == 0) return sum;
    uint8_t rest[3 * TILE_PIXELS] = {0};
    memcpy(rest, rgb, 3 * n);
    load_tile(&t, rest);
    for (uint32_t k = 0; k < n_steps; k++) step_tile(&t, &steps[k]);
    store_tile(&t, rest);
    for (size_t i = 0; i < n; i++) sum += ldri_luma(rest[3 * i], rest[3 * i + 1], rest[3 * i + 2]);
    if (n_steps > 0) memcpy(rgb, rest, 3 * n);
    return sum;
}

#endif
