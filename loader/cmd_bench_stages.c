#include "loader/cmd_bench.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "loader/arena.h"

/* Crops and images that resample and store begin with. */
#define PLACES            64u
#define PLACES_PER_WORKER 8u
#define CROP_BYTES        ((size_t)256 << 20) /* more crops than this share places */
#define FINAL_BYTES       ((size_t)512 << 20) /* of resampled images and of outputs */
#define LARGEST_VALUE     4u                  /* bytes of an output's value at most */

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Where the worker writes next; what was written before stays until the buffer is used up.  Places
 * begin where an arena's do. */
static uint8_t *take_cold(ldri_bench_worker *w, size_t bytes)
{
    bytes = round_up(bytes, LDRI_ARENA_UNIT);
    if (LDRI_ARENA_SKEW + bytes > w->cold_bytes - w->cold_at) w->cold_at = 0;
    assert(LDRI_ARENA_SKEW + bytes <= w->cold_bytes);
    uint8_t *place = w->cold + w->cold_at + LDRI_ARENA_SKEW;
    w->cold_at += bytes;
    return place;
}

static void count(ldri_bench_worker *w, uint64_t pixels, uint64_t bytes)
{
    w->count.items++;
    w->count.pixels += pixels;
    w->count.bytes += bytes;
}

/* Item k of those from `first` to before `end`, or NULL if it is damaged. */
static ldri_bench_item *pick_item(ldri_bench *b, uint64_t first, uint64_t end, uint64_t k)
{
    ldri_bench_item *item = &b->items[first + k % (end - first)];
    return atomic_load_explicit(&item->damaged, memory_order_relaxed) ? NULL : item;
}

static ldri_box whole_of(const ldri_bench_item *item)
{
    return (ldri_box){0, 0, item->height, item->width};
}

/* --- the steps ------------------------------------------------------------------------------- */

static void read_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench *b = w->bench;
    const ldri_bench_item *item = &b->items[k % b->n_items];
    ldri_failure why;
    if (ldri_read_file(ldri_source_root_fd(b->source), ldri_source_name(b->source, item->sample),
                       &b->limits, NULL, &w->file, &why) < 0) {
        return; /* it went away; the pipeline will say so */
    }
    count(w, (uint64_t)item->width * item->height, w->file.n);
}

static void decode(ldri_bench_worker *w, ldri_bench_item *item, ldri_box box)
{
    if (!item) return;
    ldri_image_info info;
    ldri_failure why;
    uint8_t *out = take_cold(w, (size_t)ldri_pitch(box.width) * box.height);
    ldr_status s = ldri_decode_begin(w->decoder, item->bytes, item->n_bytes, &info, &why);
    if (s >= 0) {
        s = ldri_decode_region(w->decoder, box.left, box.top, box.width, box.height, out,
                               ldri_pitch(box.width), &why);
    }
    ldri_decode_end(w->decoder);
    if (s < 0) {
        atomic_store_explicit(&item->damaged, 1, memory_order_relaxed);
    } else {
        count(w, (uint64_t)box.width * box.height, item->n_bytes);
    }
}

static void decode_bare(ldri_bench_worker *w, ldri_bench_item *item, ldri_box box)
{
    if (!item) return;
    uint8_t *out = take_cold(w, ldri_bare_jpeg_bytes(box.width, box.height));
    ldr_status s = ldri_bare_jpeg_decode(w->bare, item->bytes, item->n_bytes, box.left, box.top,
                                         box.width, box.height, out);
    if (s < 0) {
        atomic_store_explicit(&item->damaged, 1, memory_order_relaxed);
    } else {
        count(w, (uint64_t)box.width * box.height, item->n_bytes);
    }
}

static ldri_bench_item *pick_jpeg(ldri_bench_worker *w, uint64_t k)
{
    return pick_item(w->bench, 0, w->bench->n_jpegs, k);
}

static ldri_bench_item *pick_png(ldri_bench_worker *w, uint64_t k)
{
    return pick_item(w->bench, w->bench->n_jpegs, w->bench->n_items, k);
}

static void decode_full_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_jpeg(w, k);
    if (item) decode(w, item, whole_of(item));
}

static void decode_crop_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_jpeg(w, k);
    if (item) decode(w, item, item->region);
}

static void bare_full_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_jpeg(w, k);
    if (item) decode_bare(w, item, whole_of(item));
}

static void bare_crop_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_jpeg(w, k);
    if (item) decode_bare(w, item, item->region);
}

static void png_full_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_png(w, k);
    if (item) decode(w, item, whole_of(item));
}

static void png_crop_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench_item *item = pick_png(w, k);
    if (item) decode(w, item, item->region);
}

/* The worker's own places in turn: no other writes there. */
static uint32_t next_place(ldri_bench_worker *w)
{
    const ldri_bench *b = w->bench;
    return w->id + b->n_workers * (uint32_t)(w->turn++ % (b->n_places / b->n_workers));
}

static void resample_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench *b = w->bench;
    const ldri_descriptor *d = &b->crops.descriptors[next_place(w)];
    uint8_t *out = take_cold(w, (size_t)ldri_pitch(b->o->width) * b->o->height);
    if (b->ops->resample_sample(b->backend, w->scratch, d, b->crops.pixels + d->offset, out) < 0)
        return;
    uint64_t pixels = (uint64_t)d->x.n_stored * d->y.n_stored;
    count(w, pixels, 3 * pixels);
}

static void store_step(ldri_bench_worker *w, uint64_t k)
{
    ldri_bench *b = w->bench;
    if (b->ops->augment_sample(b->backend, w->scratch, 1, next_place(w), 0) < 0) return;
    uint64_t pixels = (uint64_t)b->o->width * b->o->height;
    count(w, pixels, 3 * pixels);
}

ldri_bench_step *ldri_bench_step_of(const ldri_bench *b, ldri_bench_stage stage)
{
    const int jpegs = b->n_jpegs > 0, pngs = b->n_items > b->n_jpegs;
    switch (stage) {
    case LDRI_BENCH_READ:
        return read_step;
    case LDRI_BENCH_DECODE_FULL:
        return jpegs ? decode_full_step : NULL;
    case LDRI_BENCH_BARE_FULL:
        return jpegs ? bare_full_step : NULL;
    case LDRI_BENCH_DECODE_CROP:
        return jpegs ? decode_crop_step : NULL;
    case LDRI_BENCH_BARE_CROP:
        return jpegs ? bare_crop_step : NULL;
    case LDRI_BENCH_PNG_FULL:
        return pngs ? png_full_step : NULL;
    case LDRI_BENCH_PNG_CROP:
        return pngs ? png_crop_step : NULL;
    case LDRI_BENCH_RESAMPLE:
        return resample_step;
    case LDRI_BENCH_STORE:
        return b->ops->augments_in_workers ? store_step : NULL;
    case LDRI_BENCH_PIPELINE:
    case LDRI_BENCH_N_STAGES:
        break;
    }
    return NULL;
}

/* --- workers --------------------------------------------------------------------------------- */

static ldr_status make_workers(ldri_bench *b)
{
    size_t final_bytes = (size_t)ldri_pitch(b->o->width) * b->o->height;
    size_t cold_bytes = b->cold_bytes > final_bytes ? b->cold_bytes : final_bytes;
    cold_bytes = round_up(cold_bytes + LDRI_ARENA_UNIT + LDRI_ARENA_SKEW, 64);
    b->workers = calloc(b->n_workers, sizeof *b->workers);
    if (!b->workers) return LDR_E_NOMEM;
    for (uint32_t i = 0; i < b->n_workers; i++) {
        ldri_bench_worker *w = &b->workers[i];
        w->bench = b;
        w->id = i;
        if (ldri_decoder_open(&w->decoder, &b->limits) < 0) return LDR_E_NOMEM;
        if (ldri_bare_jpeg_open(&w->bare) < 0) return LDR_E_NOMEM;
        w->scratch = b->ops->scratch_open(b->backend);
        w->cold = aligned_alloc(64, cold_bytes);
        if (!w->scratch || !w->cold) return LDR_E_NOMEM;
        w->cold_bytes = cold_bytes;
        memset(w->cold, 1, cold_bytes); /* the first pass must not pay for new pages */
    }
    return LDR_OK;
}

/* --- places ---------------------------------------------------------------------------------- */

static size_t crop_bytes(const ldri_bench_item *item)
{
    return (size_t)ldri_pitch(item->region.width) * item->region.height;
}

/* Decodes the item's crop to `offset` of the arena of crops.  0: it is damaged. */
static int fill_crop(ldri_bench *b, ldri_bench_item *item, uint32_t place, size_t offset)
{
    ldri_decoder *decoder = b->workers[0].decoder;
    ldri_descriptor *d = &b->crops.descriptors[place];
    ldri_image_info info;
    ldri_failure why;
    const ldri_box *box = &item->region;
    *d = item->crop;
    d->kind = LDRI_RGB_CROP;
    d->pitch = ldri_pitch(box->width);
    d->offset = offset;
    ldr_status s = ldri_decode_begin(decoder, item->bytes, item->n_bytes, &info, &why);
    if (s >= 0) {
        s = ldri_decode_region(decoder, box->left, box->top, box->width, box->height,
                               b->crops.pixels + offset, d->pitch, &why);
    }
    ldri_decode_end(decoder);
    if (s < 0) atomic_store_explicit(&item->damaged, 1, memory_order_relaxed);
    return s >= 0;
}

/* Different crops while there are any and they have room; after them the same ones again. */
static uint32_t fill_crops(ldri_bench *b, size_t capacity)
{
    uint32_t n_filled = 0;
    size_t used = LDRI_ARENA_SKEW;
    for (uint64_t k = 0; k < b->n_items && n_filled < b->n_places; k++) {
        ldri_bench_item *item = &b->items[k];
        if (crop_bytes(item) > capacity - used) continue;
        if (fill_crop(b, item, n_filled, used)) {
            n_filled++;
            used += crop_bytes(item);
        }
    }
    for (uint32_t i = n_filled; n_filled > 0 && i < b->n_places; i++) {
        b->crops.descriptors[i] = b->crops.descriptors[i % n_filled];
    }
    return n_filled;
}

static ldr_status fill_finals(ldri_bench *b)
{
    size_t final_bytes = (size_t)ldri_pitch(b->o->width) * b->o->height;
    for (uint32_t i = 0; i < b->n_places; i++) {
        const ldri_descriptor *from = &b->crops.descriptors[i];
        ldri_descriptor *d = &b->finals.descriptors[i];
        *d = *from;
        d->kind = LDRI_RGB_FINAL;
        d->pitch = ldri_pitch(b->o->width);
        d->offset = LDRI_ARENA_SKEW + i * final_bytes;
        ldr_status s =
            b->ops->resample_sample(b->backend, b->workers[0].scratch, from,
                                    b->crops.pixels + from->offset, b->finals.pixels + d->offset);
        if (s < 0) return s;
    }
    return LDR_OK;
}

static uint32_t count_places(const ldri_bench *b)
{
    size_t each =
        (ldri_pitch(b->o->width) + LARGEST_VALUE * 3 * (size_t)b->o->width) * (size_t)b->o->height;
    uint32_t per_worker = (PLACES + b->n_workers - 1) / b->n_workers;
    if (per_worker < PLACES_PER_WORKER) per_worker = PLACES_PER_WORKER;
    while (per_worker > 1 && per_worker * b->n_workers * each > FINAL_BYTES) per_worker--;
    return per_worker * b->n_workers;
}

static ldr_status open_backend(ldri_bench *b, size_t *arena_bytes, ldr_error *err)
{
    const ldr_options *o = b->o;
    size_t crops = 0, largest = 0;
    size_t finals = (size_t)ldri_pitch(o->width) * o->height * b->n_places;
    for (uint64_t i = 0; i < b->n_items; i++) {
        size_t bytes = crop_bytes(&b->items[i]);
        if (bytes > largest) largest = bytes;
        if (crops < CROP_BYTES) crops += bytes;
    }
    if (crops > CROP_BYTES) crops = CROP_BYTES;
    if (crops < largest) crops = largest;
    *arena_bytes = round_up((crops > finals ? crops : finals) + LDRI_ARENA_SKEW, 64);
    ldri_backend_config c = {
        .batch = b->n_places,
        .width = o->width,
        .height = o->height,
        .dtype = o->dtype,
        .layout = o->layout,
        .n_hosts = 2,
        .n_outputs = 1,
        .arena_bytes = *arena_bytes,
    };
    memcpy(c.mean, o->mean, sizeof c.mean);
    memcpy(c.std, o->std, sizeof c.std);
    ldr_status s = b->ops->open(&b->backend, &c, err);
    if (s < 0) return s;
    b->ops->host_arena(b->backend, 0, &b->crops);
    b->ops->host_arena(b->backend, 1, &b->finals);
    return LDR_OK;
}

ldr_status ldri_bench_make_stages(ldri_bench *b, ldr_error *err)
{
    size_t arena_bytes;
    b->ops = ldri_backend_find(b->o->device, err);
    if (!b->ops) return err->status;
    b->n_places = count_places(b);
    ldr_status s = open_backend(b, &arena_bytes, err);
    if (s < 0) return s;
    s = make_workers(b);
    if (s >= 0 && fill_crops(b, arena_bytes) == 0) {
        return ldri_error_set(err, LDR_E_FORMAT, 0, LDR_NO_SAMPLE,
                              "all %llu files looked at are damaged: `ldr run` tells how",
                              (unsigned long long)b->n_items);
    }
    if (s >= 0) s = fill_finals(b);
    if (s < 0) ldri_error_set(err, s, 0, LDR_NO_SAMPLE, "out of memory: lower threads");
    return s;
}

void ldri_bench_free_stages(ldri_bench *b)
{
    for (uint32_t i = 0; b->workers && i < b->n_workers; i++) {
        ldri_bench_worker *w = &b->workers[i];
        ldri_decoder_close(&w->decoder);
        ldri_bare_jpeg_close(&w->bare);
        if (w->scratch) b->ops->scratch_close(w->scratch);
        ldri_buffer_free(&w->file);
        free(w->cold);
    }
    free(b->workers);
    b->workers = NULL;
    if (b->backend) b->ops->close(b->backend);
    b->backend = NULL;
}
