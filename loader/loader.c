#include "loader/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/cpus.h"
#include "loader/options.h"

#define WORKER_NICE          5 /* the caller's thread, which feeds the GPU, wins its core */
#define DEFAULT_ARENA_FINALS 3 /* final pictures' room per sample, without a pinned_limit */
#define ALIGNMENT            64u
#define MAX_KEEP_BYTES       ((size_t)32 << 20)

/* --- open ------------------------------------------------------------------------------------ */

static size_t host_overhead(const ldr_options *o) /* of descriptors and labels, bytes */
{
    size_t descriptors = o->batch * sizeof(ldri_descriptor) + ALIGNMENT;
    return descriptors + o->batch * sizeof(int64_t) + ALIGNMENT;
}

/* Bytes for pixels in one host arena. */
static ldr_status arena_bytes(const ldr_options *o, size_t final_bytes, uint32_t n_hosts,
                              size_t *out, ldr_error *err)
{
    size_t least = (o->batch * final_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!o->pinned_limit) {
        *out = least * DEFAULT_ARENA_FINALS;
        return LDR_OK;
    }
    size_t each = o->pinned_limit / n_hosts, overhead = host_overhead(o);
    if (each < least + overhead) {
        return ldri_error_set(
            err, LDR_E_LIMIT, 0, LDR_NO_SAMPLE,
            "pinned_limit is %zu bytes, but depth %u x batch %u of %u x %u pixels takes "
            "%zu: raise it, or lower depth or batch",
            o->pinned_limit, o->depth, o->batch, o->width, o->height, (least + overhead) * n_hosts);
    }
    *out = (each - overhead) / ALIGNMENT * ALIGNMENT;
    return LDR_OK;
}

static ldr_status make_backend(ldr *ld, ldr_error *err)
{
    const ldr_options *o = &ld->o;
    ld->ops = ldri_backend_find(o->device, err);
    if (!ld->ops) return err ? err->status : LDR_E_UNSUPPORTED;
    ld->final_bytes = (size_t)ldri_pitch(o->width) * o->height;
    ldri_backend_config c = {
        .batch = o->batch,
        .width = o->width,
        .height = o->height,
        .dtype = o->dtype,
        .layout = o->layout,
        .n_hosts = ld->n_hosts,
        .n_outputs = ld->n_outputs,
    };
    memcpy(c.mean, o->mean, sizeof c.mean);
    memcpy(c.std, o->std, sizeof c.std);
    ldr_status s = arena_bytes(o, ld->final_bytes, ld->n_hosts, &c.arena_bytes, err);
    if (s < 0) return s;
    s = ld->ops->open(&ld->backend, &c, err);
    if (s < 0) return s;
    for (uint32_t i = 0; i < ld->n_hosts; i++) {
        ldri_arena_init(&ld->hosts[i].room, c.arena_bytes, ld->final_bytes);
        ld->ops->host_arena(ld->backend, i, &ld->hosts[i].memory);
    }
    return LDR_OK;
}

static ldr_status make_pools(ldr *ld)
{
    uint32_t batch = ld->o.batch;
    ld->hosts = aligned_alloc(LDRI_CACHE_LINE, ld->n_hosts * sizeof *ld->hosts);
    ld->outputs = calloc(ld->n_outputs, sizeof *ld->outputs);
    ld->workers = aligned_alloc(LDRI_CACHE_LINE, ld->n_workers * sizeof *ld->workers);
    if (ld->hosts) memset(ld->hosts, 0, ld->n_hosts * sizeof *ld->hosts);
    if (ld->workers) memset(ld->workers, 0, ld->n_workers * sizeof *ld->workers);
    if (!ld->hosts || !ld->outputs || !ld->workers) return LDR_E_NOMEM;
    for (uint32_t i = 0; i < ld->n_hosts; i++) {
        ldri_host *h = &ld->hosts[i];
        h->id = i;
        h->jobs = calloc(batch, sizeof *h->jobs);
        h->samples = calloc(batch, sizeof *h->samples);
        h->ok = calloc(batch, 1);
        if (!h->jobs || !h->samples || !h->ok) return LDR_E_NOMEM;
        for (uint32_t j = 0; j < batch; j++) h->jobs[j] = (ldri_job){h, j};
        if (pthread_mutex_init(&h->lock, NULL) != 0) return LDR_E_NOMEM;
        h->lock_made = 1;
    }
    for (uint32_t i = 0; i < ld->n_outputs; i++) {
        ldri_out *out = &ld->outputs[i];
        out->id = i;
        out->labels = calloc(batch, sizeof *out->labels);
        out->samples = calloc(batch, sizeof *out->samples);
        out->ok = calloc(batch, 1);
        if (!out->labels || !out->samples || !out->ok) return LDR_E_NOMEM;
    }
    return LDR_OK;
}

static ldr_status make_queues(ldr *ld)
{
    size_t n_jobs = (size_t)ld->n_hosts * ld->o.batch;
    if (ldri_ring_init(&ld->jobs, n_jobs) < 0 || ldri_ring_init(&ld->done, ld->n_hosts) < 0 ||
        ldri_ring_init(&ld->ready, ld->n_outputs) < 0 ||
        ldri_ring_init(&ld->free_outputs, ld->n_outputs) < 0 || ldri_bad_list_init(&ld->bad) < 0) {
        return LDR_E_NOMEM;
    }
    ldri_event_init(&ld->work_event);
    ldri_event_init(&ld->hub_event);
    ldri_event_init(&ld->ready_event);
    for (uint32_t i = 0; i < ld->n_outputs; i++) ldri_ring_push(&ld->free_outputs, &ld->outputs[i]);
    return LDR_OK;
}

/* What workers keep between pictures, all together, is at most an eighth of decode_limit. */
static size_t keep_bytes(const ldr *ld)
{
    size_t keep = ld->o.decode_limit / ld->n_workers / 16; /* two buffers each */
    return keep < MAX_KEEP_BYTES ? keep : MAX_KEEP_BYTES;
}

static ldr_status make_workers(ldr *ld)
{
    if (ldri_budget_init(&ld->decode_budget, ld->o.decode_limit, &ld->stop) < 0) return LDR_E_NOMEM;
    ld->keep_bytes = keep_bytes(ld);
    for (uint32_t i = 0; i < ld->n_workers; i++) {
        ldri_worker *w = &ld->workers[i];
        w->ld = ld;
        if (ldri_decoder_open(&w->decoder, &ld->limits) < 0) return LDR_E_NOMEM;
        w->scratch = ld->ops->scratch_open(ld->backend);
        if (!w->scratch) return LDR_E_NOMEM;
        if (ldri_buffer_reserve(&w->file, (size_t)1 << 20) < 0) return LDR_E_NOMEM;
        w->hold.budget = &ld->decode_budget;
    }
    return LDR_OK;
}

static ldr_status start_threads(ldr *ld, ldr_error *err)
{
    ldr_status s = ldri_thread_start(&ld->staging, "ldr-staging", ldri_staging_main, ld, 0);
    for (uint32_t i = 0; s >= 0 && i < ld->n_workers; i++) {
        char name[16];
        snprintf(name, sizeof name, "ldr-w%u", i);
        ldri_worker *w = &ld->workers[i];
        s = ldri_thread_start(&w->thread, name, ldri_worker_main, w, WORKER_NICE);
    }
    if (s < 0) {
        ldri_error_set(err, s, errno, LDR_NO_SAMPLE,
                       "cannot start %u threads: lower threads, or raise the limit on processes "
                       "(ulimit -u)",
                       ld->n_workers + 1);
    }
    return s;
}

static void stop_threads(ldr *ld)
{
    ldri_pipeline_stop(ld);
    for (uint32_t i = 0; ld->workers && i < ld->n_workers; i++) {
        ldri_thread_join(&ld->workers[i].thread);
    }
    ldri_thread_join(&ld->staging);
}

/* Frees any prefix of what ldr_open makes; the threads are stopped. */
static void destroy(ldr *ld)
{
    for (uint32_t i = 0; ld->workers && i < ld->n_workers; i++) {
        ldri_worker *w = &ld->workers[i];
        ldri_decoder_close(&w->decoder);
        if (w->scratch) ld->ops->scratch_close(w->scratch);
        ldri_buffer_free(&w->file);
        ldri_buffer_free(&w->overflow);
    }
    if (ld->backend) ld->ops->close(ld->backend);
    for (uint32_t i = 0; ld->hosts && i < ld->n_hosts; i++) {
        ldri_host *h = &ld->hosts[i];
        free(h->jobs);
        free(h->samples);
        free(h->ok);
        if (h->lock_made) pthread_mutex_destroy(&h->lock);
    }
    for (uint32_t i = 0; ld->outputs && i < ld->n_outputs; i++) {
        free(ld->outputs[i].labels);
        free(ld->outputs[i].samples);
        free(ld->outputs[i].ok);
    }
    ldri_ring_destroy(&ld->jobs);
    ldri_ring_destroy(&ld->done);
    ldri_ring_destroy(&ld->ready);
    ldri_ring_destroy(&ld->free_outputs);
    ldri_bad_list_destroy(&ld->bad);
    ldri_budget_destroy(&ld->decode_budget);
    if (ld->lock_made) pthread_mutex_destroy(&ld->lock);
    ldri_source_close(&ld->source);
    free(ld->hosts);
    free(ld->outputs);
    free(ld->workers);
    free(ld->source_text);
    free(ld);
}

static ldr_status build(ldr *ld, ldr_error *err)
{
    ldr_status s = LDR_E_NOMEM;
    if (!(ld->source_text = strdup(ld->o.source))) goto no_memory;
    ld->o.source = ld->source_text;
    if (pthread_mutex_init(&ld->lock, NULL) != 0) goto no_memory;
    ld->lock_made = 1;
    ld->limits = (ldri_limits){ld->o.max_pixels, ld->o.max_scans, ld->o.max_file};
    ld->n_hosts = ld->n_outputs = ld->o.depth;
    ld->n_workers = ld->o.threads ? ld->o.threads : ldri_cpus_allowed();
    if ((s = ldri_source_open(&ld->source, &ld->o, err)) < 0) return s;
    if ((s = ldri_plan_init(&ld->plan, &ld->o, ldri_source_count(ld->source), err)) < 0) return s;
    if ((s = make_pools(ld)) < 0) goto no_memory;
    if ((s = make_backend(ld, err)) < 0) return s;
    if ((s = make_queues(ld)) < 0 || (s = make_workers(ld)) < 0) goto no_memory;
    return start_threads(ld, err);

no_memory:
    return ldri_error_set(err, LDR_E_NOMEM, ENOMEM, LDR_NO_SAMPLE,
                          "out of memory: lower batch, depth or threads");
}

ldr_status ldr_open(ldr **out, const ldr_options *o, ldr_error *err)
{
    ldr_error local;
    if (!err) err = &local;
    if (!out || !o) {
        return ldri_error_set(err, LDR_E_INVALID, 0, LDR_NO_SAMPLE,
                              "ldr_open: a place for the handle and the options are needed");
    }
    ldr_options resolved;
    ldr_status s = ldri_options_resolve(o, &resolved, err);
    if (s < 0) return s;
    ldr *ld = aligned_alloc(LDRI_CACHE_LINE, sizeof *ld);
    if (!ld) return ldri_error_set(err, LDR_E_NOMEM, ENOMEM, LDR_NO_SAMPLE, "out of memory");
    memset(ld, 0, sizeof *ld);
    ld->pid = getpid();
    ld->o = resolved;
    ld->first_error.sample = LDR_NO_SAMPLE;
    s = build(ld, err);
    if (s < 0) {
        stop_threads(ld);
        destroy(ld);
        return s;
    }
    *out = ld; /* last: nothing can fail now */
    return LDR_OK;
}

/* --- next and release ------------------------------------------------------------------------ */

void ldri_pipeline_stop(ldr *ld)
{
    atomic_store_explicit(&ld->stop, 1, memory_order_release);
    ldri_event_signal(&ld->work_event, UINT32_MAX);
    ldri_event_signal(&ld->hub_event, UINT32_MAX);
    ldri_event_signal(&ld->ready_event, UINT32_MAX);
    if (ld->decode_budget.lock_made) ldri_event_signal(&ld->decode_budget.event, UINT32_MAX);
}

void ldri_pipeline_fail(ldr *ld, const ldr_error *error)
{
    pthread_mutex_lock(&ld->lock);
    if (ld->first_error.status == LDR_OK) ld->first_error = *error;
    pthread_mutex_unlock(&ld->lock);
}

static int forked(const ldr *ld)
{
    return getpid() != ld->pid;
}

/* One look for a batch, under the lock.  LDR_TIMEOUT: nothing there yet. */
static ldr_status try_next(ldr *ld, ldri_out **out)
{
    if (ld->aborted) return LDR_E_ABORTED;
    if (ld->ends_pending) {
        ld->ends_pending--;
        return LDR_END;
    }
    int finished = ld->finished; /* before the pop: what was pushed before it is found */
    ldri_out *o = ldri_ring_pop(&ld->ready);
    if (!o) {
        if (finished) return ld->outcome;
        return ld->held == ld->n_outputs ? LDR_BUSY : LDR_TIMEOUT;
    }
    o->view = (o->view + 1) % LDRI_VIEWS;
    o->views[o->view].generation = ++ld->generation;
    o->held = 1;
    ld->held++;
    ld->ends_pending += (uint32_t)o->ends_epoch;
    *out = o;
    return LDR_OK;
}

static ldr_status locked_try_next(ldr *ld, ldri_out **out)
{
    pthread_mutex_lock(&ld->lock);
    ldr_status s = try_next(ld, out);
    int all_held = ld->held == ld->n_outputs;
    pthread_mutex_unlock(&ld->lock);
    /* Other callers may be waiting: now there is an end to report, or nothing can come for them. */
    if (s == LDR_OK && all_held) {
        ldri_event_signal(&ld->ready_event, UINT32_MAX);
    } else if (s == LDR_OK && (*out)->ends_epoch) {
        ldri_event_signal(&ld->ready_event, 1);
    }
    return s;
}

static ldr_status wait_next(ldr *ld, int timeout_ms, uint64_t start, ldri_out **out)
{
    ldr_status s = locked_try_next(ld, out);
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : start + (uint64_t)timeout_ms * 1000000u;
    while (s == LDR_TIMEOUT && timeout_ms != 0) {
        uint32_t ticket = ldri_event_announce(&ld->ready_event);
        s = locked_try_next(ld, out);
        if (s != LDR_TIMEOUT) {
            ldri_event_retract(&ld->ready_event);
            break;
        }
        int late = ldri_event_sleep(&ld->ready_event, ticket, deadline);
        s = locked_try_next(ld, out);
        if (late) break;
    }
    return s;
}

static void count_wait(ldr *ld, const ldri_out *out, uint64_t ns) /* under the lock */
{
    ld->batches++;
    ld->images += out->views[out->view].count;
    ld->waits++;
    ld->wait_ns += ns;
    uint64_t us = ns / 1000;
    uint32_t bucket = us ? 64 - (uint32_t)__builtin_clzll(us) : 0;
    ld->wait_histogram[bucket < 31 ? bucket : 31]++;
}

ldr_status ldr_next(ldr *ld, ldr_stream consumer, int timeout_ms, const ldr_batch **out)
{
    if (!ld || !out) return LDR_E_INVALID;
    if (forked(ld)) return LDR_E_FORKED;
    uint64_t start = ldri_now_ns();
    pthread_mutex_lock(&ld->lock);
    ld->calls_inside++;
    pthread_mutex_unlock(&ld->lock);

    ldri_out *o = NULL;
    ldr_status s = wait_next(ld, timeout_ms, start, &o);
    if (s == LDR_OK) {
        ldr_error error;
        s = ld->ops->acquire(ld->backend, o->id, consumer, &error);
        if (s < 0) ldri_pipeline_fail(ld, &error);
    }

    pthread_mutex_lock(&ld->lock);
    if (s == LDR_OK) {
        count_wait(ld, o, ldri_now_ns() - start);
        *out = &o->views[o->view];
    } else if (o) { /* not handed over after all; the loader has failed */
        o->held = 0;
        ld->held--;
        ld->finished = 1;
        ld->outcome = s;
    }
    ld->calls_inside--;
    pthread_mutex_unlock(&ld->lock);
    return s;
}

/* The output that b is the current hand-over of, or NULL. */
static ldri_out *held_output(ldr *ld, const ldr_batch *b) /* under the lock */
{
    for (uint32_t i = 0; i < ld->n_outputs; i++) {
        ldri_out *out = &ld->outputs[i];
        if (b == &out->views[out->view]) return out->held ? out : NULL;
    }
    return NULL;
}

ldr_status ldr_release(ldr *ld, const ldr_batch *b, ldr_stream last_use)
{
    if (!ld || !b) return LDR_E_INVALID;
    if (forked(ld)) return LDR_E_FORKED;
    pthread_mutex_lock(&ld->lock);
    ldri_out *out = held_output(ld, b);
    if (!out) {
        pthread_mutex_unlock(&ld->lock);
        return LDR_E_STATE;
    }
    out->held = 0; /* a second release sees it from here on */
    ld->calls_inside++;
    pthread_mutex_unlock(&ld->lock);

    ldr_error error;
    ldr_status s = ld->ops->release(ld->backend, out->id, last_use, &error);
    if (s < 0) ldri_pipeline_fail(ld, &error);

    pthread_mutex_lock(&ld->lock);
    ld->held--;
    pthread_mutex_unlock(&ld->lock);
    ldri_ring_push(&ld->free_outputs, out);
    ldri_event_signal(&ld->hub_event, 1);
    /* Another thread's ldr_next that would have said LDR_BUSY was right when it looked; nobody
     * waits for this. */

    pthread_mutex_lock(&ld->lock);
    ld->calls_inside--;
    int last = ld->retired && ld->held == 0 && ld->calls_inside == 0;
    pthread_mutex_unlock(&ld->lock);
    if (last) destroy(ld);
    return s;
}

/* --- end ------------------------------------------------------------------------------------- */

void ldr_abort(ldr *ld)
{
    if (!ld || forked(ld)) return;
    ldr_error error;
    ldri_error_set(&error, LDR_E_ABORTED, 0, LDR_NO_SAMPLE, "the loader was aborted");
    ldri_pipeline_fail(ld, &error);
    pthread_mutex_lock(&ld->lock);
    ld->aborted = 1;
    pthread_mutex_unlock(&ld->lock);
    ldri_pipeline_stop(ld);
}

ldr_status ldr_close(ldr **handle)
{
    if (!handle || !*handle) return LDR_OK;
    ldr *ld = *handle;
    if (forked(ld)) {
        /* The threads are the parent's, and a lock may have been held when it forked: touch
         * nothing. */
        *handle = NULL;
        return LDR_E_FORKED;
    }
    pthread_mutex_lock(&ld->lock);
    int busy = ld->held > 0 || ld->calls_inside > 0;
    pthread_mutex_unlock(&ld->lock);
    if (busy) return LDR_BUSY;
    stop_threads(ld);
    destroy(ld);
    *handle = NULL;
    return LDR_OK;
}

void ldr_retire(ldr *ld)
{
    if (!ld || forked(ld)) return;
    stop_threads(ld);
    pthread_mutex_lock(&ld->lock);
    ld->retired = 1;
    int last = ld->held == 0 && ld->calls_inside == 0;
    pthread_mutex_unlock(&ld->lock);
    if (last) destroy(ld);
}

/* --- what is in it --------------------------------------------------------------------------- */

const ldri_source *ldri_source_of(const ldr *ld)
{
    return ld->source;
}

uint64_t ldr_length(const ldr *ld)
{
    return ld && !forked(ld) ? ld->plan.n_batches : 0;
}

uint64_t ldr_sample_count(const ldr *ld)
{
    return ld && !forked(ld) ? ldri_source_count(ld->source) : 0;
}

uint32_t ldr_class_count(const ldr *ld)
{
    return ld && !forked(ld) ? ldri_source_class_count(ld->source) : 0;
}

const char *ldr_class_name(const ldr *ld, uint32_t class_id)
{
    return class_id < ldr_class_count(ld) ? ldri_source_class_name(ld->source, class_id) : NULL;
}

const char *ldr_sample_name(const ldr *ld, uint64_t sample)
{
    return sample < ldr_sample_count(ld) ? ldri_source_name(ld->source, sample) : NULL;
}

int64_t ldr_sample_label(const ldr *ld, uint64_t sample)
{
    return sample < ldr_sample_count(ld) ? (int64_t)ldri_source_class(ld->source, sample) : -1;
}

size_t ldr_bad_samples(const ldr *ld, ldr_bad *out, size_t capacity)
{
    if (!ld || forked(ld)) return 0;
    return ldri_bad_list_copy((ldri_bad_list *)&ld->bad, out,
                              capacity); /* the lock is not ld's content */
}

void ldr_last_error(const ldr *ld, ldr_error *out)
{
    if (!out) return;
    *out = (ldr_error){.status = LDR_OK, .sample = LDR_NO_SAMPLE};
    if (!ld) return;
    if (forked(ld)) {
        ldri_error_set(out, LDR_E_FORKED, 0, LDR_NO_SAMPLE,
                       "this loader belongs to the parent process: open one after fork");
        return;
    }
    pthread_mutex_lock((pthread_mutex_t *)&ld->lock);
    *out = ld->first_error;
    pthread_mutex_unlock((pthread_mutex_t *)&ld->lock);
}
