#include "tests/helper_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend_cpu.h"
#include "gpu/normalise.h"
#include "tests/crops.h"

typedef struct rolls {
    uint32_t seed, n;
} rolls;

static uint32_t word(rolls *r)
{
    return mix(mix(r->seed) + r->n++);
}

static uint32_t between(rolls *r, uint32_t a, uint32_t b) /* both included */
{
    return a + (uint32_t)(((uint64_t)word(r) * (b - a + 1)) >> 32);
}

static int often(rolls *r, uint32_t percent)
{
    return between(r, 0, 99) < percent;
}

static float within(rolls *r, float a, float b)
{
    return a + (b - a) * (float)(word(r) >> 8) * 0x1p-24f;
}

ldri_backend_config helper_config(uint32_t batch, uint32_t width, uint32_t height, ldr_dtype dtype,
                                  ldr_layout layout, ldr_erase erase_mode, int mixes)
{
    return (ldri_backend_config){.batch = batch,
                                 .width = width,
                                 .height = height,
                                 .dtype = dtype,
                                 .layout = layout,
                                 .mean = {0.485f, 0.456f, 0.406f},
                                 .std = {0.229f, 0.224f, 0.225f},
                                 .seed = 0x123456789abcdefu,
                                 .erase_mode = erase_mode,
                                 .mixes = mixes,
                                 .n_hosts = 2,
                                 .n_outputs = 2};
}

/* --- geometry ------------------------------------------------------------------------------- */

static const uint32_t extreme_sides[] = {1, 2, 3, 7, 33, 500, 5000, 10000};

static uint32_t side_of(rolls *r, uint32_t final, int kinds, uint32_t area_left)
{
    uint32_t n;
    if (kinds & HELPER_EXTREME)
        n = extreme_sides[between(r, 0, 7)];
    else if (often(r, 10))
        n = final;
    else
        n = between(r, final / 3 + 1, 3 * final);
    return n < area_left ? n : area_left;
}

static ldri_axis axis_of(rolls *r, uint32_t n, uint32_t final, int filter)
{
    if (often(r, 70)) return whole_axis(n, final);
    /* An evaluation's: the line becomes m pixels, of which the middle is taken. */
    uint32_t m = often(r, 50) ? between(r, final, 2 * final) : between(r, 1, final);
    if (often(r, 20)) m = n;
    return centred_axis(n, m, final, filter);
}

#define MOST_PIXELS 1000000u /* of one crop */

static void draw_geometry(rolls *r, const ldri_backend_config *c, ldri_descriptor *d, int kinds)
{
    static const uint8_t filters[] = {LDR_BILINEAR, LDR_BICUBIC, LDR_NEAREST};
    d->filter = kinds & HELPER_BICUBIC    ? LDR_BICUBIC
                : kinds & HELPER_BILINEAR ? LDR_BILINEAR
                                          : filters[between(r, 0, 2)];
    d->hflip = (uint8_t)often(r, 50);
    d->vflip = (uint8_t)often(r, 30);
    d->kind = LDRI_RGB_CROP;
    if (kinds & HELPER_EXACT) {
        d->x = whole_axis(400, c->width);
        d->y = whole_axis(350, c->height);
        return;
    }
    uint32_t n_x = side_of(r, c->width, kinds, UINT32_MAX);
    uint32_t n_y = side_of(r, c->height, kinds, MOST_PIXELS / n_x);
    d->x = axis_of(r, n_x, c->width, d->filter);
    d->y = axis_of(r, n_y, c->height, d->filter);
    if (often(r, 12)) d->kind = LDRI_RGB_FINAL;
    if (often(r, 4)) d->x.count = 0; /* black */
}

size_t helper_arena_bytes(uint32_t batch, uint32_t width, uint32_t height, int kinds)
{
    size_t crop = 9 * (size_t)width * height;
    if (kinds & HELPER_EXTREME) crop = MOST_PIXELS;
    if (kinds & HELPER_EXACT) crop = 400 * 350;
    size_t rows = 16 * (kinds & HELPER_EXTREME ? (size_t)10000 : 3 * (size_t)height + 350);
    size_t final = (size_t)ldri_pitch(width) * height;
    size_t each = 3 * crop > final ? 3 * crop : final;
    return (batch * (each + rows + 64) + 63) / 64 * 64;
}

/* --- the rest of a descriptor --------------------------------------------------------------- */

static void draw_jitter(rolls *r, ldri_descriptor *d, int kinds)
{
    for (int k = 0; k < 3; k++) {
        d->factor[k] = kinds & HELPER_ALL_JITTER ? within(r, 0.6f, 1.4f) : within(r, 0.0f, 2.0f);
        if (often(r, 5)) d->factor[k] = (float)between(r, 0, 2);
    }
    d->hue = (uint8_t)between(r, 0, 255);
    d->jitter = kinds & HELPER_ALL_JITTER ? 15 : (uint8_t)between(r, 0, 15);
    d->greyscale = kinds & HELPER_ALL_JITTER ? 0 : (uint8_t)often(r, 20);
    for (uint8_t k = 0; k < 4; k++) d->order[k] = k;
    for (uint32_t k = 3; k > 0; k--) {
        uint32_t other = between(r, 0, k);
        uint8_t was = d->order[k];
        d->order[k] = d->order[other];
        d->order[other] = was;
    }
}

static void draw_boxes(rolls *r, const ldri_backend_config *c, ldri_descriptor *d, int kinds)
{
    d->n_erase = (uint8_t)(often(r, 60) ? between(r, 0, 2) : between(r, 0, LDRI_MAX_ERASE));
    if (kinds & HELPER_ONE_BOX) d->n_erase = 1;
    for (uint32_t k = 0; k < d->n_erase; k++) {
        ldri_erase_box *b = &d->erase[k];
        b->width = between(r, 1, c->width);
        b->height = between(r, 1, c->height);
        if (kinds & HELPER_ONE_BOX) {
            b->width = (uint32_t)((float)c->width * within(r, 0.25f, 0.6f));
            b->height = (uint32_t)(0.177f * (float)c->width * (float)c->height) / b->width;
        }
        b->left = between(r, 0, c->width - b->width);
        b->top = between(r, 0, c->height - b->height);
        for (int i = 0; i < 3; i++) b->z[i] = within(r, -3.0f, 3.0f);
    }
}

static void draw_mix(rolls *r, const ldri_backend_config *c, ldri_descriptor *d, uint32_t i)
{
    d->mix = between(r, LDRI_MIX_NONE, LDRI_CUTMIX);
    d->partner = c->batch - 1 - i;
    d->lambda = within(r, 0.0f, 1.0f);
    d->rest = (float)(1.0 - (double)d->lambda);
    d->mix_top = between(r, 0, c->height);
    d->mix_bottom = between(r, d->mix_top, c->height);
    d->mix_left = between(r, 0, c->width);
    d->mix_right = between(r, d->mix_left, c->width);
}

static void draw_pixels(rolls *r, uint8_t *to, size_t n)
{
    uint32_t kind = between(r, 0, 3), seed = word(r), v = seed;
    for (size_t i = 0; i < n; i++) {
        if (kind == 0 || i % 97 == 0) v = mix(seed + (uint32_t)i);
        switch (kind) {
        case 0: /* noise */
            to[i] = (uint8_t)(v >> 24);
            break;
        case 1: /* hard edges */
            to[i] = v & 1 ? 255 : 0;
            break;
        case 2: /* slow changes */
            to[i] = (uint8_t)((v >> 24) + i / 31);
            break;
        default: /* nearly grey */
            to[i] = (uint8_t)((v >> 25) + i % 3);
            break;
        }
    }
}

size_t helper_fill(const ldri_backend_config *c, const ldri_host_arena *a, uint32_t seed, int kinds)
{
    size_t used = 0;
    for (uint32_t i = 0; i < c->batch; i++) {
        rolls r = {mix(seed) + i, 0};
        ldri_descriptor d = {.sample = ((uint64_t)word(&r) << 8) + i, .epoch = between(&r, 0, 9)};
        d.repeat = between(&r, 0, 255);
        draw_geometry(&r, c, &d, kinds);
        if (kinds & (HELPER_JITTER | HELPER_ALL_JITTER)) draw_jitter(&r, &d, kinds);
        if (kinds & (HELPER_ERASE | HELPER_ONE_BOX)) draw_boxes(&r, c, &d, kinds);
        if (c->mixes) draw_mix(&r, c, &d, i);
        d.offset = used;
        d.pitch = ldri_pitch(d.kind == LDRI_RGB_FINAL ? c->width : d.x.n_stored);
        size_t bytes = (size_t)d.pitch * (d.kind == LDRI_RGB_FINAL ? c->height : d.y.n_stored);
        if (used + bytes > c->arena_bytes) abort(); /* helper_arena_bytes is wrong */
        draw_pixels(&r, a->pixels + used, bytes);
        used += (bytes + 15) / 16 * 16;
        a->descriptors[i] = d;
        a->labels[i] = (int64_t)word(&r) - 1000;
        if (!c->mixes) continue;
        a->mix_labels[i] = (int64_t)word(&r) - 1000;
        a->mix_lambda[i] = d.lambda;
    }
    return used;
}

/* --- what it should become ------------------------------------------------------------------ */

static size_t image_bytes(const ldri_backend_config *c)
{
    return 3 * (size_t)c->width * c->height * ldri_dtype_bytes(c->dtype);
}

size_t helper_images_bytes(const ldri_backend_config *c)
{
    return c->batch * image_bytes(c);
}

uint8_t *helper_reference(const ldri_backend_config *c, const ldri_host_arena *a, size_t used)
{
    const ldri_backend_ops *ops = &ldri_backend_cpu;
    uint8_t *images = malloc(helper_images_bytes(c));
    ldri_backend *be = NULL;
    ldri_scratch *scratch = NULL;
    ldr_status s = images ? ops->open(&be, c, NULL) : LDR_E_NOMEM;
    if (s >= 0 && !(scratch = ops->scratch_open(be))) s = LDR_E_NOMEM;
    if (s >= 0) {
        ldri_host_arena own;
        ldri_output out;
        ops->host_arena(be, 0, &own);
        ops->output(be, 0, &out);
        memcpy(own.descriptors, a->descriptors, c->batch * sizeof *a->descriptors);
        memcpy(own.pixels, a->pixels, used);
        for (uint32_t i = 0; s >= 0 && i < c->batch; i++)
            s = ops->augment_sample(be, scratch, 0, i, 0);
        for (uint32_t i = 0; s >= 0 && c->mixes && i < c->batch; i++)
            s = ops->finish_sample(be, scratch, 0, i, 0);
        memcpy(images, out.images, helper_images_bytes(c));
    }
    if (scratch) ops->scratch_close(scratch);
    if (be) ops->close(be);
    if (s >= 0) return images;
    free(images);
    return NULL;
}

const char *helper_difference(const ldri_backend_config *c, const ldri_host_arena *a,
                              const uint8_t *expected, const uint8_t *got)
{
    static char text[512];
    size_t n = helper_images_bytes(c), each = image_bytes(c), element = ldri_dtype_bytes(c->dtype);
    size_t at = 0, different = 0, images = 0, last = SIZE_MAX;
    if (memcmp(expected, got, n) == 0) return NULL;
    for (size_t i = n; i-- > 0;) {
        if (expected[i] == got[i]) continue;
        different++;
        at = i;
        images += i / each != last;
        last = i / each;
    }
    const ldri_descriptor *d = &a->descriptors[at / each];
    size_t value = at % each / element, plane = (size_t)c->width * c->height;
    size_t pixel = c->layout == LDR_NCHW ? value % plane : value / 3;
    snprintf(text, sizeof text,
             "%zu bytes of %zu images differ, first image %zu channel %zu x %zu y %zu: expected "
             "%02x, got %02x (kind %u filter %u x %u->%u+%u@%u y %u->%u+%u@%u flips %u%u jitter "
             "%u order %u%u%u%u hue %u grey %u boxes %u mix %u)",
             different, images, at / each, c->layout == LDR_NCHW ? value / plane : value % 3,
             pixel % c->width, pixel / c->width, expected[at], got[at], d->kind, d->filter, d->x.n,
             d->x.m, d->x.count, d->x.dst, d->y.n, d->y.m, d->y.count, d->y.dst, d->hflip, d->vflip,
             d->jitter, d->order[0], d->order[1], d->order[2], d->order[3], d->hue, d->greyscale,
             d->n_erase, d->mix);
    return text;
}
