/* resample_blocks.h - the packed table that the vector levels share: four taps a block.
 *
 * A horizontal block is one load of 16 bytes, which hold the four pixels of its taps.  No load may
 * leave the stored row: near its end the load starts 4 bytes before the first pixel (`back`), and
 * if even that is too far the block is moved to the row's last four pixels, its weights with it. */
#ifndef LDR_RESAMPLE_BLOCKS_H
#define LDR_RESAMPLE_BLOCKS_H

#include "gpu/resample.h"

/* With fewer pixels in a row a load could start before it. */
#define LDRI_BLOCK_MIN_STORED 7u

/* Shuffles of a block's 16 bytes by `back`: (tap 0, tap 1) of R, G, B as 16-bit pairs, then (tap 2,
 * tap 3). */
#define LDRI_PAIRS(o)                                                                              \
    {                                                                                              \
        o + 0, 255, o + 3, 255, o + 1, 255, o + 4, 255, o + 2, 255, o + 5, 255, 255, 255, 255,     \
            255, o + 6, 255, o + 9, 255, o + 7, 255, o + 10, 255, o + 8, 255, o + 11, 255, 255,    \
            255, 255, 255                                                                          \
    }
static const uint8_t ldri_pairs_pattern[2][32]
    __attribute__((aligned(32), unused)) = {LDRI_PAIRS(0), LDRI_PAIRS(4)};

/* The four taps of R, of G, of B as bytes. */
#define LDRI_QUADS(o)                                                                              \
    {                                                                                              \
        o + 0, o + 3, o + 6, o + 9, o + 1, o + 4, o + 7, o + 10, o + 2, o + 5, o + 8, o + 11, 255, \
            255, 255, 255                                                                          \
    }
static const uint8_t ldri_quads_pattern[2][16]
    __attribute__((aligned(16), unused)) = {LDRI_QUADS(0), LDRI_QUADS(4)};

/* Fills t->blocks; split turns four weights into the level's words.  Inlined into the level's code,
 * split with it. */
static inline __attribute__((always_inline)) void
ldri_blocks_fill(ldri_table *t, int horizontal, void (*split)(const int32_t q[4], uint32_t w[4]))
{
    uint32_t n_blocks = t->stride / 4;
    const int32_t *q = t->q;
    ldri_block *block = t->blocks;
    if (!horizontal || t->n_stored < LDRI_BLOCK_MIN_STORED) {
        size_t n = (size_t)t->padded * n_blocks;
        for (size_t i = 0; i < n; i++, q += 4, block++) {
            block->at = block->back = 0;
            split(q, block->w);
        }
        return;
    }
    uint32_t last = t->n_stored - 4;
    for (uint32_t j = 0; j < t->padded; j++) {
        for (uint32_t b = 0; b < n_blocks; b++, q += 4, block++) {
            uint32_t pixel = t->lo[j] + 4 * b, moved = 0;
            if (pixel > last) {
                moved = pixel - last;
                pixel = last;
            }
            block->back = pixel > t->n_stored - 6;
            block->at = block->back ? 3 * pixel - 4 : 3 * pixel;
            if (moved == 0) {
                split(q, block->w);
                continue;
            }
            int32_t shifted[4] = {0, 0, 0, 0}; /* taps past the row have weight 0 */
            for (uint32_t i = moved; i < 4; i++) shifted[i] = q[i - moved];
            split(shifted, block->w);
        }
    }
}

#endif
