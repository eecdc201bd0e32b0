/* strip.h - both passes of the resample on a GPU: what one thread does.  C and CUDA.
 *
 * A block of threads makes a tile of the final picture: some columns, some rows.  First `across`:
 * the rows of the crop that the tile reads go through the horizontal pass into shared memory, four
 * rows at a time: `inter` holds, for each group of four rows, column and channel, a word whose
 * bytes are the four rows.  (Channels side by side: neighbouring threads' accesses then fall into
 * different banks in both passes.)  Then, behind a barrier, `down`: the vertical pass, four columns
 * at a time. Both passes multiply four pixels with four weights in three instructions
 * (axis_table.h).
 *
 * Reads of the crop are words that may end behind a window, and go up to three rows past the last
 * one, up to ldri_overread bytes in all; the weights there are 0. */
#ifndef LDR_STRIP_H
#define LDR_STRIP_H

#include "gpu/axis_table.h"
#include "gpu/chip.h"

#ifndef LDRI_INTER_GROUPS
#define LDRI_INTER_GROUPS 16u /* groups of four rows that `inter` has room for */
#endif
#define LDRI_TILE_COLUMNS 256u

static LDRI_HD inline uint32_t ldri_overread(uint32_t width)
{
    return 3u * ldri_strip_pitch(width) + 12u * LDRI_GROUPS_MAX + 16u;
}

typedef struct ldri_strip {
    const uint8_t *crop;
    size_t pitch;
    ldri_tables tables;
    uint32_t x_form, y_form; /* ldri_axis_form */
    uint32_t width;          /* of the final picture: stride of the columns' weights */
    uint32_t left, columns;  /* of the tile; left is a multiple of 4 */
    uint32_t span;           /* columns rounded up to 4: three words each in inter */
    uint32_t base;           /* stored row that is row 0 of inter */
    uint32_t n_groups;       /* of rows that are made */
    uint32_t *inter;
} ldri_strip;

static LDRI_HD inline uint32_t ldri_inter_words(uint32_t columns) /* for a tile */
{
    return 3u * ((columns + 3u) & ~3u) * LDRI_INTER_GROUPS;
}

/* Rows that a tile may read at a time.  `down` reads y_groups groups past the one in which a window
 * begins, with weight 0 past the window's end.  One window always fits: 4 * y_groups rows do. */
static LDRI_HD inline uint32_t ldri_inter_rows(uint32_t y_groups)
{
    return 4u * (LDRI_INTER_GROUPS - y_groups);
}

/* Twelve bytes, four pixels, into a word for each channel. */
static LDRI_HD inline void ldri_unravel(uint32_t a, uint32_t b, uint32_t c, uint32_t out[3])
{
    out[0] = ldri_permute(ldri_permute(a, b, 0x0630), c, 0x5210);
    out[1] = ldri_permute(ldri_permute(a, b, 0x0741), c, 0x6210);
    out[2] = ldri_permute(ldri_permute(a, b, 0x0052), c, 0x7410);
}

/* The weighted sum of 4 * groups bytes, rounded.  positive: the result is the top byte; else it is
 * still to be brought into 0 .. 255.  `groups` and `positive` are constants where this is inlined.
 */
static LDRI_HD inline uint32_t ldri_weigh(const uint32_t *pixels, const uint32_t *weights,
                                          const uint32_t groups, const int positive)
{
    uint32_t sum = (positive ? 4u * LDRI_WEIGHT_ROUND : LDRI_WEIGHT_ROUND) >> 16;
    LDRI_UNROLL
    for (uint32_t g = 0; g < groups; g++)
        sum = positive ? ldri_dot_uu(pixels[g], weights[3 * g + 2], sum)
                       : ldri_dot_us(pixels[g], weights[3 * g + 2], sum);
    sum <<= 16;
    LDRI_UNROLL
    for (uint32_t g = 0; g < groups; g++) {
        sum = ldri_dot_low(weights[3 * g], pixels[g], sum);
        sum = ldri_dot_high(weights[3 * g + 1], pixels[g], sum);
    }
    return sum;
}

/* Four such sums as bytes. */
static LDRI_HD inline uint32_t ldri_pack_sums(const uint32_t v[4], const int positive)
{
    if (positive) return ldri_pack_tops(v[0], v[1], v[2], v[3]);
    return ldri_pack_bytes((int32_t)v[0] >> LDRI_WEIGHT_BITS, (int32_t)v[1] >> LDRI_WEIGHT_BITS,
                           (int32_t)v[2] >> LDRI_WEIGHT_BITS, (int32_t)v[3] >> LDRI_WEIGHT_BITS);
}

/* The word in which row `row` of inter's window begins. */
static LDRI_HD inline const uint8_t *ldri_strip_at(const ldri_strip *s, uint32_t row, uint32_t word)
{
    return s->crop + (s->base + row) * s->pitch + 4 * (size_t)word;
}

static LDRI_HD inline uint32_t ldri_load_at(const uint8_t *p, uint32_t word)
{
    return ldri_load((const uint32_t *)(const void *)p + word);
}

/* `groups` and `positive` are constants where this is inlined, so that everything stays in
 * registers. */
static LDRI_HD inline void ldri_across_few(const ldri_strip *s, uint32_t column, uint32_t from,
                                           uint32_t step, const uint32_t groups, const int positive)
{
    uint32_t at = s->left + column;
    uint32_t weights[6], offset = 3u * ldri_load(&s->tables.x_lo[at]);
    LDRI_UNROLL
    for (uint32_t i = 0; i < 3 * groups; i++)
        weights[i] = ldri_load(&s->tables.x_weights[(size_t)i * s->width + at]);
    uint32_t shift = (offset & 3u) * 8u;
    const uint8_t *p = ldri_strip_at(s, 4 * from, offset >> 2);
    uint32_t *out = s->inter + 3u * (from * s->span + column);
    for (uint32_t g = from; g < s->n_groups; g += step) {
        uint32_t v[3][4];
        LDRI_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t raw[7], pixels[3][2];
            LDRI_UNROLL
            for (uint32_t i = 0; i < 3 * groups + 1; i++)
                raw[i] = ldri_load_at(p + r * s->pitch, i);
            LDRI_UNROLL
            for (uint32_t k = 0; k < groups; k++) {
                uint32_t rgb[3];
                ldri_unravel(ldri_funnel(raw[3 * k], raw[3 * k + 1], shift),
                             ldri_funnel(raw[3 * k + 1], raw[3 * k + 2], shift),
                             ldri_funnel(raw[3 * k + 2], raw[3 * k + 3], shift), rgb);
                LDRI_UNROLL
                for (int c = 0; c < 3; c++) pixels[c][k] = rgb[c];
            }
            LDRI_UNROLL
            for (int c = 0; c < 3; c++) v[c][r] = ldri_weigh(pixels[c], weights, groups, positive);
        }
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) out[c] = ldri_pack_sums(v[c], positive);
        p += 4 * step * s->pitch;
        out += 3u * step * s->span;
    }
}

static LDRI_HD inline void ldri_across_many(const ldri_strip *s, uint32_t column, uint32_t from,
                                            uint32_t step)
{
    uint32_t at = s->left + column;
    uint32_t offset = 3u * ldri_load(&s->tables.x_lo[at]);
    uint32_t shift = (offset & 3u) * 8u;
    for (uint32_t g = from; g < s->n_groups; g += step) {
        uint32_t v[3][4];
        LDRI_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            const uint8_t *p = ldri_strip_at(s, 4 * g + r, offset >> 2);
            uint32_t low[3] = {0, 0, 0}, high[3] = {0, 0, 0}, last = ldri_load_at(p, 0);
            LDRI_ROLLED
            for (uint32_t k = 0; k < s->x_form; k++, p += 12) {
                const uint32_t *q = s->tables.x_weights + (size_t)(3 * k) * s->width + at;
                uint32_t a = ldri_load_at(p, 1), b = ldri_load_at(p, 2), c = ldri_load_at(p, 3);
                uint32_t rgb[3];
                ldri_unravel(ldri_funnel(last, a, shift), ldri_funnel(a, b, shift),
                             ldri_funnel(b, c, shift), rgb);
                last = c;
                uint32_t q0 = ldri_load(q), q1 = ldri_load(q + s->width);
                uint32_t q2 = ldri_load(q + 2 * (size_t)s->width);
                LDRI_UNROLL
                for (int i = 0; i < 3; i++) {
                    low[i] = ldri_dot_high(q1, rgb[i], ldri_dot_low(q0, rgb[i], low[i]));
                    high[i] = ldri_dot_us(rgb[i], q2, high[i]);
                }
            }
            LDRI_UNROLL
            for (int i = 0; i < 3; i++) v[i][r] = (high[i] << 16) + low[i] + LDRI_WEIGHT_ROUND;
        }
        uint32_t *out = s->inter + 3u * (g * s->span + column);
        LDRI_UNROLL
        for (uint32_t c = 0; c < 3; c++) out[c] = ldri_pack_sums(v[c], 0);
    }
}

/* Column `column` of the tile through the horizontal pass: groups of rows from, from + step, ... */
static LDRI_HD inline void ldri_across(const ldri_strip *s, uint32_t column, uint32_t from,
                                       uint32_t step)
{
    switch (s->x_form) {
    case 1 + LDRI_FORM_POSITIVE:
        ldri_across_few(s, column, from, step, 1, 1);
        break;
    case 2 + LDRI_FORM_POSITIVE:
        ldri_across_few(s, column, from, step, 2, 1);
        break;
    case 1:
        ldri_across_few(s, column, from, step, 1, 0);
        break;
    case 2:
        ldri_across_few(s, column, from, step, 2, 0);
        break;
    default:
        ldri_across_many(s, column, from, step);
        break;
    }
}

/* Words of four columns and three channels: [column][channel]. */
static LDRI_HD inline void ldri_inter_quad(const ldri_strip *s, uint32_t group, uint32_t quad,
                                           uint32_t out[12])
{
    const ldri_four *p =
        (const ldri_four *)(const void *)(s->inter + 3u * (group * s->span + 4u * quad));
    LDRI_UNROLL
    for (int i = 0; i < 3; i++) {
        ldri_four v = p[i];
        out[4 * i] = v.x;
        out[4 * i + 1] = v.y;
        out[4 * i + 2] = v.z;
        out[4 * i + 3] = v.w;
    }
}

static LDRI_HD inline ldri_four ldri_row_entry(const ldri_strip *s, uint32_t row, uint32_t group)
{
    return ldri_load_four(s->tables.y + (size_t)row * LDRI_ROW_WORDS + 4u * group);
}

static LDRI_HD inline uint32_t ldri_row_lo(const ldri_strip *s, uint32_t row)
{
    return ldri_load(s->tables.y + (size_t)row * LDRI_ROW_WORDS);
}

static LDRI_HD inline uint32_t ldri_row_hi(const ldri_strip *s, uint32_t row)
{
    return ldri_load(s->tables.y + (size_t)row * LDRI_ROW_WORDS + 4u);
}

/* `groups` and `positive` are constants where this is inlined. */
static LDRI_HD inline void ldri_down_few(const ldri_strip *s, uint32_t row, uint32_t quad,
                                         uint32_t planar[3], const uint32_t groups,
                                         const int positive)
{
    uint32_t weights[6], off = 0, raw[3][12];
    LDRI_UNROLL
    for (uint32_t k = 0; k < groups; k++) {
        ldri_four entry = ldri_row_entry(s, row, k);
        if (k == 0) off = entry.x - s->base;
        weights[3 * k] = entry.y;
        weights[3 * k + 1] = entry.z;
        weights[3 * k + 2] = entry.w;
    }
    uint32_t group = off >> 2, shift = (off & 3u) * 8u;
    LDRI_UNROLL
    for (uint32_t k = 0; k < groups + 1; k++) ldri_inter_quad(s, group + k, quad, raw[k]);
    LDRI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        uint32_t v[4];
        LDRI_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t pixels[2] = {0, 0};
            LDRI_UNROLL
            for (uint32_t k = 0; k < groups; k++)
                pixels[k] = ldri_funnel(raw[k][3 * i + c], raw[k + 1][3 * i + c], shift);
            v[i] = ldri_weigh(pixels, weights, groups, positive);
        }
        planar[c] = ldri_pack_sums(v, positive);
    }
}

static LDRI_HD inline void ldri_down_many(const ldri_strip *s, uint32_t row, uint32_t quad,
                                          uint32_t planar[3])
{
    uint32_t off = ldri_row_lo(s, row) - s->base, last[12], low[12], high[12];
    uint32_t group = off >> 2, shift = (off & 3u) * 8u;
    ldri_inter_quad(s, group, quad, last);
    LDRI_UNROLL
    for (int i = 0; i < 12; i++) low[i] = high[i] = 0;
    LDRI_ROLLED
    for (uint32_t k = 0; k < s->y_form; k++) {
        ldri_four entry = ldri_row_entry(s, row, k);
        uint32_t next[12];
        ldri_inter_quad(s, group + k + 1, quad, next);
        LDRI_UNROLL
        for (int i = 0; i < 12; i++) {
            uint32_t rows = ldri_funnel(last[i], next[i], shift);
            low[i] = ldri_dot_high(entry.z, rows, ldri_dot_low(entry.y, rows, low[i]));
            high[i] = ldri_dot_us(rows, entry.w, high[i]);
            last[i] = next[i];
        }
    }
    LDRI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        uint32_t v[4];
        LDRI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            v[i] = (high[3 * i + c] << 16) + low[3 * i + c] + LDRI_WEIGHT_ROUND;
        planar[c] = ldri_pack_sums(v, 0);
    }
}

/* Four pixels of row `row` of the final picture, columns left + 4 quad and on: a word for each
 * channel. */
static LDRI_HD inline void ldri_down(const ldri_strip *s, uint32_t row, uint32_t quad,
                                     uint32_t planar[3])
{
    switch (s->y_form) {
    case 1 + LDRI_FORM_POSITIVE:
        ldri_down_few(s, row, quad, planar, 1, 1);
        break;
    case 2 + LDRI_FORM_POSITIVE:
        ldri_down_few(s, row, quad, planar, 2, 1);
        break;
    case 1:
        ldri_down_few(s, row, quad, planar, 1, 0);
        break;
    case 2:
        ldri_down_few(s, row, quad, planar, 2, 0);
        break;
    default:
        ldri_down_many(s, row, quad, planar);
        break;
    }
}

/* Sets base and n_groups for rows row .. and returns how many rows of the final picture, up to
 * `end`, they suffice for: at least one. */
static LDRI_HD inline uint32_t ldri_strip_begin(ldri_strip *s, uint32_t row, uint32_t end)
{
    s->base = ldri_row_lo(s, row);
    uint32_t last = end;
    uint32_t rows = ldri_inter_rows(s->y_form & (LDRI_FORM_POSITIVE - 1u));
    while (last > row + 1 && ldri_row_hi(s, last - 1) - s->base > rows) last--;
    s->n_groups = (ldri_row_hi(s, last - 1) - s->base + 3u) / 4u;
    return last - row;
}

#endif
