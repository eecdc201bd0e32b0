/* resample.h - Pillow's resize on bytes: a horizontal pass into bytes, then a vertical one.
 *
 * The driver (resample.c) makes the tables of weights, keeps a sliding window of horizontally
 * resampled rows, and calls the kernels of one SIMD level.  Plain C is the reference, for the
 * vector levels and for kernels of a GPU.
 *
 * A resampler is one worker's: its memory is sized at open for pictures up to 8192 pixels a side,
 * grows when a larger one comes, and is kept.  Its size follows a picture's longer side at most,
 * never its area. */
#ifndef LDR_RESAMPLE_H
#define LDR_RESAMPLE_H

#include "gpu/x86.h"
#include "loader/descriptor.h"
#include "loader/status.h"

/* Room after each row that a horizontal pass writes: vector stores spill into it. */
#define LDRI_RESAMPLE_SPILL 64

/* Four weights of one output, as a vector level wants them. */
typedef struct ldri_block {
    uint32_t at;   /* horizontal: byte of the stored row where 16 bytes are loaded */
    uint32_t back; /* horizontal: 1 if that is 4 bytes before the first pixel, for the row's end */
    uint32_t w[4];
} ldri_block;

/* The weights of outputs of one axis. */
typedef struct ldri_table {
    uint32_t count;      /* outputs */
    uint32_t padded;     /* count, rounded up to 8 if there are blocks; the rest repeats the last */
    uint32_t taps;       /* the most that one output has */
    uint32_t stride;     /* taps rounded up to 4: weights from output to output, the rest 0 */
    uint32_t n_stored;   /* input pixels that are there */
    uint32_t *lo, *n;    /* [padded] output j reads stored pixels lo[j] .. lo[j] + n[j] - 1 */
    int32_t *q;          /* [padded][stride] */
    ldri_block *blocks;  /* [padded][stride / 4]; NULL in plain C */
    void *dense;         /* a level's own form of the table */
    uint32_t dense_kind; /* 0: not made */
    void *memory, *dense_memory;
    size_t memory_bytes, dense_bytes;
} ldri_table;

typedef struct ldri_resample_kernels {
    /* Fills t->q from t->lo and t->n.  first: output pixel of the axis that is entry 0. */
    void (*weights)(ldri_table *t, const ldri_axis *axis, int filter, uint32_t first);
    /* Fills t->blocks, or the level's own form; horizontal tells which pass it is for.  NULL: not
     * needed. */
    ldr_status (*pack)(ldri_table *t, int horizontal);
    /* Four rows of t->n_stored RGB pixels -> four rows of t->count, and up to LDRI_RESAMPLE_SPILL
     * bytes behind them.  Only the first n_rows count; the others repeat a row on input and may be
     * written or not. */
    void (*across)(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                   uint32_t n_rows);
    /* Output `at` from rows[0 .. stride-1], of which those past t->n[at] repeat a row: n_bytes of
     * each are read, n_bytes of out are written. */
    void (*down)(const ldri_table *t, uint32_t at, const uint8_t *const *rows, uint8_t *out,
                 size_t n_bytes);
} ldri_resample_kernels;

extern const ldri_resample_kernels ldri_resample_plain;
#if LDRI_X86
extern const ldri_resample_kernels ldri_resample_avx2;
extern const ldri_resample_kernels ldri_resample_avx512;
#endif

typedef struct ldri_resampler ldri_resampler;

/* width, height: the final picture's sides.  NULL: out of memory. */
ldri_resampler *ldri_resampler_open(const ldri_resample_kernels *kernels, uint32_t width,
                                    uint32_t height);
void ldri_resampler_close(ldri_resampler *r);         /* accepts NULL */
size_t ldri_resampler_bytes(const ldri_resampler *r); /* memory it holds */

/* The stored part of a crop -> the final picture without flips, border included.  Writes 3 * width
 * bytes of each of `height` rows of out; reads 3 * d->x.n_stored bytes of each of d->y.n_stored
 * rows of crop.  LDR_E_NOMEM, or LDR_E_INTERNAL if the descriptor contradicts itself; out is then
 * undefined. */
ldr_status ldri_resampler_run(ldri_resampler *r, const ldri_descriptor *d, const uint8_t *crop,
                              uint8_t *out, size_t out_pitch);

/* Without a filter: the wanted part of the final picture, whose first pixel is at out.  indices:
 * room for d->x.count + d->y.count numbers.  LDR_E_INTERNAL if a pixel is wanted that is not
 * stored. */
ldr_status ldri_resample_nearest(const ldri_descriptor *d, const uint8_t *crop, uint32_t *indices,
                                 uint8_t *out, size_t out_pitch);

/* For levels and tests: makes the table of outputs first .. first + count - 1 of an axis. */
ldr_status ldri_table_make(ldri_table *t, const ldri_resample_kernels *kernels,
                           const ldri_axis *axis, int filter, uint32_t first, uint32_t count,
                           int horizontal);
void ldri_table_free(ldri_table *t);
/* dense_memory of at least that many bytes, 64-byte aligned.  NULL: out of memory. */
void *ldri_table_dense(ldri_table *t, size_t bytes);

#endif
