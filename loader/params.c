#include "loader/params.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "loader/backend.h" /* the quantiles of N(0,1) */
#include "loader/exact_math.h"
#include "loader/rng.h"
#include "loader/window.h"

enum { ATTEMPTS = 10 };

enum { /* blocks of four words, as ldri_draw counts them; 0 .. 9 are the attempts of the crop */
       BLOCK_GATES = 10,
       BLOCK_FACTORS = 11,
       BLOCK_ORDER = 12,
       BLOCK_ERASE = 64,
       BLOCK_BOXES = 65, /* 16 for each box: its attempts, and as the last its colour */
       BOX_BLOCKS = 16,
       BOX_COLOUR = 15
};

/* Longest side after a resize.  A picture 100 million pixels wide and 1 high would pass uint32_t;
 * it is stretched less instead. */
#define LONGEST_SIDE 2147483647.0

static ldri_words draw(const ldri_params *p, uint32_t block)
{
    return ldri_draw(p->seed, p->epoch, p->sample, LDRI_DOMAIN_SAMPLE, p->repeat, block);
}

static float factor(uint32_t word, float v)
{
    double low = 1.0 - (double)v;
    return (float)ldri_uniform(word, low > 0.0 ? low : 0.0, 1.0 + (double)v);
}

/* Number `index` of the 24 permutations of 0 .. 3, in lexicographic order. */
static void permutation(uint32_t index, uint8_t order[4])
{
    static const uint32_t rest_has[4] = {6, 2, 1, 1}; /* permutations of what is left behind */
    uint8_t left[4] = {0, 1, 2, 3};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t at = index / rest_has[i];
        index %= rest_has[i];
        order[i] = left[at];
        for (uint32_t k = at; k < 3 - i; k++) left[k] = left[k + 1];
    }
}

/* Sources: torchvision, ColorJitter; Pillow's 8-bit hue. */
static void draw_jitter(const ldr_options *o, uint32_t gate_word, ldri_params *p)
{
    const float strength[4] = {o->brightness, o->contrast, o->saturation, o->hue};
    for (uint32_t i = 0; i < 4; i++)
        if (strength[i] > 0.0f) p->jitter |= (uint8_t)(1u << i);
    if (!p->jitter && !(o->grayscale_prob > 0.0f)) return;
    ldri_words w = draw(p, BLOCK_ORDER);
    p->greyscale = (uint8_t)ldri_gate(w.w[1], (double)o->grayscale_prob);
    if (!ldri_gate(gate_word, (double)o->jitter_prob)) p->jitter = 0;
    if (!p->jitter) return;
    permutation(ldri_choice(w.w[0], 24), p->order);
    w = draw(p, BLOCK_FACTORS);
    for (uint32_t i = 0; i < 3; i++) p->factor[i] = factor(w.w[i], strength[i]);
    p->hue_turns = ldri_uniform(w.w[3], -(double)o->hue, (double)o->hue);
    p->hue = (uint8_t)((int)(p->hue_turns * 255.0) & 255);
}

/* Source: timm, RandomErasing; height and width have their roles reversed against the crop's. */
static int draw_erase_box(const ldr_options *o, const ldri_params *p, uint32_t box, uint32_t n,
                          ldri_erase_box *out)
{
    double height = o->height, width = o->width, aspect = (double)o->erase_aspect;
    double log_low = ldri_log(aspect), log_high = ldri_log(1.0 / aspect);
    for (uint32_t k = 0; k < ATTEMPTS; k++) {
        ldri_words d = draw(p, BLOCK_BOXES + BOX_BLOCKS * box + k);
        double share = ldri_uniform(d.w[0], (double)o->erase_area[0], (double)o->erase_area[1]);
        double t = share * height * width / n;
        double a = ldri_exp(ldri_uniform(d.w[1], log_low, log_high));
        double h = rint(sqrt(t * a)), w = rint(sqrt(t / a));
        if (h < height && w < width) {
            out->height = (uint32_t)h;
            out->width = (uint32_t)w;
            out->top = ldri_choice(d.w[2], o->height - out->height + 1);
            out->left = ldri_choice(d.w[3], o->width - out->width + 1);
            return 1;
        }
    }
    return 0;
}

static void draw_erase(const ldr_options *o, ldri_params *p)
{
    if (!(o->erase_prob > 0.0f)) return;
    ldri_words w = draw(p, BLOCK_ERASE);
    if (!ldri_gate(w.w[0], (double)o->erase_prob)) return;
    uint32_t n = o->erase_count[0] + ldri_choice(w.w[1], o->erase_count[1] - o->erase_count[0] + 1);
    for (uint32_t i = 0; i < n; i++) {
        ldri_erase_box *box = &p->erase[p->n_erase];
        if (!draw_erase_box(o, p, i, n, box)) continue;
        p->n_erase++;
        if (o->erase_mode != LDR_ERASE_RAND) continue;
        w = draw(p, BLOCK_BOXES + BOX_BLOCKS * i + BOX_COLOUR);
        for (int c = 0; c < 3; c++) box->z[c] = ldri_normal(w.w[c], ldri_normal_quantiles);
    }
}

void ldri_params_draw(const ldr_options *o, uint64_t epoch, uint64_t sample, uint32_t repeat,
                      ldri_params *out)
{
    *out = (ldri_params){.seed = o->seed, .epoch = epoch, .sample = sample, .repeat = repeat};
    ldri_words g = draw(out, BLOCK_GATES);
    out->filter = (uint8_t)(o->filter != LDR_RANDOM_FILTER ? o->filter
                            : g.w[0] < 0x80000000u         ? LDR_BILINEAR
                                                           : LDR_BICUBIC);
    out->hflip = (uint8_t)ldri_gate(g.w[1], (double)o->hflip);
    out->vflip = (uint8_t)ldri_gate(g.w[2], (double)o->vflip);
    draw_jitter(o, g.w[3], out);
    draw_erase(o, out);
}

static uint32_t at_least_1(double side)
{
    return side < 1.0 ? 1u : (uint32_t)side;
}

/* Source: timm, RandomResizedCropAndInterpolation, and torchvision's rule that a side is not 0. */
static int draw_crop(const ldr_options *o, const ldri_params *p, uint32_t width, uint32_t height,
                     ldri_box *out)
{
    double area = (double)width * (double)height;
    double log_low = ldri_log((double)o->ratio[0]), log_high = ldri_log((double)o->ratio[1]);
    for (uint32_t k = 0; k < ATTEMPTS; k++) {
        ldri_words d = draw(p, k);
        double t = ldri_uniform(d.w[0], (double)o->scale[0], (double)o->scale[1]) * area;
        double r = ldri_exp(ldri_uniform(d.w[1], log_low, log_high));
        double w = rint(sqrt(t * r)), h = rint(sqrt(t / r));
        if (w > 0.0 && w <= (double)width && h > 0.0 && h <= (double)height) {
            out->width = (uint32_t)w;
            out->height = (uint32_t)h;
            out->top = ldri_choice(d.w[2], height - out->height + 1);
            out->left = ldri_choice(d.w[3], width - out->width + 1);
            return (int)k;
        }
    }
    /* The largest box of an allowed ratio, in the centre.  Its side is under 1 only where a ratio
     * option is far from 1 and the picture a pixel or two thick. */
    double shape = (double)width / (double)height;
    out->width = width;
    out->height = height;
    if (shape < (double)o->ratio[0]) {
        out->height = at_least_1(rint((double)width / (double)o->ratio[0]));
    } else if (shape > (double)o->ratio[1]) {
        out->width = at_least_1(rint((double)height * (double)o->ratio[1]));
    }
    assert(out->width <= width && out->height <= height);
    out->top = (height - out->height) / 2;
    out->left = (width - out->width) / 2;
    return ATTEMPTS;
}

int ldri_params_box(const ldr_options *o, const ldri_params *p, uint32_t picture_width,
                    uint32_t picture_height, ldri_box *out)
{
    assert(picture_width >= 1 && picture_height >= 1);
    if (o->view == LDR_VIEW_TRAIN) return draw_crop(o, p, picture_width, picture_height, out);
    *out = (ldri_box){0, 0, picture_height, picture_width};
    return 0;
}

/* Sides of the whole picture after the resize of an evaluation view.  Sources: torchvision, Resize
 * with one number (shorter side; the product first, then truncated); timm, ResizeKeepRatio for
 * targets that are not square (half to even) and Resize for squash. */
static void resized_sides(const ldr_options *o, uint32_t width, uint32_t height, uint32_t *out_x,
                          uint32_t *out_y)
{
    double w = width, h = height;
    double sx = floor((double)o->width / o->crop_pct), sy = floor((double)o->height / o->crop_pct);
    double x = sx, y = sy;
    if (o->view == LDR_VIEW_EVAL) {
        if (sx != sy) {
            double by_x = w / sx, by_y = h / sy, ratio = by_x < by_y ? by_x : by_y;
            x = rint(w / ratio);
            y = rint(h / ratio);
        } else if (width <= height) {
            y = floor(sx * h / w);
        } else {
            x = floor(sx * w / h);
        }
    }
    *out_x = x < LONGEST_SIDE ? (uint32_t)x : (uint32_t)LONGEST_SIDE;
    *out_y = y < LONGEST_SIDE ? (uint32_t)y : (uint32_t)LONGEST_SIDE;
}

/* The part of a resized line of m pixels (from n) that a centre crop of `size` shows.  Source:
 * torchvision, center_crop: half to even, zero border where the line is shorter, the odd pixel of
 * the border behind. */
static void crop_axis(ldri_axis *a, uint32_t n, uint32_t m, uint32_t size, int filter)
{
    a->n = n;
    a->m = m;
    if (m >= size) {
        a->first = (uint32_t)rint((double)(m - size) / 2.0);
        a->count = size;
        a->dst = 0;
    } else {
        a->first = 0;
        a->count = m;
        a->dst = (size - m) / 2;
    }
    if (n == m) { /* not resampled */
        a->stored = a->first;
        a->n_stored = a->count;
        return;
    }
    uint32_t low, high, ignored; /* windows move in one direction: the outer two bound them all */
    ldri_window(n, m, filter, a->first, &low, &ignored);
    ldri_window(n, m, filter, a->first + a->count - 1, &ignored, &high);
    a->stored = low;
    a->n_stored = high - low;
}

static void describe_rest(const ldri_params *p, ldri_descriptor *d)
{
    memcpy(d->factor, p->factor, sizeof d->factor);
    d->hue = p->hue;
    d->jitter = p->jitter;
    memcpy(d->order, p->order, sizeof d->order);
    d->greyscale = p->greyscale;
    d->n_erase = p->n_erase;
    memcpy(d->erase, p->erase, p->n_erase * sizeof *d->erase);
    d->sample = p->sample;
    d->epoch = (uint32_t)p->epoch;
    d->repeat = p->repeat;
    d->luma_sum = 0;
    d->mix = LDRI_MIX_NONE;
}

void ldri_params_describe(const ldr_options *o, const ldri_params *p, uint32_t picture_width,
                          uint32_t picture_height, ldri_descriptor *d, ldri_box *region)
{
    ldri_box box;
    ldri_params_box(o, p, picture_width, picture_height, &box);
    if (o->view == LDR_VIEW_TRAIN) {
        d->x = (ldri_axis){.n = box.width, .m = o->width, .count = o->width, .n_stored = box.width};
        d->y = (ldri_axis){
            .n = box.height, .m = o->height, .count = o->height, .n_stored = box.height};
    } else {
        uint32_t x, y;
        resized_sides(o, picture_width, picture_height, &x, &y);
        crop_axis(&d->x, box.width, x, o->width, p->filter);
        crop_axis(&d->y, box.height, y, o->height, p->filter);
    }
    d->filter = p->filter;
    d->hflip = p->hflip;
    d->vflip = p->vflip;
    describe_rest(p, d);
    region->left = box.left + d->x.stored;
    region->top = box.top + d->y.stored;
    region->width = d->x.n_stored;
    region->height = d->y.n_stored;
}
