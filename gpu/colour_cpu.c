#include "gpu/colour_cpu.h"

#include <assert.h>

#include "gpu/colour.h"
#include "gpu/mix.h"

/* --- plain kernels ------------------------------------------------------------------------ */

static ldri_rgb plain_step(const ldri_colour_step *s, ldri_rgb p)
{
    switch (s->kind) {
    case LDRI_STEP_BLEND:
        return (ldri_rgb){ldri_blend(s->from, p.r, s->factor), ldri_blend(s->from, p.g, s->factor),
                          ldri_blend(s->from, p.b, s->factor)};
    case LDRI_STEP_SATURATION:
        return ldri_saturation(p, s->factor);
    case LDRI_STEP_HUE:
        return ldri_hue(p, s->hue);
    case LDRI_STEP_GREY:
        return ldri_greyscale(p);
    }
    return p;
}

static uint64_t plain_run(const ldri_colour_step *steps, uint32_t n_steps, uint8_t *rgb, size_t n,
                          int wants_luma)
{
    uint64_t luma = 0;
    for (size_t i = 0; i < n; i++, rgb += 3) {
        ldri_rgb p = {rgb[0], rgb[1], rgb[2]};
        for (uint32_t k = 0; k < n_steps; k++) p = plain_step(&steps[k], p);
        if (wants_luma) luma += ldri_luma(p.r, p.g, p.b);
        if (n_steps == 0) continue;
        rgb[0] = p.r;
        rgb[1] = p.g;
        rgb[2] = p.b;
    }
    return luma;
}

static void plain_mixup(const uint8_t *own, const uint8_t *other, float lambda, float rest,
                        uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = ldri_mixup(own[i], other[i], lambda, rest);
}

const ldri_colour_kernels ldri_colour_plain = {plain_run, plain_mixup};

/* --- the driver --------------------------------------------------------------------------- */

typedef struct picture {
    const ldri_colour_kernels *kernels;
    uint8_t *rgb;
    size_t pitch;
    uint32_t width, height;
} picture;

static uint64_t run(const picture *p, const ldri_colour_step *steps, uint32_t n_steps,
                    int wants_luma)
{
    if (n_steps == 0 && !wants_luma) return 0;
    size_t line = p->width, n_lines = p->height;
    if (p->pitch == 3 * line) { /* rows without gaps are one */
        line *= n_lines;
        n_lines = 1;
    }
    uint64_t luma = 0;
    for (size_t y = 0; y < n_lines; y++) {
        uint8_t *row = p->rgb + y * p->pitch;
        for (size_t x = 0; x < line; x += LDRI_COLOUR_SPAN) {
            size_t n = line - x < LDRI_COLOUR_SPAN ? line - x : LDRI_COLOUR_SPAN;
            luma += p->kernels->run(steps, n_steps, row + 3 * x, n, wants_luma);
        }
    }
    return luma;
}

void ldri_colour_apply(const ldri_colour_kernels *kernels, const ldri_descriptor *d, uint8_t *rgb,
                       size_t pitch, uint32_t width, uint32_t height)
{
    picture p = {kernels, rgb, pitch, width, height};
    ldri_colour_step steps[LDRI_MAX_STEPS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t op = d->order[i];
        if (!(d->jitter >> op & 1u)) continue;
        ldri_colour_step s = {.kind = LDRI_STEP_BLEND, .hue = d->hue};
        switch (op) {
        case LDRI_CONTRAST:
            s.from = ldri_contrast_mean(run(&p, steps, n, 1), (uint64_t)width * height);
            n = 0;
            break;
        case LDRI_SATURATION:
            s.kind = LDRI_STEP_SATURATION;
            break;
        case LDRI_HUE:
            s.kind = LDRI_STEP_HUE;
            break;
        }
        if (op != LDRI_HUE) s.factor = d->factor[op];
        steps[n++] = s;
    }
    if (d->greyscale) steps[n++] = (ldri_colour_step){.kind = LDRI_STEP_GREY};
    assert(n <= LDRI_MAX_STEPS);
    run(&p, steps, n, 0);
}
