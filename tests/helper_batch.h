/* helper_batch.h - random batches for tests of back ends, and what the CPU back end makes of them.
 */
#ifndef LDR_HELPER_BATCH_H
#define LDR_HELPER_BATCH_H

#include "loader/backend.h"

typedef enum helper_kind { /* of batches */
    HELPER_ORDINARY = 1,  /* sizes as photographs have them, a little around the final size */
    HELPER_EXTREME = 2,   /* lines of 1 and of 10,000 pixels, very long windows */
    HELPER_EXACT = 4,     /* all of 400 x 350 pixels */
    HELPER_JITTER = 8,    /* all operators in all orders; else none */
    HELPER_ERASE = 16,    /* up to 8 boxes */
    HELPER_MIX = 32,      /* mixup, cutmix or neither, each with its partner */
    HELPER_BICUBIC = 64,  /* all bicubic; else bilinear, bicubic and nearest */
    HELPER_BILINEAR = 128,
    HELPER_ALL_JITTER = 256, /* every operator applied to every picture */
    HELPER_ONE_BOX = 512     /* one box of a quarter of the picture, for every picture */
} helper_kind;

ldri_backend_config helper_config(uint32_t batch, uint32_t width, uint32_t height, ldr_dtype dtype,
                                  ldr_layout layout, ldr_erase erase_mode, int mixes);

/* A configuration that fits any batch of the kinds. */
size_t helper_arena_bytes(uint32_t batch, uint32_t width, uint32_t height, int kinds);

/* Fills an arena with a batch of c->batch samples that is a function of the seed.  Returns the bytes
 * of pixels used. */
size_t helper_fill(const ldri_backend_config *c, const ldri_host_arena *a, uint32_t seed,
                   int kinds);

/* The bytes that images of the batch have. */
size_t helper_images_bytes(const ldri_backend_config *c);

/* What the CPU back end makes of a filled arena: to be freed.  NULL: something failed. */
uint8_t *helper_reference(const ldri_backend_config *c, const ldri_host_arena *a, size_t used);

/* Where two lots of images differ first, as text; NULL if nowhere. */
const char *helper_difference(const ldri_backend_config *c, const ldri_host_arena *a,
                              const uint8_t *expected, const uint8_t *got);

#endif
