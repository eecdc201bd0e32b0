/* crops.h - pictures and descriptors for tests of the augmentation. */
#ifndef LDR_CROPS_H
#define LDR_CROPS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/descriptor.h"
#include "loader/window.h"

/* A 32-bit finaliser (C. Wellons, lowbias32). */
static inline uint32_t mix(uint32_t v)
{
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ v >> 16;
}

/* Byte of a picture that Python draws too (make_pixels_digests.py). */
static inline uint8_t picture_byte(int kind, uint32_t seed, uint32_t x, uint32_t y, uint32_t c)
{
    uint32_t noise = mix(mix(mix(seed + x) + y) + c);
    switch (kind) {
    case 0:
        return (uint8_t)(noise >> 24);
    case 1: {
        uint32_t side = seed % 13 + 1;
        return (x / side + y / side + c) % 2 ? 255 : 0;
    }
    case 2:
        return (noise % 17 == 0) != (seed % 2) ? 255 : 0;
    default:
        return (uint8_t)(x * (c + 1) + y * (3 - c) + (seed & 255));
    }
}

/* Sets what is stored of an axis: what the windows of its outputs read, and no more. */
static inline void store_what_is_read(ldri_axis *a, int filter)
{
    uint32_t lo, hi, unused;
    if (a->n == a->m) {
        a->stored = a->first;
        a->n_stored = a->count;
        return;
    }
    ldri_window(a->n, a->m, filter, a->first, &lo, &unused);
    ldri_window(a->n, a->m, filter, a->first + a->count - 1, &unused, &hi);
    a->stored = lo;
    a->n_stored = hi - lo;
}

/* A whole line n -> m. */
static inline ldri_axis whole_axis(uint32_t n, uint32_t m)
{
    return (ldri_axis){.n = n, .m = m, .count = m, .n_stored = n};
}

/* A line n -> m of which the middle `side` are taken, or that lies in the middle of them. */
static inline ldri_axis centred_axis(uint32_t n, uint32_t m, uint32_t side, int filter)
{
    ldri_axis a = {.n = n, .m = m};
    if (m >= side) {
        a.first = (m - side) / 2;
        a.count = side;
    } else {
        a.dst = (side - m) / 2;
        a.count = m;
    }
    store_what_is_read(&a, filter);
    return a;
}

/* Exactly the bytes that a crop has: the last row ends with its last pixel, so that a reader of
 * more is caught by AddressSanitizer. */
static inline size_t crop_bytes(const ldri_descriptor *d)
{
    return (size_t)d->pitch * (d->y.n_stored - 1) + 3 * (size_t)d->x.n_stored;
}

/* The stored part of a crop whose first pixel is (left, top) of a picture; sets d->pitch.  The gaps
 * between rows hold 0xA5. */
static inline uint8_t *draw_crop(ldri_descriptor *d, int kind, uint32_t seed, uint32_t left,
                                 uint32_t top)
{
    d->pitch = ldri_pitch(d->x.n_stored);
    uint8_t *crop = malloc(crop_bytes(d));
    if (!crop) abort();
    memset(crop, 0xA5, crop_bytes(d));
    for (uint32_t y = 0; y < d->y.n_stored; y++)
        for (uint32_t x = 0; x < d->x.n_stored; x++)
            for (uint32_t c = 0; c < 3; c++)
                crop[(size_t)y * d->pitch + 3 * (size_t)x + c] =
                    picture_byte(kind, seed, left + d->x.stored + x, top + d->y.stored + y, c);
    return crop;
}

#endif
