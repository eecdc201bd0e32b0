/* staging.c - the hub: turns the plan into jobs, and finished arenas into batches, in plan order.
 */
#include "loader/pipeline.h"

#include <assert.h>
#include <string.h>

#include "loader/params_mix.h"

typedef struct hub {
    struct ldr *ld;
    uint64_t total;     /* batches to make, or UINT64_MAX */
    uint64_t issued;    /* batches whose jobs were queued; batch k is made in host k mod n_hosts */
    uint64_t submitted; /* batches handed on */
    int failed;
} hub;

static ldri_host *host_of(const hub *u, uint64_t k)
{
    return &u->ld->hosts[k % u->ld->n_hosts];
}

/* The next batch can begin only in a host whose last batch was handed on and is no longer read. */
static int host_is_free(const hub *u, int wait)
{
    struct ldr *ld = u->ld;
    if (u->issued - u->submitted >= ld->n_hosts) return 0;
    return u->issued < ld->n_hosts ||
           ld->ops->host_reusable(ld->backend, host_of(u, u->issued)->id, wait);
}

static void queue_round(struct ldr *ld, ldri_ring *ring, ldri_host *h)
{
    /* Relaxed: the ring's push publishes it with the jobs. */
    atomic_store_explicit(&h->remaining, h->count, memory_order_relaxed);
    for (uint32_t i = 0; i < h->count; i++) ldri_ring_push(ring, &h->jobs[i]);
    ldri_event_signal(&ld->work_event, h->count);
}

static void queue_jobs(hub *u, ldri_host *h)
{
    struct ldr *ld = u->ld;
    h->epoch = ld->o.first_epoch + u->issued / ld->plan.n_batches;
    h->batch = u->issued % ld->plan.n_batches;
    h->count = ldri_plan_batch_count(&ld->plan, h->batch);
    h->padded = ldri_plan_batch_padded(&ld->plan, h->batch);
    h->finishing = 0;
    h->complete = 0;
    h->error_at = UINT32_MAX;
    ldri_arena_reset(&h->room, h->count);
    u->issued++;
    queue_round(ld, &ld->jobs, h);
}

/* Queues the jobs of every batch that has a free arena (and, where workers augment, a free output).
 */
static int issue(hub *u)
{
    struct ldr *ld = u->ld;
    int any = 0, no_room = 0;
    while (u->issued < u->total && !u->failed) {
        no_room = 1;
        if (!host_is_free(u, 0)) break;
        ldri_host *h = host_of(u, u->issued);
        if (ld->ops->augments_in_workers) {
            ldri_out *out = ldri_ring_pop(&ld->free_outputs);
            if (!out) break;
            h->output = out->id;
        }
        no_room = 0;
        queue_jobs(u, h);
        any = 1;
    }
    atomic_store_explicit(&ld->no_room, no_room, memory_order_relaxed);
    return any;
}

/* Pushes `last`, if there is one; after it, ldr_next gives what is in `ready` and then `outcome`
 * for ever.  Under one lock, so that whoever gets the last batch knows that it is the last. */
static void finish(hub *u, ldri_out *last, ldr_status outcome)
{
    struct ldr *ld = u->ld;
    pthread_mutex_lock(&ld->lock);
    if (last) ldri_ring_push(&ld->ready, last);
    ld->finished = 1;
    ld->outcome = outcome;
    pthread_mutex_unlock(&ld->lock);
    ldri_event_signal(&ld->ready_event, UINT32_MAX);
}

static void fail(hub *u, const ldr_error *error)
{
    u->failed = 1;
    ldri_pipeline_fail(u->ld, error);
    finish(u, NULL, error->status);
}

/* Fills the output's next view, which is nobody else's until it is published: the output is not
 * held and not in a ring. */
static const ldr_batch *fill_view(const struct ldr *ld, const ldri_host *h, ldri_out *out)
{
    memcpy(out->labels, h->memory.labels, h->count * sizeof *out->labels);
    memcpy(out->samples, h->samples, h->count * sizeof *out->samples);
    memcpy(out->ok, h->ok, h->count * sizeof *out->ok);
    if (ld->mixes) {
        memcpy(out->mix_labels, h->memory.mix_labels, h->count * sizeof *out->mix_labels);
        memcpy(out->mix_lambda, h->memory.mix_lambda, h->count * sizeof *out->mix_lambda);
    }
    ldri_output where;
    ld->ops->output(ld->backend, out->id, &where);
    ldr_batch *b = &out->views[(out->view + 1) % LDRI_VIEWS];
    *b = (ldr_batch){
        .size = sizeof *b,
        .images = where.images,
        .labels = where.labels ? where.labels : out->labels,
        .labels_host = out->labels,
        .samples_host = out->samples,
        .ok_host = out->ok,
        .count = h->count,
        .padded = h->padded,
        .height = ld->o.height,
        .width = ld->o.width,
        .dtype = ld->o.dtype,
        .layout = ld->o.layout,
        .epoch = h->epoch,
        .index = h->batch,
        .mix_labels = where.mix_labels ? where.mix_labels : out->mix_labels,
        .mix_lambda = where.mix_lambda ? where.mix_lambda : out->mix_lambda,
        .mix_labels_host = out->mix_labels,
        .mix_lambda_host = out->mix_lambda,
    };
    return b;
}

static void publish(hub *u, const ldri_host *h, ldri_out *out)
{
    struct ldr *ld = u->ld;
    int last = u->submitted + 1 == u->total;
    out->ends_epoch = h->batch + 1 == ld->plan.n_batches && !last;
    ldri_log_line(&ld->log, LDR_LOG_DEBUG, LDRI_LOG_STAGE,
                  "batch %llu of epoch %llu: %u images, %zu bytes of arena used",
                  (unsigned long long)h->batch, (unsigned long long)h->epoch, h->count,
                  ldri_arena_used(&h->room));
    if (last) {
        finish(u, out, LDR_END);
    } else {
        ldri_ring_push(&ld->ready, out);
        ldri_event_signal(&ld->ready_event, 1);
    }
}

typedef struct after_call { /* a call of the caller's own augmentation */
    const struct ldr *ld;
    const ldr_batch *batch;
    ldr_error *error;
} after_call;

static ldr_status call_after(void *arg, ldr_stream stream)
{
    const after_call *c = arg;
    const ldr_options *o = &c->ld->o;
    uint64_t seed = ldri_batch_seed(o, c->batch->epoch, c->batch->index);
    int result = o->after(o->after_user, c->batch, seed, stream);
    if (result == 0) return LDR_OK;
    return ldri_error_set(c->error, LDR_E_CALLBACK, result, LDR_NO_SAMPLE,
                          "the callback `after` returned %d for batch %llu of epoch %llu", result,
                          (unsigned long long)c->batch->index, (unsigned long long)c->batch->epoch);
}

/* A round has come home: the batch's second begins, or it is complete.  After a failure nothing
 * more is done for it. */
static void round_ended(struct ldr *ld, ldri_host *h)
{
    if (ld->two_rounds && !h->finishing && h->error_at == UINT32_MAX) {
        h->finishing = 1;
        queue_round(ld, &ld->finishes, h);
    } else {
        h->complete = 1;
    }
}

/* Hands on the next batch in plan order, if it is complete and has an output. */
static int submit(hub *u)
{
    struct ldr *ld = u->ld;
    for (ldri_host *h; (h = ldri_ring_pop(&ld->done)) != NULL;) round_ended(ld, h);
    if (u->submitted == u->issued || u->failed) return 0;
    ldri_host *h = host_of(u, u->submitted);
    if (!h->complete) return 0;
    if (h->error_at != UINT32_MAX) {
        fail(u, &h->error);
        return 1;
    }
    ldri_out *out =
        ld->ops->augments_in_workers ? &ld->outputs[h->output] : ldri_ring_pop(&ld->free_outputs);
    if (!out) return 0;
    uint64_t start = ldri_now_ns();
    ldr_error error;
    size_t used = ldri_arena_used(&h->room);
    ldr_status s = ld->ops->submit(ld->backend, h->id, out->id, h->count, used, &error);
    const ldr_batch *b = fill_view(ld, h, out);
    if (s >= 0 && ld->o.after) {
        after_call call = {ld, b, &error};
        s = ld->ops->after(ld->backend, out->id, call_after, &call, &error);
    }
    if (s < 0) {
        fail(u, &error);
        return 1;
    }
    if (!ld->ops->augments_in_workers) { /* else nothing was copied */
        ldri_counter_add(&ld->copy.items, h->count);
        ldri_counter_add(&ld->copy.bytes, used);
        ldri_counter_add(&ld->copy.busy_ns, ldri_now_ns() - start);
    }
    publish(u, h, out);
    u->submitted++;
    return 1;
}

static int step(hub *u)
{
    int any = issue(u); /* first, so that a slow driver call starves no worker */
    return submit(u) | any;
}

void ldri_staging_main(void *arg)
{
    struct ldr *ld = arg;
    hub u = {.ld = ld};
    /* UINT64_MAX batches: endless, and what an overflowing product stands for. */
    if (ld->o.epochs == 0 || __builtin_mul_overflow(ld->o.epochs, ld->plan.n_batches, &u.total)) {
        u.total = UINT64_MAX;
    }
    for (;;) {
        if (atomic_load_explicit(&ld->stop, memory_order_acquire)) break;
        if (step(&u)) continue;
        uint32_t ticket = ldri_event_announce(&ld->hub_event);
        if (atomic_load_explicit(&ld->stop, memory_order_acquire) || step(&u)) {
            ldri_event_retract(&ld->hub_event);
            continue;
        }
        if (u.issued < u.total && !u.failed && u.issued - u.submitted < ld->n_hosts &&
            !host_is_free(&u, 0)) {
            /* Only a copy is missing before the next batch can begin: nobody will signal its end.
             */
            ldri_event_retract(&ld->hub_event);
            host_is_free(&u, 1);
            continue;
        }
        ldri_event_sleep(&ld->hub_event, ticket, UINT64_MAX);
    }
}
