/* axis_table.h - the weights of a sample's two axes, as the kernels read them.  C and CUDA;
 * contraction must be off.
 *
 * There is an entry for each row and column of the final picture; where it has a black border the
 * weights are 0.  An entry is where its window starts and `groups` times four weights, as three
 * words: the low 16 bits of weights 0 and 1, those of 2 and 3, and the high bytes of all four.  So
 * three instructions multiply four weights with four pixels:
 *     sum = (sum of high byte x pixel) 2^16 + sum of low half x pixel
 * exactly.  Two forms:
 *     signed    weights of 22 fraction bits as they are, the high byte signed
 *     positive  for a filter without negative weights: four times as large, so that the result is
 *               the sum's top byte.  1.0 is then 2^24 - 4, as there is no more room; that makes the
 *               sum less by 4 x pixel, far from where the byte would change.
 * A line that keeps its length, and `nearest`, have one weight of 1.0 an entry: the general formula
 * then gives the pixel itself. */
#ifndef LDR_AXIS_TABLE_H
#define LDR_AXIS_TABLE_H

#include "gpu/weights.h"
#include "loader/descriptor.h"

#ifndef LDRI_GROUPS_MAX
#define LDRI_GROUPS_MAX 8u /* 32 weights an entry: bilinear to 1/16 of a side, bicubic to 1/8 */
#endif

/* How a sample comes to its final picture. */
typedef enum ldri_path {
    LDRI_PATH_STRIP, /* two passes over strips, with tables */
    LDRI_PATH_ODD,   /* windows too long for a table: one thread a pixel, weights as they are needed
                      */
    LDRI_PATH_FINAL, /* it came resampled */
    LDRI_PATH_BLACK
} ldri_path;

/* A sample's tables in words.  A column's entry is for one thread, columns side by side:
 *     x_lo[column], x_weights[(3 * group + part) * width + column]
 * A row's is for all threads, and read 16 bytes at a time:
 *     y[row][4 * group]  {lo, weights of group 0}, {hi, weights of group 1}, {0, of group 2}, ...
 */
#define LDRI_ROW_WORDS (4u * LDRI_GROUPS_MAX)

typedef struct ldri_tables {
    uint32_t *head; /* ldri_path, form of x, form of y, unused */
    uint32_t *x_lo, *x_weights;
    uint32_t *y;
} ldri_tables;

static LDRI_HD inline size_t ldri_tables_words(uint32_t width, uint32_t height)
{
    size_t w = width, h = height;
    return (4 + LDRI_ROW_WORDS * h + (1 + 3 * LDRI_GROUPS_MAX) * w + 31) / 32 * 32;
}

static LDRI_HD inline ldri_tables ldri_tables_at(uint32_t *words, uint32_t width, uint32_t height)
{
    ldri_tables t;
    t.head = words;
    t.y = words + 4;
    t.x_lo = t.y + (size_t)LDRI_ROW_WORDS * height;
    t.x_weights = t.x_lo + width;
    return t;
}

/* Fours of weights that hold any window of the axis.  A window of length l at any place holds the
 * centres of at most ceil(l) pixels.  Rounding sometimes adds one pixel more, at the very edge of
 * the filter, where its weight is 0. */
static LDRI_HD inline uint32_t ldri_axis_groups(const ldri_axis *a, int filter)
{
    if (a->n == a->m || filter == LDR_NEAREST) return 1;
    double scale = (double)a->n / a->m;
    double taps = ceil(2.0 * ldri_filter_radius(filter) * (scale > 1.0 ? scale : 1.0));
    if (taps > 4.0 * LDRI_GROUPS_MAX) return LDRI_GROUPS_MAX + 1;
    return ((uint32_t)taps + 3u) / 4u;
}

/* How an axis' weights are stored: its groups, and whether they are in the positive form, which
 * code for few groups knows. */
#define LDRI_FORM_POSITIVE 16u
static LDRI_HD inline uint32_t ldri_axis_form(const ldri_axis *a, int filter)
{
    uint32_t groups = ldri_axis_groups(a, filter);
    int positive = groups <= 2 && (filter != LDR_BICUBIC || a->n == a->m);
    return groups + (positive ? LDRI_FORM_POSITIVE : 0u);
}

/* Bytes from row to row of a crop that goes by strips: those of the longest line that has tables.
 */
static LDRI_HD inline uint32_t ldri_strip_pitch(uint32_t width)
{
    return 48u * width + 128u;
}

static LDRI_HD inline ldri_path ldri_path_of(const ldri_descriptor *d, uint32_t width)
{
    if (d->kind == LDRI_RGB_FINAL) return LDRI_PATH_FINAL;
    if (d->x.count == 0 || d->y.count == 0) return LDRI_PATH_BLACK;
    if (ldri_axis_groups(&d->x, d->filter) > LDRI_GROUPS_MAX ||
        ldri_axis_groups(&d->y, d->filter) > LDRI_GROUPS_MAX || d->pitch > ldri_strip_pitch(width))
        return LDRI_PATH_ODD;
    return LDRI_PATH_STRIP;
}

/* Input pixels [*lo, *hi) that output j of the axis reads, counted from the first stored one. */
static LDRI_HD inline void ldri_axis_window(const ldri_axis *a, int filter, uint32_t j,
                                            uint32_t *lo, uint32_t *hi)
{
    if (a->n == a->m) {
        *lo = j;
        *hi = j + 1;
    } else {
        ldri_window(a->n, a->m, filter, j, lo, hi);
    }
    *lo -= a->stored;
    *hi -= a->stored;
}

/* Entry `at` of an axis of the final picture: window, and the words of its weights, part p of group
 * g at weights[g * group_stride + p * stride].  Entries of a border have the window of the nearest
 * entry inside, so that windows never go backwards. */
static LDRI_HD inline void ldri_axis_entry(const ldri_axis *a, int filter, uint32_t at,
                                           uint32_t form, uint32_t *lo, uint32_t *hi,
                                           uint32_t *weights, size_t group_stride, size_t stride)
{
    int inside = at >= a->dst && at < a->dst + a->count;
    uint32_t j = at < a->dst ? 0 : inside ? at - a->dst : a->count - 1;
    j += a->first;
    ldri_axis_window(a, filter, j, lo, hi);
    uint32_t taps = inside ? *hi - *lo : 0;
    int single = a->n == a->m || filter == LDR_NEAREST;
    uint32_t groups = form & (LDRI_FORM_POSITIVE - 1u);
    ldri_weigher w;
    if (!single) w = ldri_weigher_of(a->n, a->m, filter, j, *lo + a->stored, taps);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t part[3] = {0, 0, 0};
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t k = 4 * g + i;
            if (k >= taps) break;
            uint32_t q = single ? 1u << LDRI_WEIGHT_BITS : (uint32_t)ldri_weight(&w, k);
            if (form & LDRI_FORM_POSITIVE)
                q = (q < 1u << LDRI_WEIGHT_BITS ? q : (1u << LDRI_WEIGHT_BITS) - 1u) << 2;
            part[i / 2] |= (q & 0xffffu) << 16 * (i % 2);
            part[2] |= (q >> 16 & 255u) << 8 * i;
        }
        for (uint32_t p = 0; p < 3; p++) weights[g * group_stride + p * stride] = part[p];
    }
}

#endif
