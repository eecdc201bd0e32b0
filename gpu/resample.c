#include "gpu/resample.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/weights.h"

/* What one table, one window of rows may take before the work is cut into smaller parts.  Ordinary
 * pictures stay far below. */
#define TABLE_BYTES  ((size_t)8 << 20)
#define WINDOW_BYTES ((size_t)16 << 20)
#define TABLE_TAPS   (TABLE_BYTES / sizeof(int32_t) / 8) /* that a vector level's table may have */
#define COMMON_SIDE  8192u /* pictures up to this size do not make a resampler grow */

struct ldri_resampler {
    const ldri_resample_kernels *kernels;
    uint32_t width, height;
    ldri_table x, y;
    uint8_t *window; /* ring of horizontally resampled rows */
    size_t window_bytes;
    const uint8_t **rows; /* what one output row reads */
    size_t n_rows;
    int32_t *sums; /* one row, for windows too tall to be kept */
    size_t n_sums;
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* *memory becomes at least `bytes` large, 64-byte aligned; what was in it is lost. */
static int grow(void **memory, size_t *have, size_t bytes)
{
    if (bytes <= *have) return 1;
    free(*memory);
    *have = 0;
    *memory = aligned_alloc(64, round_up(bytes, 64));
    if (!*memory) return 0;
    *have = bytes;
    return 1;
}

/* --- tables ------------------------------------------------------------------------------- */

/* The most taps that an output of the axis can have. */
static uint32_t taps_bound(uint32_t n, uint32_t m, uint32_t n_stored, int filter)
{
    double scale = (double)n / m;
    double support = ldri_filter_radius(filter) * (scale > 1.0 ? scale : 1.0);
    double taps = 2.0 * ceil(support) + 1.0;
    return taps < n_stored ? (uint32_t)taps : n_stored;
}

/* Places the parts of a table in one block of memory. */
static int table_reserve(ldri_table *t, uint32_t count, uint32_t taps, int blocks)
{
    t->padded = (uint32_t)round_up(count, blocks ? 8 : 1);
    t->stride = (uint32_t)round_up(taps, 4);
    size_t entries = (size_t)t->padded * t->stride;
    size_t index = round_up(t->padded * sizeof(uint32_t), 64);
    size_t weights = round_up(entries * sizeof(int32_t), 64);
    size_t packed = blocks ? entries / 4 * sizeof(ldri_block) : 0;
    if (!grow(&t->memory, &t->memory_bytes, 2 * index + weights + packed)) return 0;
    uint8_t *p = t->memory;
    t->lo = (uint32_t *)p;
    t->n = (uint32_t *)(p + index);
    t->q = (int32_t *)(p + 2 * index);
    t->blocks = blocks ? (ldri_block *)(p + 2 * index + weights) : NULL;
    return 1;
}

void *ldri_table_dense(ldri_table *t, size_t bytes)
{
    return grow(&t->dense_memory, &t->dense_bytes, bytes) ? t->dense_memory : NULL;
}

void ldri_table_free(ldri_table *t)
{
    free(t->memory);
    free(t->dense_memory);
    memset(t, 0, sizeof *t);
}

ldr_status ldri_table_make(ldri_table *t, const ldri_resample_kernels *kernels,
                           const ldri_axis *axis, int filter, uint32_t first, uint32_t count,
                           int horizontal)
{
    assert(count > 0);
    uint32_t bound = taps_bound(axis->n, axis->m, axis->n_stored, filter);
    if (!table_reserve(t, count, bound, kernels->pack != NULL)) return LDR_E_NOMEM;
    t->count = count;
    t->n_stored = axis->n_stored;
    t->taps = 0;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t lo, hi;
        ldri_window(axis->n, axis->m, filter, first + j, &lo, &hi);
        if (lo < axis->stored || hi > (uint64_t)axis->stored + axis->n_stored || lo >= hi)
            return LDR_E_INTERNAL;
        t->lo[j] = lo - axis->stored;
        t->n[j] = hi - lo;
        if (hi - lo > t->taps) t->taps = hi - lo;
    }
    for (uint32_t j = count; j < t->padded; j++) {
        t->lo[j] = t->lo[count - 1];
        t->n[j] = t->n[count - 1];
    }
    assert(t->taps <= bound);
    t->stride = (uint32_t)round_up(t->taps, 4); /* at most what was reserved */
    kernels->weights(t, axis, filter, first);
    t->dense_kind = 0;
    return kernels->pack ? kernels->pack(t, horizontal) : LDR_OK;
}

/* --- plain kernels ------------------------------------------------------------------------ */

static void plain_weights(ldri_table *t, const ldri_axis *axis, int filter, uint32_t first)
{
    memset(t->q, 0, (size_t)t->padded * t->stride * sizeof *t->q);
    for (uint32_t j = 0; j < t->count; j++)
        ldri_weights(axis->n, axis->m, filter, first + j, t->lo[j] + axis->stored, t->n[j],
                     t->q + (size_t)j * t->stride);
    for (uint32_t j = t->count; j < t->padded; j++)
        memcpy(t->q + (size_t)j * t->stride, t->q + (size_t)(t->count - 1) * t->stride,
               t->stride * sizeof *t->q);
}

static void plain_across(const ldri_table *t, const uint8_t *const src[4], uint8_t *const dst[4],
                         uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        uint8_t *out = dst[i];
        for (uint32_t j = 0; j < t->count; j++, out += 3) {
            const uint8_t *in = src[i] + 3 * (size_t)t->lo[j];
            const int32_t *q = t->q + (size_t)j * t->stride;
            int32_t r = LDRI_WEIGHT_ROUND, g = LDRI_WEIGHT_ROUND, b = LDRI_WEIGHT_ROUND;
            for (uint32_t k = 0; k < t->n[j]; k++, in += 3) {
                r += q[k] * in[0];
                g += q[k] * in[1];
                b += q[k] * in[2];
            }
            out[0] = ldri_weighted_byte(r);
            out[1] = ldri_weighted_byte(g);
            out[2] = ldri_weighted_byte(b);
        }
    }
}

static void plain_down(const ldri_table *t, uint32_t at, const uint8_t *const *rows, uint8_t *out,
                       size_t n_bytes)
{
    const int32_t *q = t->q + (size_t)at * t->stride;
    int32_t sums[256];
    for (size_t from = 0; from < n_bytes; from += 256) {
        size_t n = n_bytes - from < 256 ? n_bytes - from : 256;
        for (size_t i = 0; i < n; i++) sums[i] = LDRI_WEIGHT_ROUND;
        for (uint32_t k = 0; k < t->n[at]; k++) {
            const uint8_t *in = rows[k] + from;
            for (size_t i = 0; i < n; i++) sums[i] += q[k] * in[i];
        }
        for (size_t i = 0; i < n; i++) out[from + i] = ldri_weighted_byte(sums[i]);
    }
}

const ldri_resample_kernels ldri_resample_plain = {plain_weights, NULL, plain_across, plain_down};

/* --- the driver --------------------------------------------------------------------------- */

/* One vertical strip of a picture on its way through both passes. */
typedef struct strip {
    ldri_resampler *r;
    const ldri_resample_kernels *across; /* whose horizontal pass it is */
    const ldri_descriptor *d;
    const uint8_t *crop; /* where the strip's first pixel is if the rows are taken as they are */
    int as_is;           /* no horizontal pass */
    size_t n_bytes;      /* of a row of the strip after the horizontal pass */
    size_t row_bytes;    /* from row to row in the window */
    uint8_t *out;
    size_t out_pitch;
} strip;

static const uint8_t *crop_row(const strip *s, uint32_t row)
{
    return s->crop + (size_t)row * s->d->pitch;
}

/* Horizontal pass of stored rows from .. from + n - 1 (n <= 4) into to[0 .. n-1].  The kernels
 * always take four rows; the places of the missing ones are rows of `to` behind, which must exist.
 */
static void rows_across(const strip *s, uint32_t from, uint32_t n, uint8_t *const to[4])
{
    const uint8_t *src[4];
    for (uint32_t i = 0; i < 4; i++) src[i] = crop_row(s, from + (i < n ? i : n - 1));
    s->across->across(&s->r->x, src, to, n);
}

static int rows_reserve(ldri_resampler *r, size_t n)
{
    void *memory = r->rows;
    size_t bytes = r->n_rows * sizeof *r->rows;
    int done = grow(&memory, &bytes, n * sizeof *r->rows);
    r->rows = memory;
    r->n_rows = bytes / sizeof *r->rows;
    return done;
}

static int window_reserve(ldri_resampler *r, size_t bytes)
{
    void *memory = r->window;
    int done = grow(&memory, &r->window_bytes, bytes);
    r->window = memory;
    return done;
}

static int sums_reserve(ldri_resampler *r, size_t n)
{
    void *memory = r->sums;
    size_t bytes = r->n_sums * sizeof *r->sums;
    int done = grow(&memory, &bytes, n * sizeof *r->sums);
    r->sums = memory;
    r->n_sums = bytes / sizeof *r->sums;
    return done;
}

/* No vertical pass. */
static ldr_status strip_flat(const strip *s)
{
    const ldri_axis *y = &s->d->y;
    uint32_t row = y->first - y->stored;
    if (s->as_is) {
        for (uint32_t i = 0; i < y->count; i++)
            memcpy(s->out + i * s->out_pitch, crop_row(s, row + i), s->n_bytes);
        return LDR_OK;
    }
    if (!window_reserve(s->r, 4 * s->row_bytes)) return LDR_E_NOMEM;
    uint8_t *to[4];
    for (uint32_t i = 0; i < 4; i++) to[i] = s->r->window + i * s->row_bytes;
    for (uint32_t i = 0; i < y->count; i += 4) {
        uint32_t n = y->count - i < 4 ? y->count - i : 4;
        rows_across(s, row + i, n, to);
        for (uint32_t k = 0; k < n; k++) memcpy(s->out + (i + k) * s->out_pitch, to[k], s->n_bytes);
    }
    return LDR_OK;
}

/* Both passes with the rows that an output needs in a ring: each row is resampled once. */
static ldr_status strip_window(const strip *s, uint32_t n_ring)
{
    ldri_resampler *r = s->r;
    const ldri_axis *y = &s->d->y;
    const ldri_table *t = &r->y;
    if (!s->as_is && !window_reserve(r, n_ring * s->row_bytes)) return LDR_E_NOMEM;
    uint32_t bound = taps_bound(y->n, y->m, y->n_stored, s->d->filter);
    if (!rows_reserve(r, round_up(bound, 4))) return LDR_E_NOMEM;
    size_t most = TABLE_BYTES / sizeof(int32_t) / bound;
    uint32_t chunk = most > y->count ? y->count : most > 0 ? (uint32_t)most : 1;
    uint32_t made = 0; /* stored rows below this one have been resampled or passed over */
    uint32_t slot = 0; /* made % n_ring, kept without the division */
    for (uint32_t from = 0; from < y->count; from += chunk) {
        uint32_t n_out = y->count - from < chunk ? y->count - from : chunk;
        ldr_status status =
            ldri_table_make(&r->y, r->kernels, y, s->d->filter, y->first + from, n_out, 0);
        if (status < 0) return status;
        for (uint32_t j = 0; j < n_out; j++) {
            uint32_t lo = t->lo[j], hi = lo + t->n[j];
            if (s->as_is) {
                for (uint32_t k = 0; k < t->n[j]; k++) r->rows[k] = crop_row(s, lo + k);
            } else {
                if (made < lo) {
                    slot = (slot + (lo - made) % n_ring) % n_ring;
                    made = lo;
                }
                /* Ahead of what this output needs up to three rows are made; the ring has room for
                 * them beside the rows of one output. */
                while (made < hi) {
                    uint32_t n = y->n_stored - made < 4 ? y->n_stored - made : 4;
                    uint8_t *to[4];
                    for (uint32_t i = 0; i < 4; i++) {
                        uint32_t at = slot + i < n_ring ? slot + i : slot + i - n_ring;
                        to[i] = r->window + at * s->row_bytes;
                    }
                    rows_across(s, made, n, to);
                    made += n;
                    slot = slot + n < n_ring ? slot + n : slot + n - n_ring;
                }
                uint32_t behind = (made - lo) % n_ring;
                assert(made - lo <= n_ring);
                uint32_t at = slot >= behind ? slot - behind : slot + n_ring - behind;
                for (uint32_t k = 0; k < t->n[j]; k++) {
                    r->rows[k] = r->window + at * s->row_bytes;
                    if (++at == n_ring) at = 0;
                }
            }
            for (uint32_t k = t->n[j]; k < t->stride; k++) r->rows[k] = r->rows[t->n[j] - 1];
            r->kernels->down(t, j, r->rows, s->out + (from + j) * s->out_pitch, s->n_bytes);
        }
    }
    return LDR_OK;
}

/* Both passes for windows too tall to be kept: the rows of each output are resampled anew and
 * summed.  The same integers, so the same bytes. */
static ldr_status strip_tall(const strip *s)
{
    ldri_resampler *r = s->r;
    const ldri_axis *y = &s->d->y;
    if (!window_reserve(r, 4 * s->row_bytes)) return LDR_E_NOMEM;
    if (!sums_reserve(r, s->n_bytes)) return LDR_E_NOMEM;
    uint8_t *to[4];
    for (uint32_t i = 0; i < 4; i++) to[i] = r->window + i * s->row_bytes;
    for (uint32_t j = 0; j < y->count; j++) {
        ldr_status status =
            ldri_table_make(&r->y, &ldri_resample_plain, y, s->d->filter, y->first + j, 1, 0);
        if (status < 0) return status;
        for (size_t i = 0; i < s->n_bytes; i++) r->sums[i] = LDRI_WEIGHT_ROUND;
        for (uint32_t k = 0; k < r->y.n[0]; k += 4) {
            uint32_t n = r->y.n[0] - k < 4 ? r->y.n[0] - k : 4;
            if (!s->as_is) rows_across(s, r->y.lo[0] + k, n, to);
            for (uint32_t i = 0; i < n; i++) {
                const uint8_t *row = s->as_is ? crop_row(s, r->y.lo[0] + k + i) : to[i];
                int32_t q = r->y.q[k + i];
                for (size_t c = 0; c < s->n_bytes; c++) r->sums[c] += q * row[c];
            }
        }
        uint8_t *out = s->out + j * s->out_pitch;
        for (size_t c = 0; c < s->n_bytes; c++) out[c] = ldri_weighted_byte(r->sums[c]);
    }
    return LDR_OK;
}

static ldr_status strip_run(const strip *s)
{
    const ldri_axis *y = &s->d->y;
    if (y->n == y->m) return strip_flat(s);
    /* Beside the rows of one output, the four of a horizontal pass. */
    uint64_t taps = taps_bound(y->n, y->m, y->n_stored, s->d->filter), n_ring = taps + 4;
    if (taps > TABLE_TAPS || (!s->as_is && n_ring * s->row_bytes > WINDOW_BYTES))
        return strip_tall(s);
    return strip_window(s, (uint32_t)n_ring);
}

static int axis_holds(const ldri_axis *a, uint32_t side)
{
    if (a->n == 0 || a->m == 0 || a->n_stored == 0) return 0;
    if ((uint64_t)a->first + a->count > a->m || (uint64_t)a->dst + a->count > side) return 0;
    if ((uint64_t)a->stored + a->n_stored > a->n) return 0;
    if (a->n != a->m) return 1; /* windows are checked where they are computed */
    return a->first >= a->stored &&
           (uint64_t)a->first + a->count <= (uint64_t)a->stored + a->n_stored;
}

static void blacken(uint8_t *out, size_t pitch, uint32_t n_rows, size_t n_bytes)
{
    for (uint32_t i = 0; i < n_rows; i++) memset(out + i * pitch, 0, n_bytes);
}

ldr_status ldri_resampler_run(ldri_resampler *r, const ldri_descriptor *d, const uint8_t *crop,
                              uint8_t *out, size_t out_pitch)
{
    const ldri_axis *x = &d->x, *y = &d->y;
    if (x->count == 0 || y->count == 0) {
        blacken(out, out_pitch, r->height, 3 * (size_t)r->width);
        return LDR_OK;
    }
    if (!axis_holds(x, r->width) || !axis_holds(y, r->height) ||
        (d->filter != LDR_BILINEAR && d->filter != LDR_BICUBIC && d->filter != LDR_NEAREST))
        return LDR_E_INTERNAL;
    size_t left = 3 * (size_t)x->dst, middle = 3 * (size_t)x->count;
    size_t right = 3 * (size_t)r->width - left - middle;
    uint8_t *top = out + y->dst * out_pitch;
    blacken(out, out_pitch, y->dst, 3 * (size_t)r->width);
    blacken(top + y->count * out_pitch, out_pitch, r->height - y->dst - y->count,
            3 * (size_t)r->width);
    if (left) blacken(top, out_pitch, y->count, left);
    if (right) blacken(top + left + middle, out_pitch, y->count, right);

    if (d->filter == LDR_NEAREST) {
        if (!sums_reserve(r, (size_t)x->count + y->count)) return LDR_E_NOMEM;
        return ldri_resample_nearest(d, crop, (uint32_t *)r->sums, top + left, out_pitch);
    }
    strip s = {.r = r, .across = r->kernels, .d = d, .crop = crop, .out_pitch = out_pitch};
    uint32_t width = x->count; /* of a strip: all, unless the table of weights would be huge */
    s.as_is = x->n == x->m;
    if (s.as_is) {
        s.crop += 3 * (size_t)(x->first - x->stored);
    } else {
        uint32_t taps = taps_bound(x->n, x->m, x->n_stored, d->filter);
        size_t most = TABLE_BYTES / sizeof(int32_t) / taps;
        if (most < width) width = most > 0 ? (uint32_t)most : 1;
        if (taps > TABLE_TAPS) s.across = &ldri_resample_plain;
    }
    for (uint32_t from = 0; from < x->count; from += width) {
        uint32_t n = x->count - from < width ? x->count - from : width;
        s.n_bytes = 3 * (size_t)n;
        s.row_bytes = round_up(s.n_bytes + LDRI_RESAMPLE_SPILL, 64);
        s.out = top + left + 3 * (size_t)from;
        ldr_status status = LDR_OK;
        if (!s.as_is)
            status = ldri_table_make(&r->x, s.across, x, d->filter, x->first + from, n, 1);
        if (status >= 0) status = strip_run(&s);
        if (status < 0) return status;
    }
    return LDR_OK;
}

/* Makes everything as large as a picture of COMMON_SIDE wants it, and as the smallest one does. */
static int reserve_common(ldri_resampler *r)
{
    uint32_t sides[2] = {r->width, r->height};
    ldri_table *tables[2] = {&r->x, &r->y};
    for (int i = 0; i < 2; i++) {
        uint32_t m = sides[i] < COMMON_SIDE ? sides[i] : COMMON_SIDE;
        uint32_t taps = taps_bound(COMMON_SIDE, m, COMMON_SIDE, LDR_BICUBIC);
        size_t most = TABLE_BYTES / sizeof(int32_t) / taps;
        uint32_t count = most < sides[i] ? (uint32_t)most : sides[i];
        if (!table_reserve(tables[i], count, taps, r->kernels->pack != NULL)) return 0;
    }
    uint32_t taps = taps_bound(COMMON_SIDE, r->height < COMMON_SIDE ? r->height : COMMON_SIDE,
                               COMMON_SIDE, LDR_BICUBIC);
    size_t row = round_up(3 * (size_t)r->width + LDRI_RESAMPLE_SPILL, 64);
    size_t window = (taps + 4) * row;
    if (!window_reserve(r, window < WINDOW_BYTES ? window : 4 * row)) return 0;
    if (!rows_reserve(r, round_up(taps, 4))) return 0;
    if (!sums_reserve(r, 3 * (size_t)r->width + r->height)) return 0;
    /* A level's own form of a table is made by its pack: let it make the longest one it has. */
    if (!r->kernels->pack) return 1;
    for (uint32_t scale = 1; scale <= 8; scale++) {
        if (r->width > COMMON_SIDE / scale) break;
        ldri_axis axis = {.n = scale * r->width + 1, .m = r->width, .count = r->width};
        axis.n_stored = axis.n;
        if (ldri_table_make(&r->x, r->kernels, &axis, LDR_BICUBIC, 0, r->width, 1) < 0) return 0;
    }
    return 1;
}

ldri_resampler *ldri_resampler_open(const ldri_resample_kernels *kernels, uint32_t width,
                                    uint32_t height)
{
    assert(width > 0 && height > 0);
    ldri_resampler *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->kernels = kernels;
    r->width = width;
    r->height = height;
    if (!reserve_common(r)) {
        ldri_resampler_close(r);
        return NULL;
    }
    return r;
}

void ldri_resampler_close(ldri_resampler *r)
{
    if (!r) return;
    ldri_table_free(&r->x);
    ldri_table_free(&r->y);
    free(r->window);
    free(r->rows);
    free(r->sums);
    free(r);
}

size_t ldri_resampler_bytes(const ldri_resampler *r)
{
    return sizeof *r + r->x.memory_bytes + r->x.dense_bytes + r->y.memory_bytes + r->y.dense_bytes +
           r->window_bytes + r->n_rows * sizeof *r->rows + r->n_sums * sizeof *r->sums;
}
