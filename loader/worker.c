#include "loader/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "loader/fetch.h"
#include "loader/params.h"
#include "loader/params_mix.h"

/* A read that takes longer than this came from a disk: from the page cache a photograph takes a
 * quarter of it. */
#define COLD_READ_NS(bytes) (80000u + (bytes) / 2)
#define COLD_READS          256 /* samples for which a worker then reads ahead: it makes reads look warm */
#define READ_AHEAD          128u /* how many samples; at 100 KB each, 13 MB of page cache */

static void fail_batch(ldri_host *h, uint32_t i, const ldr_error *error)
{
    pthread_mutex_lock(&h->lock);
    if (i < h->error_at) { /* the first place, whichever worker comes first */
        h->error_at = i;
        h->error = *error;
    }
    pthread_mutex_unlock(&h->lock);
}

static void now_doing(ldri_worker *w, ldri_doing what, uint64_t now_ns)
{
    atomic_store_explicit(&w->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&w->doing, what, memory_order_relaxed);
}

/* Where a sample's pixels stand in its arena. */
typedef struct place {
    size_t offset;
    int final; /* it has the room of a final picture, and is settled */
} place;

/* What is to be made of one file. */
typedef struct order {
    uint64_t sample;
    ldri_params params;
    ldri_image_info info;
    ldri_box region; /* of the picture, to be decoded */
    ldri_descriptor *descriptor;
} order;

/* Of a back end's step on one sample. */
static const char *step_failed(ldr_status s)
{
    return s == LDR_E_NOMEM ? "out of memory (lower threads)" : "an internal error";
}

static size_t crop_bytes(const order *r)
{
    return (size_t)ldri_pitch(r->region.width) * r->region.height;
}

/* Decodes the region into the arena, or, without room there, into the worker's memory and from
 * there, resampled, into the arena. */
static ldr_status decode_into_arena(ldri_worker *w, ldri_host *h, const order *r, place *where,
                                    ldri_failure *why)
{
    struct ldr *ld = w->ld;
    ldri_descriptor *d = r->descriptor;
    d->kind = LDRI_RGB_CROP;
    d->pitch = ldri_pitch(r->region.width);
    uint8_t *crop;
    int in_arena = !where->final && ldri_arena_take_crop(&h->room, crop_bytes(r), &where->offset);
    if (in_arena) {
        crop = h->memory.pixels + where->offset;
    } else {
        if (!where->final) where->offset = ldri_arena_take_final(&h->room);
        where->final = 1;
        if (ldri_buffer_reserve(&w->overflow, crop_bytes(r)) < 0) {
            return ldri_failure_set(why, LDR_E_NOMEM, LDR_CAUSE_NONE, ENOMEM,
                                    "out of memory for a crop of %u x %u pixels", r->region.width,
                                    r->region.height);
        }
        crop = w->overflow.bytes;
    }
    uint64_t start = ldri_now_ns();
    now_doing(w, LDRI_DECODING, start);
    ldr_status s = ldri_decode_region(w->decoder, r->region.left, r->region.top, r->region.width,
                                      r->region.height, crop, d->pitch, why);
    uint64_t end = ldri_now_ns();
    ldri_counter_add(&w->decode.busy_ns, end - start);
    if (s < 0) return s;
    ldri_counter_add(&w->decode.items, 1);
    ldri_counter_add(&w->decode.bytes, 3ull * r->region.width * r->region.height);

    d->offset = where->offset;
    if (in_arena) {
        ldri_arena_settle(&h->room);
    } else {
        s = ld->ops->resample_sample(ld->backend, w->scratch, d, crop,
                                     h->memory.pixels + where->offset);
        ldri_counter_add(&w->augment.busy_ns, ldri_now_ns() - end);
        if (s < 0) {
            return ldri_failure_set(why, s, LDR_CAUSE_NONE, 0,
                                    "%s while resampling a crop of %u x %u pixels", step_failed(s),
                                    r->region.width, r->region.height);
        }
        d->kind = LDRI_RGB_FINAL;
        d->pitch = ldri_pitch(ld->o.width);
    }
    return LDR_OK;
}

/* Takes `bytes` of decode_limit, waiting for the worker's turn; 0: the loader stops.  The wait is
 * booked as the decode's, for want of room. */
static int hold(ldri_worker *w, uint64_t bytes)
{
    uint64_t start = ldri_now_ns();
    now_doing(w, LDRI_WAITING, start);
    int held = ldri_hold_set(&w->hold, bytes);
    uint64_t end = ldri_now_ns();
    now_doing(w, LDRI_READING, end);
    ldri_counter_add(&w->decode.blocked_ns, end - start);
    ldri_counter_add(&w->limited_ns, end - start);
    w->waited_ns += end - start;
    return held;
}

static ldr_status admit_file(void *arg, size_t bytes)
{
    ldri_worker *w = arg;
    if (bytes > w->ld->decode_budget.limit) return LDR_E_LIMIT;
    /* What an earlier look at this picture found, if there was one, covers the file. */
    if (bytes <= w->hold.bytes) return LDR_OK;
    return hold(w, bytes) ? LDR_OK : LDR_E_ABORTED;
}

static ldr_status get_bytes(ldri_worker *w, uint64_t sample, ldri_failure *why)
{
    struct ldr *ld = w->ld;
    ldri_admission admission = {admit_file, w};
    const char *name = ldri_source_name(ld->source, sample);
    if (ld->o.fetch) return ldri_fetch(&ld->o, sample, name, &admission, &w->file, why);
    return ldri_read_file(ldri_source_root_fd(ld->source), name, &ld->limits, &admission, &w->file,
                          why);
}

/* Reads the file and its header, and finds out what to decode.  The decoder is left open on
 * success. */
static ldr_status open_picture(ldri_worker *w, order *r, ldri_failure *why)
{
    struct ldr *ld = w->ld;
    uint64_t start = ldri_now_ns();
    atomic_store_explicit(&w->sample, r->sample, memory_order_relaxed);
    now_doing(w, LDRI_READING, start);
    w->waited_ns = 0;
    ldr_status s = get_bytes(w, r->sample, why);
    uint64_t read = ldri_now_ns(), took = read - start - w->waited_ns;
    ldri_counter_add(&w->read.busy_ns, took);
    if (s < 0) return s;
    /* One slow read may be a preemption. */
    w->slow_reads = took > COLD_READ_NS(w->file.n) ? w->slow_reads + 1 : 0;
    if (w->slow_reads > 1) w->cold = COLD_READS;
    ldri_counter_add(&w->read.items, 1);
    ldri_counter_add(&w->read.bytes, w->file.n);
    s = ldri_decode_begin(w->decoder, w->file.bytes, w->file.n, &r->info, why);
    ldri_counter_add(&w->decode.busy_ns, ldri_now_ns() - read);
    if (s < 0) return s;
    ldri_params_describe(&ld->o, &r->params, r->info.width, r->info.height, r->descriptor,
                         &r->region);
    return LDR_OK;
}

/* Opens the picture with a hold on the decode budget for all it needs.  A crop counts whether it
 * will find room in the arena or not, so that what is refused does not depend on timing. */
static ldr_status open_within_budget(ldri_worker *w, order *r, ldri_failure *why)
{
    for (;;) {
        ldr_status s = open_picture(w, r, why);
        if (s < 0) return s;
        uint64_t need = w->file.n + r->info.working_bytes + crop_bytes(r);
        if (need > w->ld->decode_budget.limit) {
            return ldri_failure_set(
                why, LDR_E_LIMIT, LDR_CAUSE_LIMIT, 0,
                "%u x %u pixels take %llu bytes to decode, more than decode_limit", r->info.width,
                r->info.height, (unsigned long long)need);
        }
        if (ldri_hold_grow(&w->hold, need)) return LDR_OK;
        /* Others use it: hold nothing while waiting for the whole, and begin again. */
        ldri_decode_end(w->decoder);
        ldri_buffer_free(&w->file);
        if (!hold(w, need)) {
            return ldri_failure_set(why, LDR_E_ABORTED, LDR_CAUSE_NONE, 0, "the loader stops");
        }
    }
}

static ldr_status load_sample(ldri_worker *w, ldri_host *h, uint64_t sample, uint32_t repeat,
                              place *where, ldri_descriptor *d, ldri_failure *why)
{
    order r = {.sample = sample, .descriptor = d};
    ldri_params_draw(&w->ld->o, h->epoch, sample, repeat, &r.params);
    ldr_status s = open_within_budget(w, &r, why);
    if (s >= 0) s = decode_into_arena(w, h, &r, where, why);
    ldri_decode_end(w->decoder);
    ldri_buffer_trim(&w->file, w->ld->keep_bytes);
    ldri_buffer_trim(&w->overflow, w->ld->keep_bytes);
#ifdef __GLIBC__
    /* The decoders' libraries use malloc: what they gave back goes on to the system, or it would
     * stay in this thread's heap. */
    if (r.info.working_bytes > w->ld->keep_bytes) malloc_trim(0);
#endif
    ldri_hold_release(&w->hold);
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

static ldr_status bad_sample_error(const struct ldr *ld, uint64_t sample, const ldri_failure *why,
                                   ldr_error *error)
{
    char path[160]; /* so that path, cause and remedy fit one message */
    const char *remedy = ld->o.on_bad == LDR_BAD_STOP
                             ? "remove it, or let on_bad replace it"
                             : "16 candidates for its place are bad too: check the source";
    return ldri_error_set(error, why->status, why->detail, sample, "%s: %s: %s",
                          ldri_source_shown_path(ld->source, sample, path, sizeof path), why->text,
                          remedy);
}

static void note_bad(ldri_worker *w, uint64_t sample, uint64_t epoch, const ldri_failure *why)
{
    struct ldr *ld = w->ld;
    ldri_bad_list_add(&ld->bad, sample, epoch, why);
    if (!ldri_log_wanted(&ld->log, LDR_LOG_INFO, LDRI_LOG_DECODE)) return;
    char path[300];
    ldri_log_line(&ld->log, LDR_LOG_INFO, LDRI_LOG_DECODE, "bad sample %s: %s: %s",
                  ldri_source_shown_path(ld->source, sample, path, sizeof path),
                  ldr_cause_name(why->cause), why->text);
}

/* Loads place i: its own sample or, if that is bad, what the policy puts there.  On failure *error
 * is the batch's. */
static ldr_status load_place(ldri_worker *w, ldri_host *h, uint32_t i, ldr_error *error)
{
    struct ldr *ld = w->ld;
    ldri_descriptor *d = &h->memory.descriptors[i];
    ldri_pick pick;
    ldri_plan_pick(&ld->plan, h->epoch, h->batch, i, &pick);
    place where = {0};
    ldri_failure why;
    uint64_t sample = pick.sample;
    ldr_status s = load_sample(w, h, sample, 0, &where, d, &why);
    h->ok[i] = 1;
    ldri_failure first = why;
    for (uint32_t j = 0; s < 0 && why.cause != LDR_CAUSE_NONE; j++) {
        note_bad(w, sample, h->epoch, &why);
        if (ld->o.on_bad == LDR_BAD_MARK) {
            load_black(ld, h, sample, &where, d);
            h->ok[i] = 0;
            s = LDR_OK;
        } else if (ld->o.on_bad == LDR_BAD_STOP || j == LDRI_CANDIDATES) {
            return bad_sample_error(ld, pick.sample, &first, error);
        } else {
            sample = ldri_plan_replacement(&ld->plan, h->epoch, pick.sample, j);
            s = load_sample(w, h, sample, LDRI_REPEAT_REPLACEMENT, &where, d, &why);
        }
    }
    if (s < 0) {
        char path[300];
        return ldri_error_set(error, s, why.detail, sample, "cannot load %s: %s",
                              ldri_source_shown_path(ld->source, sample, path, sizeof path),
                              why.text);
    }
    h->samples[i] = sample;
    h->memory.labels[i] = ldri_source_class(ld->source, sample);
    return LDR_OK;
}

/* The partner's label is known when it has been loaded: each sample gives its own away. */
static void draw_mix(const struct ldr *ld, ldri_host *h, uint32_t i)
{
    ldri_mix_params p;
    ldri_mix_draw(&ld->o, h->epoch, h->batch, h->count, i, &p);
    ldri_mix_describe(&p, &h->memory.descriptors[i]);
    h->memory.mix_lambda[i] = p.label_weight;
    h->memory.mix_labels[p.partner] = h->memory.labels[i];
}

/* Through the whole chain or, with mixing, through one of its two halves. */
static ldr_status augment_place(ldri_worker *w, ldri_host *h, uint32_t i, ldr_error *error)
{
    struct ldr *ld = w->ld;
    uint64_t start = ldri_now_ns();
    now_doing(w, LDRI_AUGMENTING, start);
    ldr_status s = h->finishing
                       ? ld->ops->finish_sample(ld->backend, w->scratch, h->id, i, h->output)
                       : ld->ops->augment_sample(ld->backend, w->scratch, h->id, i, h->output);
    ldri_counter_add(&w->augment.busy_ns, ldri_now_ns() - start);
    if (s < 0) {
        return ldri_error_set(error, s, 0, h->samples[i], "%s while augmenting an image",
                              step_failed(s));
    }
    if (ld->two_rounds && !h->finishing) return LDR_OK; /* it is counted once */
    ldri_counter_add(&w->augment.items, 1);
    ldri_counter_add(&w->augment.bytes, ld->final_bytes);
    return LDR_OK;
}

/* Files that come from a disk rather than from the page cache: the kernel is told of one that will
 * be needed soon, in the plan's order.  On warm files the extra open would cost about one part in
 * two hundred for nothing. */
static void read_ahead(const ldri_worker *w, const ldri_host *h, uint32_t i)
{
    const struct ldr *ld = w->ld;
    uint64_t at = h->batch * ld->o.batch + i + READ_AHEAD;
    uint64_t epoch = h->epoch, batch = at / ld->o.batch;
    uint32_t index = (uint32_t)(at % ld->o.batch);
    if (batch >= ld->plan.n_batches) { /* over the end of the epoch */
        epoch++;
        batch -= ld->plan.n_batches;
        if (ld->o.epochs && epoch >= ld->o.first_epoch + ld->o.epochs) return;
        if (batch >= ld->plan.n_batches) return;
    }
    if (index >= ldri_plan_batch_count(&ld->plan, batch)) return;
    ldri_pick pick;
    ldri_plan_pick(&ld->plan, epoch, batch, index, &pick);
    ldri_read_ahead(ldri_source_root_fd(ld->source), ldri_source_name(ld->source, pick.sample));
}

/* The whole of one job but its end. */
static void do_job(ldri_worker *w, ldri_host *h, uint32_t i)
{
    ldr_error error;
    ldr_status s = LDR_OK;
    if (!h->finishing) {
        if (w->cold > 0 && !w->ld->o.fetch) {
            w->cold--;
            read_ahead(w, h, i);
        }
        s = load_place(w, h, i, &error);
        if (s >= 0 && w->ld->mixes) draw_mix(w->ld, h, i);
    }
    if (s >= 0 && w->ld->ops->augments_in_workers) s = augment_place(w, h, i, &error);
    if (s < 0) fail_batch(h, i, &error);
    now_doing(w, LDRI_IDLE, 0);
}

/* What finishes a batch that the consumer waits for goes before what begins one. */
static ldri_job *pop_job(struct ldr *ld)
{
    ldri_job *job = ldri_ring_pop(&ld->finishes);
    return job ? job : ldri_ring_pop(&ld->jobs);
}

/* The next job, or NULL when the loader stops. */
static ldri_job *take_job(ldri_worker *w)
{
    struct ldr *ld = w->ld;
    for (;;) {
        if (atomic_load_explicit(&ld->stop, memory_order_acquire)) return NULL;
        ldri_job *job = pop_job(ld);
        if (job) return job;
        uint32_t ticket = ldri_event_announce(&ld->work_event);
        job = pop_job(ld);
        if (job || atomic_load_explicit(&ld->stop, memory_order_acquire)) {
            ldri_event_retract(&ld->work_event);
            return job;
        }
        /* Idle time is booked under decode, where nearly all of a worker's busy time is. */
        uint64_t start = ldri_now_ns();
        int blocked = atomic_load_explicit(&ld->no_room, memory_order_relaxed);
        _Atomic uint64_t *since = blocked ? &w->blocked_since_ns : &w->starved_since_ns;
        atomic_store_explicit(since, start, memory_order_relaxed);
        ldri_event_sleep(&ld->work_event, ticket, UINT64_MAX);
        atomic_store_explicit(since, 0, memory_order_relaxed);
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
        do_job(w, h, job->index);
        /* W1: release, so that this sample's pixels, label and descriptor are visible to whoever
         * sees the counter; acquire, so that the last worker passes on all the others' through the
         * ring.  Pairs with itself and the ring's P1. */
        if (atomic_fetch_sub_explicit(&h->remaining, 1, memory_order_acq_rel) == 1) {
            ldri_ring_push(&ld->done, h);
            ldri_event_signal(&ld->hub_event, 1);
        }
    }
}
