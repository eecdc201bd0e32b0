/* odd.h - one pixel of a final picture by itself, whatever the windows' length: for the few samples
 * whose windows no table holds.  C and CUDA; contraction must be off. */
#ifndef LDR_ODD_H
#define LDR_ODD_H

#include "gpu/axis_table.h"

typedef struct ldri_odd_line { /* one output of one axis */
    int inside, single;
    uint32_t lo, taps;
    ldri_weigher weigher;
} ldri_odd_line;

static LDRI_HD inline ldri_odd_line ldri_odd_line_of(const ldri_axis *a, int filter, uint32_t at)
{
    ldri_odd_line line;
    line.inside = at >= a->dst && at < a->dst + a->count;
    line.single = a->n == a->m || filter == LDR_NEAREST;
    if (!line.inside) return line;
    uint32_t hi, j = at - a->dst + a->first;
    ldri_axis_window(a, filter, j, &line.lo, &hi);
    line.taps = hi - line.lo;
    if (!line.single)
        line.weigher = ldri_weigher_of(a->n, a->m, filter, j, line.lo + a->stored, line.taps);
    return line;
}

static LDRI_HD inline int32_t ldri_odd_weight(const ldri_odd_line *line, uint32_t k)
{
    return line->single ? 1 << LDRI_WEIGHT_BITS : ldri_weight(&line->weigher, k);
}

/* Pixel (x, y) of the final picture. */
static LDRI_HD inline void ldri_odd_pixel(const ldri_descriptor *d, const uint8_t *crop, uint32_t x,
                                          uint32_t y, uint8_t rgb[3])
{
    ldri_odd_line across = ldri_odd_line_of(&d->x, d->filter, x);
    ldri_odd_line down = ldri_odd_line_of(&d->y, d->filter, y);
    int32_t total[3] = {LDRI_WEIGHT_ROUND, LDRI_WEIGHT_ROUND, LDRI_WEIGHT_ROUND};
    uint32_t rows = across.inside && down.inside ? down.taps : 0;
    for (uint32_t j = 0; j < rows; j++) {
        const uint8_t *in = crop + (size_t)(down.lo + j) * d->pitch + 3 * (size_t)across.lo;
        int32_t sum[3] = {LDRI_WEIGHT_ROUND, LDRI_WEIGHT_ROUND, LDRI_WEIGHT_ROUND};
        for (uint32_t k = 0; k < across.taps; k++, in += 3) {
            int32_t q = ldri_odd_weight(&across, k);
            for (int c = 0; c < 3; c++) sum[c] += q * in[c];
        }
        int32_t q = ldri_odd_weight(&down, j);
        for (int c = 0; c < 3; c++) total[c] += q * ldri_weighted_byte(sum[c]);
    }
    for (int c = 0; c < 3; c++) rgb[c] = ldri_weighted_byte(total[c]);
}

#endif
