#include "loader/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "loader/params.h"

#define KEEP_FILE_BYTES     ((size_t)16 << 20) /* larger buffers are given back after the picture */
#define KEEP_OVERFLOW_BYTES ((size_t)64 << 20)

static void fail_batch(ldri_host *h, uint32_t i, const ldr_error *error)
{
    pthread_mutex_lock(&h->lock);
    if (i < h->error_at) { /* the first place, whichever worker comes first */
        h->error_at = i;
        h->error = *error;
    }
    pthread_mutex_unlock(&h->lock);
}

/* Where a sample's pixels stand in its arena. */
typedef struct place {
    size_t offset;
    int final; /* it has the room of a final picture, and is settled */
} place;

/* Decodes what `params` needs of the open picture into the arena, or, without room there, into the
 * worker's memory and from there, resampled, into the arena.  Fills *d. */
static ldr_status decode_into_arena(ldri_worker *w, ldri_host *h, const ldri_params *params,
                                    const ldri_image_info *info, place *where, ldri_descriptor *d,
                                    ldri_failure *why)
{
    struct ldr *ld = w->ld;
    ldri_box region;
    ldri_params_describe(&ld->o, params, info->width, info->height, d, &region);
    d->kind = LDRI_RGB_CROP;
    d->pitch = ldri_pitch(region.width);
    size_t bytes = (size_t)d->pitch * region.height;
    uint8_t *crop;
    int in_arena = !where->final && ldri_arena_take_crop(&h->room, bytes, &where->offset);
    if (in_arena) {
        crop = h->memory.pixels + where->offset;
    } else {
        if (!where->final) where->offset = ldri_arena_take_final(&h->room);
        where->final = 1;
        if (ldri_buffer_reserve(&w->overflow, bytes) < 0) {
            return ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, ENOMEM,
                                    "out of memory for a crop of %u x %u pixels", region.width,
                                    region.height);
        }
        crop = w->overflow.bytes;
    }
    uint64_t start = ldri_now_ns();
    ldr_status s = ldri_decode_region(w->decoder, region.left, region.top, region.width,
                                      region.height, crop, d->pitch, why);
    uint64_t end = ldri_now_ns();
    ldri_counter_add(&w->decode.busy_ns, end - start);
    if (s < 0) return s;
    ldri_counter_add(&w->decode.items, 1);
    ldri_counter_add(&w->decode.bytes, 3ull * region.width * region.height);

    d->offset = where->offset;
    if (in_arena) {
        ldri_arena_settle(&h->room);
    } else {
        s = ld->ops->resample_sample(ld->backend, w->scratch, d, crop,
                                     h->memory.pixels + where->offset);
        ldri_counter_add(&w->augment.busy_ns, ldri_now_ns() - end);
        if (s < 0) {
            return ldri_failure_set(why, s, LDR_CAUSE_NONE, 0,
                                    "out of memory to resample a crop of %u x %u pixels",
                                    region.width, region.height);
        }
        d->kind = LDRI_RGB_FINAL;
        d->pitch = ldri_pitch(ld->o.width);
    }
    return LDR_OK;
}

static ldr_status load_sample(ldri_worker *w, ldri_host *h, uint64_t sample, uint32_t repeat,
                              place *where, ldri_descriptor *d, ldri_failure *why)
{
    struct ldr *ld = w->ld;
    uint64_t start = ldri_now_ns();
    ldr_status s = ldri_read_file(ldri_source_root_fd(ld->source),
                                  ldri_source_name(ld->source, sample), &ld->limits, &w->file, why);
    uint64_t read = ldri_now_ns();
    ldri_counter_add(&w->read.busy_ns, read - start);
    if (s < 0) return s;
    ldri_counter_add(&w->read.items, 1);
    ldri_counter_add(&w->read.bytes, w->file.n);

    ldri_image_info info;
    s = ldri_decode_begin(w->decoder, w->file.bytes, w->file.n, &info, why);
    ldri_counter_add(&w->decode.busy_ns, ldri_now_ns() - read);
    if (s >= 0) {
        ldri_params params;
        ldri_params_draw(&ld->o, h->epoch, sample, repeat, &params);
        s = decode_into_arena(w, h, &params, &info, where, d, why);
    }
    ldri_decode_end(w->decoder);
    ldri_buffer_trim(&w->file, KEEP_FILE_BYTES);
    ldri_buffer_trim(&w->overflow, KEEP_OVERFLOW_BYTES);
    return s;
}

/* A black picture in the place of a bad sample; its own flips are drawn as if it were good. */
static void load_black(struct ldr *ld, ldri_host *h, uint64_t sample, place *where,
                       ldri_descriptor *d)
{
    if (!where->final) where->offset = ldri_arena_take_final(&h->room);
    memset(h->memory.pixels + where->offset, 0, ld->final_bytes);
    ldri_params params;
    ldri_params_draw(&ld->o, h->epoch, sample, 0, &params);
    ldri_box region;
    ldri_params_describe(&ld->o, &params, ld->o.width, ld->o.height, d, &region);
    d->kind = LDRI_RGB_FINAL;
    d->pitch = ldri_pitch(ld->o.width);
    d->offset = where->offset;
}

/* The whole of one job but its end.  A bad sample is an item like any other: what becomes of it is
 * the policy's. */
static void load_job(ldri_worker *w, ldri_host *h, uint32_t i)
{
    struct ldr *ld = w->ld;
    ldri_descriptor *d = &h->memory.descriptors[i];
    ldri_pick pick;
    ldri_plan_pick(&ld->plan, h->epoch, h->batch, i, &pick);
    uint64_t sample = pick.sample;
    place where = {0};
    ldri_failure why, first;
    ldr_status s = load_sample(w, h, sample, 0, &where, d, &why);
    h->ok[i] = 1;
    if (s < 0 && why.cause != LDR_CAUSE_NONE) {
        first = why;
        ldri_bad_list_add(&ld->bad, sample, h->epoch, &why);
        if (ld->o.on_bad == LDR_BAD_MARK) {
            load_black(ld, h, sample, &where, d);
            h->ok[i] = 0;
            s = LDR_OK;
        }
        for (uint32_t j = 0; ld->o.on_bad == LDR_BAD_REPLACE && j < LDRI_CANDIDATES; j++) {
            sample = ldri_plan_replacement(&ld->plan, h->epoch, pick.sample, j);
            s = load_sample(w, h, sample, LDRI_REPEAT_REPLACEMENT, &where, d, &why);
            if (s >= 0 || why.cause == LDR_CAUSE_NONE) break;
            ldri_bad_list_add(&ld->bad, sample, h->epoch, &why);
        }
        if (s < 0 &&
            why.cause != LDR_CAUSE_NONE) { /* the first cause is what the caller can act on */
            char path[300];
            ldr_error error;
            const char *remedy = ld->o.on_bad == LDR_BAD_STOP
                                     ? "remove it, or let on_bad replace it"
                                     : "16 candidates for its place are bad too: check the source";
            ldri_error_set(&error, first.status, first.detail, pick.sample, "%s: %s: %s",
                           ldri_source_shown_path(ld->source, pick.sample, path, sizeof path),
                           first.text, remedy);
            fail_batch(h, i, &error);
            return;
        }
    }
    if (s < 0) {
        char path[300];
        ldr_error error;
        ldri_error_set(&error, why.status, why.detail, sample, "cannot load %s: %s",
                       ldri_source_shown_path(ld->source, sample, path, sizeof path), why.text);
        fail_batch(h, i, &error);
        return;
    }
    h->samples[i] = sample;
    h->memory.labels[i] = ldri_source_class(ld->source, sample);
    if (ld->ops->augments_in_workers) {
        uint64_t start = ldri_now_ns();
        s = ld->ops->augment_sample(ld->backend, w->scratch, h->id, i, h->output);
        ldri_counter_add(&w->augment.busy_ns, ldri_now_ns() - start);
        if (s < 0) {
            ldr_error error;
            ldri_error_set(&error, s, 0, sample,
                           "out of memory to augment an image: lower threads");
            fail_batch(h, i, &error);
            return;
        }
        ldri_counter_add(&w->augment.items, 1);
        ldri_counter_add(&w->augment.bytes, ld->final_bytes);
    }
}

/* The next job, or NULL when the loader stops. */
static ldri_job *take_job(ldri_worker *w)
{
    struct ldr *ld = w->ld;
    for (;;) {
        if (atomic_load_explicit(&ld->stop, memory_order_acquire)) return NULL;
        ldri_job *job = ldri_ring_pop(&ld->jobs);
        if (job) return job;
        uint32_t ticket = ldri_event_announce(&ld->work_event);
        job = ldri_ring_pop(&ld->jobs);
        if (job || atomic_load_explicit(&ld->stop, memory_order_acquire)) {
            ldri_event_retract(&ld->work_event);
            return job;
        }
        /* Idle time is booked under decode, where nearly all of a worker's busy time is. */
        uint64_t start = ldri_now_ns();
        int blocked = atomic_load_explicit(&ld->no_room, memory_order_relaxed);
        ldri_event_sleep(&ld->work_event, ticket, UINT64_MAX);
        ldri_counter_add(blocked ? &w->decode.blocked_ns : &w->decode.starved_ns,
                         ldri_now_ns() - start);
    }
}

void ldri_worker_main(void *arg)
{
    ldri_worker *w = arg;
    struct ldr *ld = w->ld;
    ldri_job *job;
    while ((job = take_job(w)) != NULL) {
        ldri_host *h = job->host;
        load_job(w, h, job->index);
        /* W1: release, so that this sample's pixels, label and descriptor are visible to whoever
         * sees the counter; acquire, so that the last worker passes on all the others' through the
         * ring.  Pairs with itself and the ring's P1. */
        if (atomic_fetch_sub_explicit(&h->remaining, 1, memory_order_acq_rel) == 1) {
            ldri_ring_push(&ld->done, h);
            ldri_event_signal(&ld->hub_event, 1);
        }
    }
}
