#include <assert.h>

#include "gpu/resample.h"
#include "loader/window.h"

/* The stored pixels that the axis' outputs take; 0 if one of them is not stored. */
static int take_indices(const ldri_axis *a, uint32_t *at)
{
    /* As ldri_nearest, which begins anew for each output. */
    double scale = (double)a->n / a->m, sum = scale * 0.5;
    for (uint32_t i = 0; i < a->first; i++) sum += scale;
    for (uint32_t j = 0; j < a->count; j++, sum += scale) {
        uint32_t index = (uint32_t)sum;
        if (index >= a->n) index = a->n - 1;
        if (index < a->stored || index - a->stored >= a->n_stored) return 0;
        at[j] = index - a->stored;
    }
    return 1;
}

ldr_status ldri_resample_nearest(const ldri_descriptor *d, const uint8_t *crop, uint32_t *indices,
                                 uint8_t *out, size_t out_pitch)
{
    uint32_t *across = indices, *down = indices + d->x.count;
    assert(d->filter == LDR_NEAREST);
    if (!take_indices(&d->x, across) || !take_indices(&d->y, down)) return LDR_E_INTERNAL;
    for (uint32_t y = 0; y < d->y.count; y++) {
        const uint8_t *row = crop + (size_t)down[y] * d->pitch;
        uint8_t *to = out + y * out_pitch;
        for (uint32_t x = 0; x < d->x.count; x++, to += 3) {
            const uint8_t *from = row + 3 * (size_t)across[x];
            to[0] = from[0];
            to[1] = from[1];
            to[2] = from[2];
        }
    }
    return LDR_OK;
}
